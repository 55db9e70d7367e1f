import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpu2npu.records import MigratedFile, Outcome
from gpu2npu.report.launcher import LAUNCHER_NAME, MULTI_CARD, trains_on_several_cards, write_launcher

PRINT_ENVIRONMENT = "import os, sys; print(*(os.environ[name] for name in sys.argv[1:]))"
NAMES = ["MASTER_ADDR", "MASTER_PORT", "RANK_SIZE", "WORLD_SIZE", "RANK_ID", "DEVICE_ID", "RANK", "LOCAL_RANK"]


@pytest.fixture
def launcher(tmp_path: Path) -> Path:
    path = tmp_path / LAUNCHER_NAME
    write_launcher(path)
    return path


def environment(**variables: str) -> dict[str, str]:
    ours = {"NPUS", "GPU2NPU_NPUS", "ASCEND_RT_VISIBLE_DEVICES", "LOG_DIR", *NAMES}
    return {name: value for name, value in os.environ.items() if name not in ours} | variables


def start(launcher: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [launcher, *command],
        cwd=launcher.parent,
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def logs(launcher: Path, folder: str = "npu_logs") -> dict[str, str]:
    return {log.name: log.read_text() for log in (launcher.parent / folder).iterdir()}


def test_each_rank_has_its_environment_and_its_log(launcher: Path) -> None:
    done = start(launcher, sys.executable, "-c", PRINT_ENVIRONMENT, *NAMES, NPUS="2", MASTER_PORT="29777")
    assert done.returncode == 0, done.stderr
    assert logs(launcher) == {
        "rank_0.log": "127.0.0.1 29777 2 2 0 0 0 0\n",
        "rank_1.log": "127.0.0.1 29777 2 2 1 1 1 1\n",
    }


def test_one_rank_for_each_visible_npu(launcher: Path) -> None:
    done = start(launcher, "true", ASCEND_RT_VISIBLE_DEVICES="0,3,5", LOG_DIR="here")
    assert done.returncode == 0, done.stderr
    assert set(logs(launcher, "here")) == {"rank_0.log", "rank_1.log", "rank_2.log"}


def test_one_rank_for_each_emulated_npu(launcher: Path) -> None:
    done = start(launcher, "true", GPU2NPU_NPUS="3")
    assert done.returncode == 0, done.stderr
    assert len(logs(launcher)) == 3


def test_arguments_are_passed_exactly(launcher: Path) -> None:
    start(launcher, sys.executable, "-c", "import sys; print(sys.argv[1:])", "two words", "$HOME", "*", NPUS="1")
    assert logs(launcher)["rank_0.log"] == "['two words', '$HOME', '*']\n"


def test_a_command_filled_in(launcher: Path) -> None:
    text = launcher.read_text()
    launcher.write_text(text.replace("COMMAND=()", 'COMMAND=(echo "filled  in")', 1))
    assert start(launcher, NPUS="1").returncode == 0
    assert logs(launcher)["rank_0.log"] == "filled  in\n"


@pytest.mark.parametrize(
    ("command", "variables", "said"),
    [
        ([], {}, "fill in COMMAND"),
        (["true"], {"NPUS": "many"}, "NPUS is 'many'"),
        (["true"], {"NPUS": "0"}, "NPUS is '0'"),
        (["true"], {"NPUS": "3", "ASCEND_RT_VISIBLE_DEVICES": "0,1"}, "2 NPUs are visible"),
    ],
)
def test_what_cannot_be_started_is_said(
    launcher: Path, command: list[str], variables: dict[str, str], said: str
) -> None:
    done = start(launcher, *command, **variables)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (launcher.parent / "npu_logs").exists()


def test_one_failing_rank_stops_the_others(launcher: Path) -> None:
    script = "import os, sys, time; sys.exit('out of memory') if os.environ['RANK'] == '1' else time.sleep(60)"
    started = time.monotonic()
    done = start(launcher, sys.executable, "-c", script, NPUS="3")
    assert done.returncode == 1
    assert time.monotonic() - started < 30
    assert "Rank 1 failed with exit code 1" in done.stderr and "out of memory" in done.stderr


def test_stopping_the_launcher_stops_the_ranks_and_their_children(launcher: Path) -> None:
    waiting = subprocess.Popen(
        [launcher, "bash", "-c", "sleep 61 & echo $!; wait"], cwd=launcher.parent, env=environment(NPUS="2")
    )
    try:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and not all(logs_written(launcher, 2)):
            time.sleep(0.05)
        sleepers = [int(text) for text in logs(launcher).values()]
        waiting.send_signal(signal.SIGTERM)
        assert waiting.wait(timeout=20) == 128 + signal.SIGTERM
    finally:
        waiting.kill()
    assert [pid for pid in sleepers if is_running(pid)] == []


def logs_written(launcher: Path, ranks: int) -> list[bool]:
    files = [launcher.parent / "npu_logs" / f"rank_{rank}.log" for rank in range(ranks)]
    return [file.exists() and file.read_text().endswith("\n") for file in files]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"
    except FileNotFoundError:
        return False


def test_who_gets_a_launcher(launcher: Path) -> None:
    assert trains_on_several_cards(Outcome("p", (MigratedFile("a.py", traits=frozenset({MULTI_CARD})),)))
    assert not trains_on_several_cards(Outcome("p", (MigratedFile("a.py"),)))
    assert launcher.stat().st_mode & 0o777 == 0o755
