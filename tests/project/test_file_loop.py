import functools
import gc
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpu2npu.project.pool import Pool, migrate_files
from gpu2npu.project.worker_processes import TaskEndedError, Workers, available_cpus
from gpu2npu.records import MigratedFile

# Worker processes are tried in a program of their own, as the command is one: a test process may run threads, beside
# which it is not safe to fork.
PROGRAM = """
import os, re, sys, signal
sys.path[:0] = {path!r}
from gpu2npu.project.pool import Pool
from gpu2npu.project.pool import migrate_files
from gpu2npu.records import MigratedFile

def migrate(source, path):
    if path.startswith("kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    if path.startswith("deep"):
        raise RecursionError("maximum recursion depth exceeded")
    if path.startswith("bug"):
        raise KeyError("x")
    if path.startswith("late"):  # a thousandth of its limit from now: that is the same on every machine
        signal.setitimer(signal.ITIMER_PROF, signal.getitimer(signal.ITIMER_PROF)[0] / 1000)
    if path.startswith(("late", "long")):
        re.match("(a+)+b", "a" * 60)  # a loop in C that no signal handler interrupts
    return MigratedFile(path, source[:1] + str(os.getpid() != parent).encode())

if __name__ == "__main__":
    parent = os.getpid()
    {body}
"""


def run_program(tmp_path: Path, body: str) -> list[str]:
    program = tmp_path / "program.py"
    indented = textwrap.indent(textwrap.dedent(body), "    ").strip()
    program.write_text(PROGRAM.format(path=sys.path, body=indented))
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


def upper(source: bytes, path: str) -> MigratedFile:
    if path == "bad":
        raise KeyError("x")
    return MigratedFile(path, source.upper())


SOURCES = {"a": b"one", "b": b"three", "bad": b"", "c": b"four"}


def by_path(files: list[MigratedFile]) -> dict[str, bytes | str | None]:
    return {file.path: file.failure or file.content for file in files}


EXPECTED = {"a": b"ONE", "b": b"THREE", "c": b"FOUR", "bad": "an internal error of gpu2npu (KeyError: 'x')"}


def test_small_projects_stay_in_this_process() -> None:
    assert by_path(list(migrate_files(upper, SOURCES, Pool(8)))) == EXPECTED


def test_any_executor_will_do() -> None:
    with ThreadPoolExecutor(2) as executor:
        assert by_path(list(migrate_files(upper, SOURCES, Pool(8, executor)))) == EXPECTED


def test_large_files_come_first() -> None:
    assert [file.path for file in migrate_files(upper, SOURCES, Pool(1))] == ["b", "c", "a", "bad"]


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_left_as_it_was(enabled: bool) -> None:
    was_enabled = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        thresholds = gc.get_threshold()
        list(migrate_files(upper, SOURCES, Pool(1)))
        assert (gc.isenabled(), gc.get_threshold()) == (enabled, thresholds)
    finally:
        (gc.enable if was_enabled else gc.disable)()


def test_processes(tmp_path: Path) -> None:
    body = """
    files = {f"f{number}": str(number).encode() * 9_000 for number in range(20)}
    files |= {"deep": b"x", "bug": b"y"}
    for file in sorted(migrate_files(migrate, files, Pool(3)), key=lambda file: file.path):
        print(file.path, file.content, file.failure)
    """
    lines = run_program(tmp_path, body)
    assert lines == sorted(
        [
            *(f"f{number} {str(number)[:1].encode() + b'True'!r} None" for number in range(20)),
            "bug None an internal error of gpu2npu (KeyError: 'x')",
            "deep None its code is nested too deeply, or its names refer to each other in too long a chain",
        ]
    )


def test_a_killed_worker_costs_only_its_own_file(tmp_path: Path) -> None:
    body = """
    files = {f"f{number}": b"0" * 9_000 for number in range(30)} | {"kill1": b"1" * 10_000, "kill2": b"2"}
    done = list(migrate_files(migrate, files, Pool(2)))
    assert sorted(file.path for file in done) == sorted(files)
    for file in sorted(done, key=lambda file: file.path):
        if file.failure:
            print(file.path, file.failure)
    """
    assert run_program(tmp_path, body) == [
        "kill1 the process that migrated it ended unexpectedly",
        "kill2 the process that migrated it ended unexpectedly",
    ]


