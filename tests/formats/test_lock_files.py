"""Packages that no rule knows, by what lock files say of them; lock files are never edited."""

import pytest

UV = """version = 1
[[package]]
name = "fast-conv"
version = "1.0"
dependencies = [{ name = "numpy" }, { name = "nvidia-cublas-cu12", marker = "sys_platform == 'linux'" }]
[[package]]
name = "nvidia-cublas-cu12"
version = "12.1"
[[package]]
name = "torch"
version = "2.1.0"
dependencies = [{ name = "nvidia-cudnn-cu12" }]
[[package]]
name = "gpu-table"
version = "1.0"
dependencies = [{ name = "nvidia-ml-py" }]
"""
POETRY = """[[package]]
name = "fast-conv"
version = "1.0"
[package.dependencies]
nvidia-nccl-cu12 = {version = "*", markers = "platform_system == 'Linux'"}
torch = "*"
[[package]]
name = "plain"
version = "1.0"
"""
PDM = """[[package]]
name = "Fast_Conv"
version = "1.0"
dependencies = ["torch", "nvidia-nccl-cu12>=2; sys_platform == 'linux'"]
"""
LOCAL = """[[package]]
name = "fast-conv"
version = "1.0+cu121torch2.1"
[[package]]
name = "torch"
version = "2.1.0+cu121"
"""
NAMED = """[[package]]
name = "fast-conv-cu12"
version = "1.0"
[[package]]
name = "torch"
version = "2.1.0"
"""


@pytest.mark.parametrize(
    ("path", "text", "reason"),
    [
        ("uv.lock", UV, "It requires nvidia-cublas-cu12. "),
        ("poetry.lock", POETRY, "It requires nvidia-nccl-cu12. "),
        ("pdm.lock", PDM, "It requires nvidia-nccl-cu12. "),
        ("uv.lock", LOCAL, "Version 1.0+cu121torch2.1 says so. "),
        ("sub/uv.lock", NAMED, "Its name says so. "),
    ],
)
def test_packages_that_are_built_for_cuda(migrate, path: str, text: str, reason: str) -> None:
    result = migrate(text, path)
    assert result.content is None
    (found,) = result.findings
    assert found.rule == "cuda-build-requirement" and found.api.startswith("fast-conv")
    assert found.message == reason + found.advice


def test_what_a_rule_is_about_is_left_to_the_requirement(migrate) -> None:
    text = '[[package]]\nname = "xformers"\nversion = "1+cu121"\n[[package]]\nname = "torch"\nversion = "2"\n'
    assert not migrate(text, "uv.lock").findings
