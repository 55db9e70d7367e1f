"""Migrating and checking where the system has no POSIX, as far as Linux can play that."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gpu2npu.system import ENDED_BY_TIMER

FIXTURE = Path(__file__).parents[1] / "fixtures" / "gan"
# Takes out what Windows lacks, once the modules are imported that ask which system this is.
WITHOUT_POSIX = """
import asyncio, concurrent.futures.process, multiprocessing.popen_spawn_posix, os, pathlib, shutil, signal, subprocess
import sys, tempfile, click, libcst, rich.console, rich.progress, rich.table
for name in ("fcntl", "resource", "pwd", "grp"):
    sys.modules[name] = None
for name in ("SIGHUP", "SIGALRM", "SIGPROF", "setitimer", "getitimer"):
    delattr(signal, name)
for name in ("O_DIRECTORY", "O_NOFOLLOW", "fork", "register_at_fork", "sched_getaffinity", "geteuid", "getuid"):
    delattr(os, name)
sys.platform = "win32"
"""


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_project_is_migrated_alike(tmp_path: Path) -> None:
    main = "from gpu2npu.cli.main import main\nmain()\n"
    outputs = []
    for name, code in (("posix", main), ("none", WITHOUT_POSIX + main)):
        done = run(code, "-i", FIXTURE, "-o", tmp_path / name, "-v", "2.7.1", "-j", 2)
        assert done.returncode == 0, done.stderr
        [output] = (tmp_path / name).iterdir()
        files = (path for path in output.rglob("*") if path.is_file() and path.name != "msFmkTranspltlog.txt")
        outputs.append({path.relative_to(output): path.read_bytes() for path in files})
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) > 5


def test_a_project_is_checked_alike(tmp_path: Path) -> None:
    main = "from gpu2npu.cli.main import main\nmain()\n"
    arguments = ("check", FIXTURE, "-v", "2.7.1", "--format", "json", "--no-cache", "-q")
    usual, without = (run(code, *arguments) for code in (main, WITHOUT_POSIX + main))
    assert json.loads(usual.stdout)["files"]
    assert (without.returncode, without.stdout) == (usual.returncode, usual.stdout), without.stderr


@pytest.mark.parametrize("prelude", ["", WITHOUT_POSIX])
def test_a_process_ends_after_its_time(prelude: str) -> None:
    done = run(
        f"{prelude}\nimport threading\nfrom gpu2npu.system import ends_after\n"
        "with ends_after(100):\n    pass\nwith ends_after(0.01):\n    threading.Event().wait()\n"
    )
    assert done.returncode in ((124,) if prelude else ENDED_BY_TIMER), done.stderr
