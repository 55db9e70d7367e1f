"""The stand-in for `python SCRIPT` that tests of trainings use ends as a script ends, and is where a script is."""

import ast
import json
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from gpu2npu.emulator.launch import emulating

pytestmark = pytest.mark.torch

SERVER = Path(__file__).with_name("torch_server") / "server.py"

SCRIPT = """
import atexit, os, sys, threading
from concurrent.futures import ThreadPoolExecutor
print(sys.argv[1:], os.getcwd(), os.environ["MINE"], input())
print("a warning", file=sys.stderr)
if sys.argv[1] == "kill":
    sys.stdout.flush()
    os.kill(os.getpid(), 9)
if sys.argv[1] == "raise":
    raise KeyError("no such picture")
atexit.register(print, "at exit")
threading.Timer(0.05, print, ["a thread"]).start()
idle = ThreadPoolExecutor(1)
idle.submit(int).result()
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture(params=["torch_python", "training_python"])
def python(request):
    return request.getfixturevalue(request.param)


def test_a_script_ends_as_it_would_alone(python, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    module = subprocess.run(
        [*python, "-m", "script", "3"], cwd=tmp_path, env={"MINE": ""}, input="\n", text=True, check=False
    )
    assert module.returncode == 3
    for way, code, last, error in (
        ("0", 0, "a thread\nat exit\n", ""),
        ("7", 7, "a thread\nat exit\n", ""),
        ("raise", 1, "", "KeyError"),
        ("kill", -signal.SIGKILL, "", ""),
    ):
        ran = subprocess.run(
            [*python, "script.py", way],
            cwd=tmp_path,
            env={"MINE": "variable"},
            input="line\n",
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ran.returncode, ran.stdout) == (code, f"['{way}'] {tmp_path} variable line\n{last}"), ran.stderr
        assert ran.stderr.startswith("a warning\n") and error in ran.stderr


SPAWN = """
import sys

import torch.multiprocessing as mp


def rank(rank, queue, way):
    queue.put((rank, __name__, len(sys.argv)))
    if way == "raise" and rank == 1:
        raise KeyError("no such picture")


if __name__ == "__main__":
    queue = mp.get_context("spawn").SimpleQueue()
    mp.spawn(rank, (queue, sys.argv[1]), nprocs=2)
    print(sorted([queue.get(), queue.get()]))
"""


def test_what_a_script_spawns_ends_as_it_would_alone(python, tmp_path):
    (tmp_path / "script.py").write_text(SPAWN)
    command = [*python, "script.py"]
    ran = subprocess.run([*command, "end"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "[(0, '__mp_main__', 2), (1, '__mp_main__', 2)]\n"), ran.stderr
    ran = subprocess.run([*command, "raise"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (1, "") and "KeyError: 'no such picture'" in ran.stderr


READING = """
import os

import torch


class Recorded(type(os.environ)):
    def __getitem__(self, name):
        names.add(name)
        return super().__getitem__(name)


names = set()
os.environ.__class__ = Recorded
import torch_npu
from gpu2npu.emulator.device.dispatch import dispatch

dispatch.load_kernels()
print(*sorted(names))
"""


def test_what_decides_how_the_emulator_is_imported_is_known(training_python, tmp_path):
    """Else scripts would have an emulator that was imported in the environment of another."""
    (tmp_path / "script.py").write_text(f"import sys\nsys.path.insert(0, sys.argv[1])\n{READING}")
    command = [*training_python, "script.py", str(SERVER.parents[2] / "gpu2npu" / "emulator" / "site")]
    ran = subprocess.run(command, cwd=tmp_path, env={"GPU2NPU_NATIVE": "0"}, capture_output=True, text=True, check=True)
    tables = [node for node in ast.parse(SERVER.read_text()).body if isinstance(node, ast.Assign)]
    (known,) = [ast.literal_eval(table.value) for table in tables if table.targets[0].id == "READ_AT_IMPORT"]
    assert set(ran.stdout.split()) == {*known, "GPU2NPU_OP_REPORT"}  # which the server asks for each script


EMULATED = """
import torch

print(torch.npu.device_count(), torch.npu.get_device_name(), torch.npu.conv.allow_hf32, torch.ones(2).npu().tolist())
"""


def test_scripts_with_different_environments_have_emulators_of_their_own(python, tmp_path):
    (tmp_path / "script.py").write_text(EMULATED)
    for npus, soc, hf32 in ((2, "Ascend910A", "1"), (4, "Ascend910A", "1"), (4, "Ascend910B4", "0")):
        environment = emulating({**os.environ, "GPU2NPU_CONV_HF32": hf32}, python="python", npus=npus, soc=soc)
        ran = subprocess.run(
            [*python, "script.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert ran.stdout == f"{npus} {soc} {hf32 == '1'} [1.0, 1.0]\n", ran.stderr


def test_clients_that_have_gone_are_no_matter(python, tmp_path):
    """One that sent nothing, one that sent half of its request, and one whose answer would be another address."""
    environment = emulating({"GPU2NPU_CONV_HF32": "0"}, python="python")
    request = {"arguments": ["script.py"], "folder": str(tmp_path), "environment": environment}
    message = json.dumps({"request": request, "files": [], "brief_end": True}).encode() + b"\0"
    for sent in (b"", message[:20], message, message):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(python[4]))
            client.sendall(sent)
    (tmp_path / "script.py").write_text("print('here')")
    ran = subprocess.run([*python, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout == "here\n"
