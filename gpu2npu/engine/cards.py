"""The files of a project that name a card in their code, or load torch_npu: judged by their trees, file by file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpu2npu.python.project.interface import interface_in
from gpu2npu.python.text.source import SourceReadError, read_source
from gpu2npu.python.tree.nodes import code_words, walk
from gpu2npu.python.tree.syntax import last_name, string_value
from gpu2npu.python.tree.syntax_tree import TreeError, parse, parse_statements

_PLUGIN = "torch_npu"
# No file without one of these needs to be parsed.
_SPELLED = re.compile(rb"torch_npu|cuda|nccl")
_CARDS = ("cuda", "nccl")
_DEVICE = re.compile(r"cuda\b")
_CHOICE = re.compile(rb"cuda|nccl|device|gpu|npu|accelerat|trainer", re.IGNORECASE)
_TORCH_LINE = re.compile(rb"^(?:import|from)[ \t]+torch\b", re.MULTILINE)


def gets_plugin(source: bytes) -> bool:
    """Return whether a file imports torch_npu, or is likely to once it is migrated: its code has a name of CUDA's."""
    if _SPELLED.search(source) is None:
        return False
    words = words_of(source) or ()
    return any(word.partition(".")[0] == _PLUGIN or any(card in word for card in _CARDS) for word in words)


def may_use_card(source: bytes) -> bool:
    """Return whether the code of a file has a name of a device, or of what chooses one: `Trainer(...)`; yes where it is
    not Python."""
    if _CHOICE.search(source) is None:
        return False
    words = words_of(source)
    return words is None or any(_CHOICE.search(word.encode(errors="replace")) for word in words)


def names_device(source: bytes) -> bool:
    """Return whether the code of a file has a string such as "cuda:0", or calls `cuda()`."""
    tree = _tree(source) if b"cuda" in source else None
    return tree is not None and any(map(_is_device, walk(tree)))


def imports_torch(source: bytes) -> bool:
    """Return whether a file imports torch, or something of it."""
    line = _TORCH_LINE.search(source)
    if line is not None and parse_statements(source[: line.start()].decode("utf-8", "replace") + "pass"):
        return True  # what is above is Python by itself, so that the line is a statement: seen without the whole tree
    interface = interface_in(source, "") if b"torch" in source else None
    return interface is not None and any(module.partition(".")[0] == "torch" for module in interface.imports)


def words_of(source: bytes) -> Iterator[str] | None:
    """The words of the code of a file, without prose; None where it is not Python."""
    tree = _tree(source)
    return (word for word in code_words(tree) if not any(map(str.isspace, word))) if tree is not None else None


def _is_device(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return last_name(node.func) == "cuda"
    text = node.values[0] if isinstance(node, ast.JoinedStr) and node.values else node
    return _DEVICE.match(string_value(text) or "") is not None


def _tree(source: bytes) -> ast.Module | None:
    try:
        return parse(read_source(source, "").text)
    except (SourceReadError, TreeError):
        return None
