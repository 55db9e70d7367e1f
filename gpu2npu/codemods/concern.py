"""The files that codemods may have to change, judged quickly from their bytes."""

from __future__ import annotations

import re

from gpu2npu.codemods.choice import CodemodChoice
from gpu2npu.engine.cards import imports_torch, names_device
from gpu2npu.support.releases import autoloads

# The spelling of a word, and characters without which it cannot be there.
Word = tuple[bytes, bytes]
# What a file has that names DataParallel: not the other wrappers. And what it has that calls the function.
DATA_PARALLEL_WORD: Word = rb"(?<!Distributed)(?<!Sharded)DataParallel", b"DataParallel"
FUNCTION_WORD: Word = rb"\bdata_parallel\s*\(", b"data_parallel"


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
    return b"cuda" in source and not (autoloads(version) or imports_torch(source)) and names_device(source)


def _has(source: bytes, word: Word) -> bool:
    pattern, text = word
    return text in source and re.search(pattern, source) is not None
