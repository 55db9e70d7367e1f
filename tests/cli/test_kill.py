"""Ended by a signal at any moment, a migration leaves no output folder or a complete one.

The moments are operations on the file system, which migrate_until.py counts: no clock chooses them.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE

import pytest

from gpu2npu.cli import signals


@dataclass(frozen=True)
class Ended:
    """The end of a migration: its exit code, negative for a signal; the operations it had done, if it could say."""

    code: int
    operations: int
    errors: str


Migrate = Callable[..., Ended]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kill") / "proj"
    for number in range(8):
        package = folder / f"p{number % 5}"
        package.mkdir(parents=True, exist_ok=True)
        (package / f"m{number}.py").write_text("import torch\n" + "torch.zeros(1).cuda()\n" * 6)
        (package / f"d{number}.bin").write_bytes(bytes(20_000))
    return folder


@pytest.fixture(scope="module")
def migrate(project: Path) -> Iterator[Migrate]:
    """`migrate(output, operation, signal, *options)`: the signal arrives at the operation of that number."""
    server = Path(__file__).with_name("migrate_until.py")
    with subprocess.Popen([sys.executable, server], stdin=PIPE, stdout=PIPE, text=True) as process:

        def run(output: Path, operation: int = 0, number: int = signal.SIGKILL, *options: str) -> Ended:
            assert process.stdin is not None and process.stdout is not None
            command = ["-i", str(project), "-o", str(output), "-v", "2.1.0", "-j", "2", "-q", *options]
            print(json.dumps([command, operation, number]), file=process.stdin, flush=True)
            return Ended(*json.loads(process.stdout.readline()))

        yield run


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but the log, whose lines have times in them."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "msFmkTranspltlog.txt")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def complete(project: Path, migrate: Migrate) -> tuple[dict[str, bytes], int]:
    """The complete output, and the number of operations that make it."""
    output = project.parent / "complete"
    ended = migrate(output)
    assert ended.code == 0
    assert ended.operations > 50
    return contents(output / "proj_msft"), ended.operations


def some_of(operations: int) -> list[int]:
    """A tenth of the way, and so on; and each of the last operations, among which the output moves into place."""
    return [operations * tenth // 10 for tenth in (1, 3, 5, 7, 9)] + list(range(operations - 4, operations + 1))


def test_killed_at_any_moment(tmp_path: Path, migrate: Migrate, complete: tuple[dict[str, bytes], int]) -> None:
    whole, operations = complete
    outputs = [tmp_path / str(moment) for moment in some_of(operations)]
    for output in outputs:
        assert migrate(output, int(output.name)).code == -signal.SIGKILL
    written = [output for output in outputs if (output / "proj_msft").exists()]
    assert all(contents(output / "proj_msft") == whole for output in written)
    # The next run clears away what a killed one left.
    unfinished = next(output for output in reversed(outputs) if output not in written)
    assert any(unfinished.iterdir())
    assert migrate(unfinished).code == 0
    assert [path.name for path in unfinished.iterdir()] == ["proj_msft"]
    assert contents(unfinished / "proj_msft") == whole


def test_killed_while_replacing(tmp_path: Path, migrate: Migrate, complete: tuple[dict[str, bytes], int]) -> None:
    whole, _ = complete
    old = {"mark": b"the old output"}

    def replace(moment: int) -> Ended:
        output = tmp_path / str(moment) / "proj_msft"
        output.mkdir(parents=True)
        (output / "mark").write_bytes(old["mark"])
        return migrate(output.parent, moment, signal.SIGKILL, "--force")

    moments = some_of(replace(0).operations)
    assert {replace(moment).code for moment in moments} == {-signal.SIGKILL}
    left = [contents(tmp_path / str(moment) / "proj_msft") for moment in moments]
    assert all(each in (old, whole) for each in left)
    assert old in left and whole in left


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_stopped_by_a_signal_it_cleans_up(
    tmp_path: Path, migrate: Migrate, complete: tuple[dict[str, bytes], int], number: signal.Signals, code: int
) -> None:
    _, operations = complete
    for tenth in (1, 5, 9):
        ended = migrate(tmp_path / "out", operations * tenth // 10, number)
        assert (ended.code, "Traceback" in ended.errors) == (code, False), ended.errors
        assert list(tmp_path.iterdir()) == []


LOOPING = """
import re, signal, sys
sys.path[:0] = {path!r}
from pathlib import Path
from gpu2npu.cli.main import main
from gpu2npu.project.migrator import Migrator

migrate = Migrator.__call__

