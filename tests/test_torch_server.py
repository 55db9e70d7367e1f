"""The stand-in for `python SCRIPT` that tests of trainings use ends as a script ends, and is where a script is."""

import signal
import subprocess

import pytest

SCRIPT = """
import atexit, os, sys, threading
print(sys.argv[1:], os.getcwd(), os.environ["MINE"], input())
print("a warning", file=sys.stderr)
if sys.argv[1] == "kill":
    sys.stdout.flush()
    os.kill(os.getpid(), 9)
if sys.argv[1] == "raise":
    raise KeyError("no such picture")
atexit.register(print, "at exit")
threading.Timer(0.05, print, ["a thread"]).start()
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
