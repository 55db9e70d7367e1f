"""The files that codemods may have to change, judged quickly from their bytes."""

from __future__ import annotations

import re

from gpu2npu.codemods.choice import CodemodChoice
from gpu2npu.python.project.imports import imported_modules
from gpu2npu.support.releases import autoloads

# The spelling of a word, and characters without which it cannot be there.
Word = tuple[bytes, bytes]
# What a file has that names DataParallel: not the other wrappers. And what it has that calls the function.
DATA_PARALLEL_WORD: Word = rb"(?<!Distributed)(?<!Sharded)DataParallel", b"DataParallel"
FUNCTION_WORD: Word = rb"\bdata_parallel\s*\(", b"data_parallel"

# It begins with a word, which is searched for much faster than a line up to it.
_DEVICE = re.compile(rb"cuda(?:(?<=[\"']cuda)\b|(?<!\wcuda)\s*\()")


def may_concern(choice: CodemodChoice, version: str, path: str, source: bytes) -> bool:
    """Return whether a codemod may have to change a file."""
    if choice.amp_model is not None or choice.specify_device or choice.modelarts or choice.similar:
        return True
    if choice.affinity and b"torch" in source:
        return True
    if choice.data_parallel and any(_has(source, word) for word in (DATA_PARALLEL_WORD, FUNCTION_WORD)):
        return True
    return path == choice.main or is_silent(source, version)


def is_silent(source: bytes, version: str) -> bool:
    """Return whether a file names a card, and does not import torch, which does not load the plugin by itself."""
    return b"cuda" in source and not autoloads(version) and names_card(source) and not imports_torch(source)


def imports_torch(source: bytes) -> bool:
    return b"torch" in source and any(module.partition(".")[0] == "torch" for module in imported_modules(source))


def names_card(source: bytes) -> bool:
    """Return whether some code of a file spells `"cuda"` or calls `cuda()`."""
    starts = (found.start() for found in _DEVICE.finditer(source))
    return any(source.find(b"#", source.rfind(b"\n", 0, start) + 1, start) < 0 for start in starts)


def _has(source: bytes, word: Word) -> bool:
    pattern, text = word
    return text in source and re.search(pattern, source) is not None
