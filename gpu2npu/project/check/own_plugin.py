"""Packages that run on Ascend as they are, beside a plugin that brings the platform and its kernels."""

from __future__ import annotations

import re
from pathlib import Path

from gpu2npu.project.config import project_name

# By the name of the distribution, which has no separators that would have to be compared, with the source and its date.
_PLUGINS = {
    # https://docs.vllm.ai/projects/ascend/en/latest/getting_started/ (2026-11)
    "vllm": "vllm runs on Ascend beside its plugin vllm-ascend, which brings the platform and kernels: install both.",
}
_INSTALLED = re.compile(r"(?P<name>[\w.]+?)-[^-]+\.dist-info")


def own_plugin(root: Path) -> str:
    """The sentence about the plugin of the package that a folder is, an unpacked wheel or its sources; "" for none."""
    unpacked = (_INSTALLED.fullmatch(each.name) for each in root.glob("*.dist-info"))
    names = {project_name(root), *(match["name"] for match in unpacked if match is not None)}
    return next((_PLUGINS[name] for name in map(str.lower, sorted(names)) if name in _PLUGINS), "")
