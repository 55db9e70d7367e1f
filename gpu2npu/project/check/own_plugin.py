"""The plugin that brings a package to Ascend as it is, for a check of the package's own sources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from gpu2npu.distributions import normalised
from gpu2npu.project.config import project_name

_INSTALLED = re.compile(r"(?P<name>[\w.]+?)-[^-]+\.dist-info")


def own_plugin(root: Path, plugins: Mapping[str, str]) -> str:
    """The sentence about the plugin of the package that a folder is, an unpacked wheel or its sources; "" for none.

    `plugins` has the sentences by the normalised names of distributions.
    """
    unpacked = (_INSTALLED.fullmatch(each.name) for each in root.glob("*.dist-info"))
    called = (project_name(root), *(match["name"] for match in unpacked if match is not None))
    return next((plugins[name] for name in map(normalised, called) if name in plugins), "")
