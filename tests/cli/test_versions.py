"""`gpu2npu versions` and `check --cann`: the torch_npu for a CANN, and the command that installs it."""

import json

from click.testing import CliRunner

from gpu2npu.cli.main import cli

INSTALL = (
    "pip install torch==2.6.0 torch-npu==2.6.0 pyyaml setuptools --extra-index-url https://download.pytorch.org/whl/cpu"
)


def run(*arguments):
    return CliRunner().invoke(cli, arguments)


def test_the_torch_npu_for_a_cann_and_the_line_for_pip():
    result = run("versions", "--cann", "8.2.RC1.1")
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0] == "CANN 8.2.RC1.1 is listed as 8.2.RC1."
    assert lines[2].split() == ["8.2.RC1", "2.6.0", "2.6.0", "3.9", "to", "3.11", "25.2.0"]
    assert lines[-1].strip() == INSTALL
    rows = json.loads(run("versions", "--cann", "8.2.RC1", "-v", "2.6", "--format", "json").output)
    assert [(row["torch_npu"], row["install"]) for row in rows] == [("2.6.0", INSTALL)]


def test_every_pair_and_the_present_ones():
    present, every = run("versions").output, run("versions", "--all").output
    assert "1.11.0.post8" in every and "not on PyPI" in every
    assert "1.11.0" not in present and "alpha" not in present and "9.1.0" in present


def test_check_takes_the_torch_npu_of_a_cann(tmp_path):
    (tmp_path / "train.py").write_text("import torch\nprint(torch.zeros(2).cuda())\n")
    result = run("check", str(tmp_path), "--cann", "8.3.RC1", "-v", "2.7", "--format", "json", "--no-cache")
    assert json.loads(result.stdout)["evidence"] == "torch_npu-2.7.1, CANN 8.3.RC1"
    assert "torch-npu==2.7.1" in result.stderr


def test_what_does_not_go_together_is_refused(tmp_path):
    for arguments, words in (
        (("--cann", "8.3.RC1", "-v", "2.4"), "there is one for PyTorch 2.8.0, 2.7.1, 2.6.0, 2.1.0"),
        (("--cann", "8.3.RC1", "--torch-npu", "2.7.1"), "without --torch-npu"),
        (("--cann", "4.0"), "is not a version of CANN"),
    ):
        result = run("check", str(tmp_path), *arguments)
        assert result.exit_code == 2 and words in result.output
    assert "nearest are" in run("versions", "--cann", "8.2.RC2").output
