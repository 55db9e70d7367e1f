"""Runs scripts in children of one process that has imported torch, which takes longer than a short training.

A script runs in its client's folder and environment, with its client's arguments, output and input, as `python SCRIPT`
would run it: what is on PYTHONPATH is found, a sitecustomize there is imported, and so is the backend of torch that is
there. A recording of `gpu2npu verify` begins. What it spawns runs in children of the server, too. What else the
environment does when Python or torch starts is the server's.

The first script that has the emulated NPU on PYTHONPATH begins one more server, a child of this one that imports the
emulator too, with what the environment says of it. Its address is the answer to all such scripts.

Argument: the path of the socket to listen at.
"""

import atexit
import contextlib
import faulthandler
import fcntl
import gc
import importlib
import importlib.metadata
import json
import multiprocessing.process
import multiprocessing.spawn
import os
import runpy
import select
import signal
import socket
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # optimizers and DistributedDataParallel import it
import torch.distributed
import torch.utils.data  # noqa: F401

import gpu2npu
from gpu2npu.verify.recording import begin as recording

MOST_FILES = 250  # Linux sends as many at a time
EMULATOR = Path(gpu2npu.__file__).with_name("emulator") / "site"
# All else the emulator asks the environment when a program uses an NPU.
READ_AT_IMPORT = (
    "GPU2NPU_CONV_HF32",
    "GPU2NPU_NATIVE",
    "GPU2NPU_SHAPES_ONLY",
    "GPU2NPU_SOC",
    "GPU2NPU_TORCH_NPU",
    "INF_NAN_MODE_ENABLE",
    "INF_NAN_MODE_FORCE_DISABLE",
    "TORCH_DEVICE_BACKEND_AUTOLOAD",
    "TORCH_TRANSFER_TO_NPU",
)
Settings = tuple[tuple[str, str | None], ...]  # of these


@dataclass(frozen=True)
class Request:
    """A script to run as a client asks for it, with the client's files and the numbers that they have there."""

    script: dict[str, Any]
    brief_end: bool
    received: list[int]
    files: list[int]

    @property
    def emulator(self) -> Settings | None:
        """The environment in which the emulator is imported; None where the script does not see it."""
        environment = self.script["environment"]
        if str(EMULATOR) not in environment.get("PYTHONPATH", "").split(os.pathsep):
            return None
        return tuple((name, environment.get(name)) for name in READ_AT_IMPORT)

    def close(self) -> None:
        """Close the client's files, which the process that runs the script has."""
        for file in self.received:
            os.close(file)


def listening(path: str) -> socket.socket:
    """A socket that listens at a path."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    return listener


def serve(listener: socket.socket, emulates: bool = False) -> None:
    """Answer clients until the process that started this one ends."""
    emulating: dict[object, str] = {}  # the addresses of the servers that have imported the emulator
    parent = sys.stdin.fileno()
    while True:
        readable, _, _ = select.select([listener, parent], [], [])
        if parent in readable:  # closed
            return
        client, _ = listener.accept()
        with client:
            request = receive(client)
            if request is None:
                continue
            settings = None if emulates else request.emulator
            if settings is None:
                if not os.fork():
                    listener.close()
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    os._exit(answer(client, request))
            elif settings in emulating:
                redirect(client, emulating[settings])
            else:
                emulating[settings] = f"{listener.getsockname()}.{len(emulating)}"
                with listening(emulating[settings]) as second:
                    redirect(client, emulating[settings])
                    if not os.fork():
                        for file in (listener, client, request):
                            file.close()
                        import_emulator(settings)
                        serve(second, emulates=True)
                        os._exit(0)
            request.close()


def redirect(client: socket.socket, address: str) -> None:
    """Send a client to another server, unless it has gone."""
    with contextlib.suppress(ConnectionError):
        client.sendall(address.encode())


def import_emulator(settings: Settings) -> None:
    """Import the emulator and its kernels, for the children of this process."""
    for name, value in settings:
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    before = list(sys.path)
    sys.path.insert(0, str(EMULATOR))
    load_backends()
    sys.path[:] = before
    if "torch_npu" in sys.modules:  # early releases leave the import to the script
        importlib.import_module("gpu2npu.emulator.device.dispatch.dispatch").load_kernels()
    gc.freeze()


def receive(client: socket.socket) -> Request | None:
    """Read what a client asks for; None if it has gone."""
    text, received, _, _ = socket.recv_fds(client, 1 << 20, MOST_FILES)
    while text and b"\0" not in text:
        part = client.recv(1 << 20)
        text = text + part if part else b""
    if not text:
        for file in received:
            os.close(file)
        return None
    message = json.loads(text[:-1])
    return Request(message["request"], message["brief_end"], received, message["files"])


def answer(client: socket.socket, request: Request) -> int:
    """Run one client's script in a child, and send the client its wait status; end it when the client has gone."""
    if not (child := os.fork()):
        client.close()
        put(request.received, request.files)
        (run_with_brief_end if request.brief_end else run)(**request.script)  # which may raise SystemExit
        sys.exit()
    request.close()
    ended = os.pidfd_open(child)
    readable, _, _ = select.select([client, ended], [], [])
    if ended not in readable:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(OSError):
        client.sendall(str(status).encode())
    return 0


