"""Runs scripts in children of one process that has imported torch, which takes longer than a short training.

A script runs in its client's folder and environment, with its client's arguments, output and input, as `python SCRIPT`
would run it: what is on PYTHONPATH is found, a sitecustomize there is imported, and so is the backend of torch that is
there. A recording of `gpu2npu verify` begins. What it spawns runs in children of the server, too. What else the
environment does when Python or torch starts is the server's.

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
import os
import runpy
import select
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # optimizers and DistributedDataParallel import it
import torch.distributed
import torch.utils.data  # noqa: F401

from gpu2npu.verify.recording import begin as recording

MOST_FILES = 250  # Linux sends as many at a time


def serve(path: str) -> None:
    """Answer clients until the process that started this one ends."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        print("ready", flush=True)
        parent = sys.stdin.fileno()
        while True:
            readable, _, _ = select.select([listener, parent], [], [])
            if parent in readable:  # closed
                return
            client, _ = listener.accept()
            with client:
                if not os.fork():
                    listener.close()
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    os._exit(answer(client))


def answer(client: socket.socket) -> int:
    """Run one client's script in a child, and tell the client its wait status; end it when the client has gone."""
    text, received, _, _ = socket.recv_fds(client, 1 << 20, MOST_FILES)
    while b"\0" not in text:
        text += client.recv(1 << 20)
    message = json.loads(text[:-1])
    if not (child := os.fork()):
        client.close()
        put(received, message["files"])
        (run_with_brief_end if message["brief_end"] else run)(**message["request"])  # which may raise SystemExit
        sys.exit()
    for file in received:
        os.close(file)
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


def write_spawning_client(path: str) -> str:
    """Write a program that multiprocessing takes for Python: the client of the server at a socket; return its path."""
    client = Path(__file__).with_name("client.py")
    program = Path(f"{path}.python")
    begin = (
        f"import sys\nsys.argv.insert(1, {path!r})\nexec(compile({client.read_text()!r}, {str(client)!r}, 'exec'))\n"
    )
    program.write_text(f"#!{sys.executable} -IS\n{begin}")
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
    for backend in importlib.metadata.entry_points(group="torch.backends"):
        backend.load()()
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


def run_with_brief_end(**request: Any) -> None:
    """The same, without the end of the interpreter, which takes half a second where torch has been imported."""
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
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code & 255 if isinstance(code, int) else 1)


if __name__ == "__main__":
    faulthandler.enable()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    multiprocessing.set_executable(write_spawning_client(sys.argv[1]))
    gc.freeze()  # else the collections of every child, most of all the one at its end, go over all of torch
    serve(sys.argv[1])
