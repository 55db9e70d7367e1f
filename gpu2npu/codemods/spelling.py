"""How a file spells DistributedDataParallel where it said DataParallel."""

from __future__ import annotations

import re
from functools import lru_cache

import libcst as cst

from gpu2npu.codemods.imports import RULE, Spelling, spelling
from gpu2npu.codemods.program import ParsedFile
from gpu2npu.engine.scopes import Imported, import_module
from gpu2npu.engine.tree import dotted_name, last_name
from gpu2npu.records import StructuralEdit

DATA_PARALLEL = frozenset(
    {
        "torch.nn.DataParallel",
        "torch.nn.parallel.DataParallel",
        "torch.nn.parallel.data_parallel.DataParallel",
    }
)
# What a file has that names one of them: not the other wrappers.
WORD = rb"(?<!Distributed)(?<!Sharded)DataParallel"
_RENAMED = re.compile(r"\bDataParallel\s+as\s+(\w+)")
_ASSIGNED = re.compile(r"\b(\w+)\s*=[^=\n]*\bDataParallel\b(?!\s*\()")
_HOME, _NAME = "torch.nn.parallel", "DistributedDataParallel"
_MESSAGE = "Models are wrapped in DistributedDataParallel."


def spell_distributed(file: ParsedFile, node: cst.CSTNode, stays: bool) -> Spelling:
    """What to write where `node` says DataParallel: `nn.parallel.DistributedDataParallel` for `nn.DataParallel`.

    A name that an import brings in leaves that import, unless DataParallel `stays` in use in the file.
    """
    if isinstance(node, cst.Attribute):
        owner = file.names.qualified(node.value, file.scope_of(node))
        if owner == "torch.nn":
            return Spelling(f"{file.code(node.value)}.parallel.{_NAME}")
        if owner == _HOME:
            return Spelling(f"{file.code(node.value)}.{_NAME}")
    found = spelling(file, f"{_HOME}.{_NAME}")
    binding = None if stays else _import_of(file, node)
    if binding is None:
        return found
    assert isinstance(binding.statement, cst.ImportFrom)
    assert not isinstance(binding.statement.names, cst.ImportStar)
    if not found.edits and "." not in found.name:
        return Spelling(found.name, (_taken_out(file, binding),))
    if len(binding.statement.names) == 1:
        start, end = file.positions.of(binding.statement)
        edit = StructuralEdit(start, end, f"from {_HOME} import {_NAME}", RULE, _MESSAGE)
        return Spelling(_NAME, (edit,))
    if import_module(binding.statement) == _HOME:
        start, end = _span(file, binding.alias)
        return Spelling(_NAME, (StructuralEdit(start, end, _NAME, RULE, _MESSAGE),))
    return Spelling(found.name, (*found.edits, _taken_out(file, binding)))


def _import_of(file: ParsedFile, node: cst.CSTNode) -> Imported | None:
    """The from-import of torch that binds a name, if nothing else does."""
    found = file.scope_of(node).lookup(node.value) if isinstance(node, cst.Name) else None
    if found is None or len(found[1]) != 1 or not isinstance(found[1][0], Imported):
        return None
    binding = found[1][0]
    return binding if isinstance(binding.statement, cst.ImportFrom) and binding.qualified in DATA_PARALLEL else None


def _taken_out(file: ParsedFile, binding: Imported) -> StructuralEdit:
    """The import without the name, or nothing in its place if it was the only one."""
    assert isinstance(binding.statement, cst.ImportFrom)
    assert not isinstance(binding.statement.names, cst.ImportStar)
    aliases = list(binding.statement.names)
    index = aliases.index(binding.alias)
    start, end = _span(file, binding.alias)
    if len(aliases) == 1:
        start, end = _whole_line(file, binding.statement)
    elif index + 1 < len(aliases):
        end = _span(file, aliases[index + 1])[0]
    else:
        start = _span(file, aliases[index - 1])[1]
    return StructuralEdit(start, end, "", RULE, _MESSAGE)


def _span(file: ParsedFile, alias: cst.ImportAlias) -> tuple[int, int]:
    """Where `a as b` stands, without the comma."""
    return file.positions.of(alias.name)[0], file.positions.of(alias.asname or alias.name)[1]


def _whole_line(file: ParsedFile, statement: cst.ImportFrom) -> tuple[int, int]:
    line = file.parents[id(statement)]
    if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
        start, end = file.positions.of(line)
        return max(file.text.rfind("\n", 0, start), file.text.rfind("\r", 0, start)) + 1, end
    return file.positions.of(statement)


def is_data_parallel(file: ParsedFile, node: cst.CSTNode) -> bool:
    """Whether an expression names DataParallel."""
    if dotted_name(node) is None or last_name(node) not in _names(file.text):
        return False
    return file.names.qualified(node, file.scope_of(node)) in DATA_PARALLEL


@lru_cache(maxsize=64)
def _names(text: str) -> frozenset[str]:
    """The names that may mean DataParallel in a file: its own, and those that an import or assignment gives it."""
    return frozenset({"DataParallel", *_RENAMED.findall(text), *_ASSIGNED.findall(text)})


def api_of(file: ParsedFile, node: cst.CSTNode) -> str:
    """The name that a report gives what `node` names: DataParallel of torch.nn, or the same of torch.nn.parallel."""
    return file.names.qualified(node, file.scope_of(node)) or "torch.nn.DataParallel"
