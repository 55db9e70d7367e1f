"""Tests of what a shell script finds under `gpu2npu run`: npu-smi with its processes' numbers, and Ascend's files."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

GPU2NPU = Path(sys.executable).with_name("gpu2npu")

SCRIPT = """\
set -eu
source /usr/local/Ascend/ascend-toolkit/set_env.sh
. /usr/local/Ascend/nnae/set_env.sh
. /usr/local/Ascend/cann/set_env.sh
[ -f "$ASCEND_HOME_PATH/opp_kernel/version.info" ]
[ -d "$ASCEND_HOME_PATH" ]; [ -d "$ASCEND_TOOLKIT_HOME" ]; [ -f /usr/local/Ascend/driver/version.info ]
[ -d /usr/local/bin ]  # what was there still is
[ -f /opt/Ascend/ascend-toolkit/latest/version.info ]; source /opt/Ascend/cann/set_env.sh
msnpureport -g error -d 0
mkfifo ready done
python train.py &
read -r _ < ready
npu-smi info -t proc-mem -i 1
npu-smi info | grep 'No running processes found in NPU 0'
echo > done
wait
npu-smi info | grep 'No running processes found in NPU 1'
"""
TRAINING = """\
import torch
kept = torch.ones(64, 1 << 20, device="npu:1")
from gpu2npu.emulator.machine import processes
import os, time
while not any(process.pid == os.getpid() and process.uses for process in processes.running()):
    time.sleep(0.01)
open("ready", "w").write("\\n")
open("done").read()
"""


def mounts_are_permitted():
    code = "from gpu2npu.emulator.machine.filesystem import *; exit(EXPECTED[0] in show_ascend_files())"
    return subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def run(folder, *command):
    environment = {**os.environ, "GPU2NPU_RUN_FOLDER": str(folder / "run")}
    return subprocess.run(
        [GPU2NPU, "run", "--npus", "2", *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_a_script_with_set_e_runs_to_its_end(tmp_path):
    if not mounts_are_permitted():
        pytest.skip("this machine does not let a process mount anything")
    (tmp_path / "train.sh").write_text(SCRIPT)
    (tmp_path / "train.py").write_text(TRAINING)
    result = run(tmp_path, "bash", "train.sh")
    assert result.returncode == 0, result.stderr
    assert "Process memory(MB):258" in result.stdout
    assert "No running processes found in NPU 1" in result.stdout
    assert not list((tmp_path / "run").iterdir())


def test_programs_are_on_the_path_and_variables_name_folders_that_exist(tmp_path):
    result = run(
        tmp_path,
        "sh",
        "-c",
        'npu-smi -v; ls -d "$ASCEND_HOME_PATH" "$ASCEND_TOOLKIT_HOME"; . "$ASCEND_HOME_PATH/set_env.sh"',
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("npu-smi version: 24.1.0")


def test_the_home_folder_has_the_files_while_a_script_runs(tmp_path):
    if not mounts_are_permitted():
        pytest.skip("this machine does not let a process mount anything")
    script = tmp_path / "train.sh"
    script.write_text("set -e\n. ~/Ascend/cann/set_env.sh\n[ -f $HOME/Ascend/driver/version.info ]\ntouch ~/result\n")
    done = subprocess.run(
        [GPU2NPU, "run", "bash", script], env={**os.environ, "HOME": str(tmp_path)}, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "result").exists()
    deadline = time.monotonic() + 20
    while (tmp_path / "Ascend").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not (tmp_path / "Ascend").exists()


def test_where_nothing_can_be_mounted_the_run_says_what_to_do(tmp_path, monkeypatch):
    from gpu2npu.cli import run as command
    from gpu2npu.emulator.launch import Launch

    script = tmp_path / "train.sh"
    script.write_text("source ~/Ascend/ascend-toolkit/set_env.sh\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(command, "show_ascend_files", lambda home: [Path("/opt/Ascend"), *([home] if home else [])])
    messages = []
    monkeypatch.setattr(command, "say", lambda text, err: messages.append(text))
    command._show_ascend_files(Launch("/bin/bash", ("bash", str(script)), {}))
    assert len(messages) == 1
    assert f"ln -s {command.ASCEND} {tmp_path}/Ascend`" in messages[0]
    command._show_ascend_files(Launch("/bin/bash", ("bash", "-c", "true"), {}))
    assert len(messages) == 1