def looping(migrator, source, path):
    if path == "slow.py":
        Path({mark!r}).touch()
        if "--file-timeout" in sys.argv:  # a thousandth of it from now: the other file has time on every machine
            signal.setitimer(signal.ITIMER_PROF, signal.getitimer(signal.ITIMER_PROF)[0] / 1000)
        re.match("(a+)+b", "a" * 60)  # a loop in C, which no signal handler interrupts
    return migrate(migrator, source, path)

Migrator.__call__ = looping
main()
"""


@pytest.fixture
def looping(tmp_path: Path) -> tuple[list[str | Path], Path]:
    """A command that migrates a project with a file on which the work never ends, and a file that then is there."""
    project, mark = tmp_path / "in" / "proj", tmp_path / "in" / "mark"
    project.mkdir(parents=True)
    for name in ("good.py", "slow.py"):
        (project / name).write_text("import torch\ntorch.zeros(1).cuda()\n")
    program = tmp_path / "in" / "program.py"
    program.write_text(LOOPING.format(path=sys.path, mark=str(mark)))
    options = ["-i", project, "-o", tmp_path / "out", "-v", "2.1.0", "-q"]
    return [sys.executable, program, *options], mark


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_loop_in_one_file_costs_that_file(looping: tuple[list[str | Path], Path], tmp_path: Path, jobs: str) -> None:
    command = [*looping[0], "-j", jobs, "--file-timeout", "500"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.stderr == "Error: slow.py: it takes longer than 500 seconds, the limit of --file-timeout\n"
    assert done.returncode == 1
    copy = tmp_path / "out" / "proj_msft"
    assert ".npu()" in (copy / "good.py").read_text()
    assert ".cuda()" in (copy / "slow.py").read_text()


@pytest.mark.parametrize(
    ("number", "code", "message"),
    [(signal.SIGINT, 130, "Error: Interrupted.\n"), (signal.SIGTERM, 143, "Error: Ended by SIGTERM.\n")],
)
def test_a_signal_ends_a_loop_and_leaves_nothing(
    looping: tuple[list[str | Path], Path],
    tmp_path: Path,
    until: Callable[..., object],
    number: signal.Signals,
    code: int,
    message: str,
) -> None:
    command, mark = looping
    with subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True, start_new_session=True) as process:
        until(mark.exists)
        process.send_signal(number)
        _, errors = process.communicate()  # ends when no worker holds the pipe any more
    assert (process.returncode, errors) == (code, message)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


HANGING = """
import itertools, os, sys
sys.path[:0] = {path!r}
from pathlib import Path
import gpu2npu.project.migration
from gpu2npu.cli.main import main

def hang(*arguments):
    begun = map(hash, map(os.mkdir, [{mark!r}]))
    sum(itertools.chain(begun, itertools.repeat(0)))  # a loop in C from its mark on: no signal handler runs in it

gpu2npu.project.migration.locate = hang
main()
"""


@pytest.mark.parametrize(
    ("number", "message"), [(signal.SIGINT, "Interrupted."), (signal.SIGTERM, "Ended by SIGTERM.")]
)
def test_a_signal_ends_a_loop_of_the_command_itself(
    tmp_path: Path, until: Callable[..., object], number: signal.Signals, message: str
) -> None:
    mark = tmp_path / "mark"
    program = HANGING.format(path=sys.path, mark=str(mark))
    command = [sys.executable, "-c", program, "-i", tmp_path, "-v", "2.1.0", "--diff", "-q"]
    with subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True) as process:
        until(mark.exists)
        process.send_signal(number)
        _, errors = process.communicate()
    assert (process.returncode, errors) == (-signal.SIGKILL, f"Error: {message}\n")


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="needs signals of POSIX")
@pytest.mark.parametrize(("number", "message"), [(None, ""), (signal.SIGTERM, "Error: Ended by SIGTERM.\n")])
def test_another_signal_does_not_kill(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], number: int | None, message: str
) -> None:
    """A timer with a handler of its own, such as that of --file-timeout, is not a reason to kill."""
    killed = []
    monkeypatch.setattr(signals, "_SECONDS", 0)
    monkeypatch.setattr(os, "kill", lambda process, number: killed.append((process, number)))
    monkeypatch.setattr(os, "_exit", lambda code: None)
    read, write = os.pipe()
    os.write(write, bytes([signal.SIGALRM, *([number] if number else [])]))
    os.close(write)
    signals._wait_and_kill(read, os.getppid())
    os.close(read)
    assert killed == ([(os.getppid(), signal.SIGKILL)] if number else [])
    assert capfd.readouterr().err == message


def test_a_full_pipe_ends_no_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(write, bytes(65536))
    with pytest.raises(BlockingIOError):
        while True:
            os.write(write, bytes(1))
    monkeypatch.setattr(signals, "_watch", (os.getpid(), write))
    signals._report_handled()
    os.close(read)
    os.close(write)
