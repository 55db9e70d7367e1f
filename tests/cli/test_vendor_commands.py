"""The vendor's commands do what ours do, with the vendor's arguments."""

import subprocess
import sys

import pytest

from gpu2npu.cli.vendor_commands import without_environment


def run(command, *arguments):
    code = f"from gpu2npu.cli.vendor_commands import {command}; {command}()"
    return subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True)


def test_folders_of_modules_are_taken_out():
    given = ["-i", "a", "-env", "x", "y", "-m", "third_party", "--env-path", "z"]
    assert without_environment(given) == (["-i", "a", "-m", "third_party"], ["x", "y", "z"])
    given = ["-i", "a", "-env", "x", "distributed", "-m", "train.py"]
    assert without_environment(given) == (["-i", "a", "distributed", "-m", "train.py"], ["x"])


@pytest.mark.parametrize(
    ("command", "written"),
    [("pytorch_gpu2npu", "p_msft/change_list.csv"), ("pytorch_analyse", "p_analysis/unsupported_api.csv")],
)
def test_a_project(tmp_path, command, written):
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "a.py").write_text("import torch\nx = torch.ones(2).cuda()\n")
    ended = run(command, "-i", tmp_path / "p", "-o", tmp_path, "-v", "2.1.0", "-env", tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "-env changes nothing here" in ended.stderr
    assert (tmp_path / written).exists(), sorted(tmp_path.rglob("*"))


def test_a_folder_that_is_not_there(tmp_path):
    ended = run("pytorch_analyse", "-env", tmp_path / "none")
    assert ended.returncode == 2 and "is not a folder" in ended.stderr
