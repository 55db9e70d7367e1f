"""The files of a project that name a device in their code, or load torch_npu."""

from __future__ import annotations

import re

from gpu2npu.python.facts.record import FileFacts

_PLUGIN = "torch_npu"
_CARDS = ("cuda", "nccl")
_DEVICE = re.compile(r"cuda\b")
_CHOICE = re.compile(r"cuda|nccl|device|gpu|npu|accelerat|trainer", re.IGNORECASE)


def gets_plugin(facts: FileFacts | None) -> bool:
    """Return whether a file imports torch_npu, or is likely to once it is migrated: its code has a name of CUDA's."""
    words = (*facts.names, *facts.texts) if facts is not None else ()
    return any(word.partition(".")[0] == _PLUGIN or any(card in word for card in _CARDS) for word in words)


def may_use_card(source: bytes, facts: FileFacts | None) -> bool:
    """Return whether the code of a file has a name of a device, or of what chooses one: `Trainer(...)`; where it is not
    Python, whether its text has."""
    words = (*facts.names, *facts.texts) if facts is not None else (source.decode("ascii", "replace"),)
    return any(map(_CHOICE.search, words))


def names_device(facts: FileFacts | None) -> bool:
    """Return whether the code of a file has a string such as "cuda:0", or calls `cuda()`."""
    return facts is not None and ("cuda" in facts.called or any(map(_DEVICE.match, facts.texts)))


def imports_torch(facts: FileFacts | None) -> bool:
    """Return whether a file imports torch, or something of it."""
    return facts is not None and facts.imports_one_of(_TORCH)


_TORCH = frozenset({"torch"})
