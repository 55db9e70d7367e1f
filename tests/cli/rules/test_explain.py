"""Tests of the way from a line to the row of the table of behaviour, or to the rule, and to its source."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from gpu2npu.cli.main import cli

PROGRAM = """import torch
from torch._six import inf
x = torch.ones(2).cuda()
y = x.double()
z = torch.histogramdd(x, 2)
"""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (2, ("Reported by torch-six", "Source: https://github.com/pytorch/pytorch/pull/94709")),
        (
            4,
            (
                "Reported by npu-limit",
                "float64-cast: other dtype",
                "Source: torch_npu/csrc/aten/common/ToKernelNpu.cpp",
            ),
        ),
        (5, ("Reported by torch-api", "are not registered for the NPU (torch_npu-2.1.0")),
    ],
)
def test_a_line_leads_to_the_row_and_the_source(tmp_path: Path, line: int, words: tuple[str, ...]) -> None:
    (tmp_path / "wide.py").write_text(PROGRAM)
    shown = CliRunner().invoke(cli, ["rules", "explain", f"{tmp_path / 'wide.py'}:{line}"])
    assert shown.exit_code == 0 and [each for each in words if each not in shown.output] == []
