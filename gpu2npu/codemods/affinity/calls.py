"""Calls of PyTorch's functions for which torch_npu has an operator, and the functions of flash_attn, which an Ascend
machine cannot install: both are given to the functions of `ascend_affinity`."""

from __future__ import annotations

import ast
from collections.abc import Collection

from gpu2npu.codemods.affinity.edit import ProgramReader
from gpu2npu.codemods.affinity.exclusions.derivatives import compares_class
from gpu2npu.python.tree.syntax import arguments, is_unpacked
from gpu2npu.shapes.kind import AffinityReplacement, Find
from gpu2npu.shapes.reading import TermReader

_MODULES = frozenset({"flash_attn", "flash_attn.flash_attn_interface"})
_KINDS = ("", "kvpacked_", "qkvpacked_", "varlen_", "varlen_kvpacked_", "varlen_qkvpacked_")
_FUNCTIONS = frozenset(f"flash_attn_{kind}func" for kind in _KINDS)
# Arguments that the operator has nothing for.
_OTHER = ("alibi_slopes", "softcap", "return_attn_probs", "return_softmax", "block_table")


def renamed(
    name: str, function: str, left: Collection[str] = (), most: int = 9, since: int = 0, is_class: bool = False
) -> Find:
    """Finds calls of a qualified name without the keywords `left` and with at most `most` arguments by position, for
    PyTorch 2.`since` and later: before, a project has a function of its own under that name. A class is left in a
    program that compares exact classes with it."""

    def find(reading: ProgramReader, node: ast.Call) -> AffinityReplacement | None:
        given = {each.arg for each in node.keywords}
        if reading.qualified(node.func) != name or any(is_unpacked(each) for each in arguments(node)):
            return None
        release = tuple(int(part) for part in reading.program.version.split(".")[:2])
        fits = given.isdisjoint(left) and len(node.args) <= most and release >= (2, since)
        fits = fits and not (is_class and compares_class(reading.program, name))
        return AffinityReplacement(function=function, at=reading.file.bounds(node.func)) if fits else None

    return find


def find_flash_attention(reading: TermReader, node: ast.ImportFrom) -> AffinityReplacement | None:
    """An import of nothing but these functions that the file cannot do without."""
    names = {each.name for each in node.names}
    if node.module not in _MODULES or node.level or not names <= _FUNCTIONS:
        return None
    guarded = any(isinstance(each, (ast.Try, ast.If)) for each in reading.file.above(node))
    if guarded or any(word in reading.file.text for word in _OTHER):
        return None
    return AffinityReplacement(imports=", ".join(ast.unparse(each) for each in node.names))