def put(received: list[int], numbers: list[int]) -> None:
    """Give the files of a client the numbers that they have there."""
    above = [fcntl.fcntl(file, fcntl.F_DUPFD, max(numbers) + 1) for file in received]
    for file, number in zip(above, numbers, strict=True):
        os.dup2(file, number)
    for file in {*above, *received}.difference(numbers):
        os.close(file)


def write_spawning_client(path: str, *options: str) -> str:
    """Write a program that multiprocessing takes for Python: the client of the server at a socket; return its path."""
    client = Path(__file__).with_name("client.py")
    program = Path("".join([path, ".python", *options]))
    arguments = f"sys.argv[1:1] = {[path, *options]!r}"
    program.write_text(
        f"#!{sys.executable} -IS\n"
        f"import sys\n{arguments}\nexec(compile({client.read_text()!r}, {str(client)!r}, 'exec'))\n"
    )
    program.chmod(0o700)
    return str(program)


def run(arguments: list[str], folder: str, environment: dict[str, str]) -> None:
    """Do what Python does for `python SCRIPT ARGUMENTS`, or `python -m MODULE ARGUMENTS`, after it has started."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    multiprocessing.process.ORIGINAL_DIR = folder  # where a spawned process looks for the script
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in environment
    # Those of the server know the files that it was started with.
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    sys.argv = arguments
    sys.path[0:1] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    importlib.invalidate_caches()
    sys.modules.pop("sitecustomize", None)
    with contextlib.suppress(ModuleNotFoundError):
        importlib.import_module("sitecustomize")
    if environment.get("TORCH_COMPILE_DISABLE") == "1":  # which is read when torch is imported
        os.environ["TORCHDYNAMO_DISABLE"] = "1"
    if "torch_npu" in sys.modules:
        importlib.import_module("gpu2npu.emulator.device.dispatch.tally").report_at_exit()
    else:
        load_backends()
    if "GPU2NPU_VERIFY_FOLDER" in environment:
        recording.begin()  # which else waits for torch to be imported
    if arguments[0] == "-m":
        sys.path.insert(0, folder)
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        exec(arguments[1], {"__name__": "__main__"})
    else:
        script = Path(arguments[0]).absolute()
        sys.path.insert(0, str(script.parent))
        runpy.run_path(str(script), run_name="__main__")


def load_backends() -> None:
    """Call the entry points that `import torch` calls at its end."""
    for backend in importlib.metadata.entry_points(group="torch.backends"):
        backend.load()()


def run_with_brief_end(**request: Any) -> None:
    """The same, without the end of the interpreter, which takes half a second where torch has been imported."""
    multiprocessing.set_executable(f"{os.fsdecode(multiprocessing.spawn.get_executable())}--brief-end")
    try:
        run(**request)
        code: Any = 0
    except SystemExit as end:
        code = end.code or 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]  # ends the idle threads of executors, and joins all others
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code & 255 if isinstance(code, int) else 1)


if __name__ == "__main__":
    faulthandler.enable()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    write_spawning_client(sys.argv[1], "--brief-end")
    multiprocessing.set_executable(write_spawning_client(sys.argv[1]))
    gc.freeze()  # else the collections of every child, most of all the one at its end, visit all of torch
    with listening(sys.argv[1]) as first:
        print("ready", flush=True)
        serve(first)
