"""Killed at any moment, a migration leaves no output folder or a complete one."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kill") / "proj"
    for number in range(20):
        package = folder / f"p{number % 7}"
        package.mkdir(parents=True, exist_ok=True)
        (package / f"m{number}.py").write_text("import torch\n" + "torch.zeros(1).cuda()\n" * 60)
        (package / f"d{number}.bin").write_bytes(bytes(20_000))
    return folder


def start(project: Path, output: Path, *options: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "gpu2npu", "-i", str(project), "-o", str(output), "-v", "2.1.0", "-j", "2", "-q"]
    return subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but the log, whose lines have times in them."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "msFmkTranspltlog.txt")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def whole(project: Path) -> tuple[dict[str, bytes], float]:
    """The complete output, and the seconds it takes to make."""
    output = project.parent / "whole"
    started = time.monotonic()
    assert start(project, output).wait() == 0
    return contents(output / "proj_msft"), time.monotonic() - started


MOMENTS = [0.2, 0.5, 0.7, 0.8, 0.87, 0.92, 0.96, 1.0]


def test_killed_at_any_moment(project: Path, tmp_path: Path, whole: tuple[dict[str, bytes], float]) -> None:
    complete, seconds = whole
    output = tmp_path / "out" / "proj_msft"
    for moment in MOMENTS:
        run = start(project, output.parent)
        time.sleep(seconds * moment)
        run.kill()
        run.communicate()
        if output.exists():
            assert contents(output) == complete
            output.rename(tmp_path / f"done{moment}")
    # The next run clears away what the killed ones left.
    assert start(project, output.parent).wait() == 0
    assert [path.name for path in output.parent.iterdir()] == ["proj_msft"]
    assert contents(output) == complete


def test_killed_while_replacing(project: Path, tmp_path: Path, whole: tuple[dict[str, bytes], float]) -> None:
    complete, seconds = whole
    output = tmp_path / "proj_msft"
    for moment in (0.7, 0.9, 0.95, 1.0):
        if output.exists():
            (output / "mark").unlink(missing_ok=True)
        else:
            assert start(project, tmp_path).wait() == 0
        (output / "mark").write_text("the old output")
        old = contents(output)
        run = start(project, tmp_path, "--force")
        time.sleep(seconds * moment)
        run.kill()
        run.communicate()
        assert contents(output) in (old, complete)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_asked_to_stop_it_cleans_up(
    project: Path, tmp_path: Path, whole: tuple[dict[str, bytes], float], number: signal.Signals, code: int
) -> None:
    output = tmp_path / "out"
    run = start(project, output)
    deadline = time.monotonic() + 30
    while not (output.exists() and any(output.iterdir())) and time.monotonic() < deadline:
        time.sleep(0.005)
    run.send_signal(number)
    _, error = run.communicate(timeout=30)
    assert b"Traceback" not in error
    assert (run.returncode, list(tmp_path.iterdir())) == (code, [])