def test_a_file_that_takes_too_long_costs_only_itself(tmp_path: Path) -> None:
    body = """
    files = {f"f{number}": b"0" * 9_000 for number in range(10)} | {"late1": b"1" * 10_000, "late2": b"2" * 9_999}
    done = list(migrate_files(migrate, files, Pool(2, seconds=500)))
    assert sorted(file.path for file in done) == sorted(files)
    for file in sorted(done, key=lambda file: file.path):
        if file.failure:
            print(file.path, file.failure)
    """
    assert run_program(tmp_path, body) == [
        "late1 it takes longer than 500 seconds, the limit of --file-timeout",
        "late2 it takes longer than 500 seconds, the limit of --file-timeout",
    ]


def test_a_limit_of_time_needs_a_process_even_for_one_small_file(tmp_path: Path) -> None:
    body = """
    print(*(file.content for file in migrate_files(migrate, {"a": b"1"}, Pool(1, seconds=1_000))))
    print(*(file.failure for file in migrate_files(migrate, {"late": b"1"}, Pool(1, seconds=500.5))))
    print(*(file.content for file in migrate_files(migrate, {"a": b"1"}, Pool(1))))
    """
    assert run_program(tmp_path, body) == [
        "b'1True'",
        "it takes longer than 500.5 seconds, the limit of --file-timeout",
        "b'1False'",
    ]


def test_left_early_it_kills_workers_that_are_in_a_loop(tmp_path: Path) -> None:
    body = """
    import multiprocessing
    done = migrate_files(migrate, {"long": b"1" * 200_000, "a": b"2"}, Pool(2, seconds=1_000))
    assert next(done).path == "a"
    done.close()
    print(multiprocessing.active_children())
    """
    assert run_program(tmp_path, body) == ["[]"]


def test_workers_end_when_the_parent_is_killed(tmp_path: Path, until: Callable[..., object]) -> None:
    body = """
    import multiprocessing
    files = {f"f{number}": b"0" * 9_000 for number in range(30)}
    for file in migrate_files(migrate, files, Pool(2)):
        print(*(child.pid for child in multiprocessing.active_children()), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    program = tmp_path / "program.py"
    indented = textwrap.indent(textwrap.dedent(body), "    ").strip()
    program.write_text(PROGRAM.format(path=sys.path, body=indented))
    # Returns when the pipe is closed, which the workers hold too.
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == -9
    pids = done.stdout.split()
    assert len(pids) == 2
    until(lambda: not any(map(is_running, pids)))


def is_running(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"
    except FileNotFoundError:
        return False


class Deadly:
    """Ends the process that loads it."""

    def __reduce__(self) -> tuple[Callable[[int], None], tuple[int]]:
        return os._exit, (3,)


def test_a_worker_that_dies_while_it_reads_what_to_do_is_not_waited_for() -> None:
    ask = functools.partial(print, Deadly(), bytes(1 << 20))  # more than a pipe holds
    release = threading.Event()
    other = threading.Thread(target=release.wait)  # beside it, workers are started without a fork
    other.start()
    try:
        [(task, answer)] = Workers(1).answers(ask, ["task"])
    finally:
        release.set()
        other.join()
    assert task == "task" and isinstance(answer, TaskEndedError)


def test_available_cpus() -> None:
    assert available_cpus() >= 1


ENDED_AS_IT_STARTS = """
import multiprocessing, os, signal, sys
from multiprocessing.process import BaseProcess
sys.path[:0] = {path!r}
from gpu2npu.project.worker_processes import Workers

class Ended(BaseException): ...

def end(number, frame):
    raise Ended

start = BaseProcess.start

def start_and_end(process):
    start(process)
    os.kill(os.getpid(), signal.SIGTERM)

BaseProcess.start = start_and_end
signal.signal(signal.SIGTERM, end)
try:
    list(Workers(2).answers(abs, [1, 2]))
except Ended:
    print(len(multiprocessing.active_children()))
"""


def test_a_signal_while_a_worker_starts_leaves_no_worker() -> None:
    program = ENDED_AS_IT_STARTS.format(path=sys.path)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("0\n", "")
