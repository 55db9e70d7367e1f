"""A package that a plugin brings to Ascend as it is: nothing in it blocks it."""

from pathlib import Path

import pytest

from gpu2npu.project.check.notes import plugin_note, plugins
from gpu2npu.project.check.readiness import readiness
from gpu2npu.report.check.result import NativeCode, Verdict
from gpu2npu.rulebook import load_rulebook


@pytest.mark.parametrize(
    ("pyproject", "folder", "has_one"),
    [
        ('[project]\nname = "vLLM"\n', "src", True),
        ("", "vllm-0.33.0.dist-info", True),
        ('[project]\nname = "vllm-tools"\n', "vllm", False),
        ("[project]\nname = 3\n", "vllm_tools-1.0.dist-info", False),
        ("project = 'vllm'\n", "vllm", False),
        ("not toml", "vllm", False),
    ],
)
def test_the_plugin_is_by_the_name_of_the_distribution(
    tmp_path: Path, pyproject: str, folder: str, has_one: bool
) -> None:
    (tmp_path / folder).mkdir()
    if pyproject:
        (tmp_path / "pyproject.toml").write_text(pyproject)
    found = plugin_note(tmp_path, plugins(load_rulebook().rules))
    assert ("vllm-ascend" in found and "https://" in found) is has_one
    assert plugin_note(tmp_path, {}) == ""


def test_a_plugin_takes_the_place_of_what_blocks() -> None:
    native = NativeCode(kernels=3)
    assert readiness([], native).verdict is Verdict.BLOCKED
    with_plugin = readiness([], native, "A plugin.")
    assert with_plugin.verdict is Verdict.REVIEW
    assert with_plugin.plugin == "A plugin. Without it 3 places would block."
    assert readiness([], NativeCode(), "a plugin").verdict is Verdict.NO_CUDA
