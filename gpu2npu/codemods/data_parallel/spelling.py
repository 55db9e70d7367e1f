"""The spelling of DistributedDataParallel in a file that names DataParallel."""

from __future__ import annotations

import ast

from gpu2npu.codemods.program.files import ParsedFile
from gpu2npu.codemods.spellings import RULE, Spelling, spelling
from gpu2npu.engine.rewriting.statements import removal
from gpu2npu.python.meaning.live_names import LiveName, live_names
from gpu2npu.python.text.templates import code, plain
from gpu2npu.python.tree.scopes import Imported
from gpu2npu.python.tree.syntax import dotted_name, import_module
from gpu2npu.records import Edit

_HOME, _NAME = "torch.nn.parallel", "DistributedDataParallel"
DATA_PARALLEL = frozenset(f"torch.nn.{home}DataParallel" for home in ("", "parallel.", "parallel.data_parallel."))
DATA_PARALLEL_FUNCTION = frozenset({"torch.nn.parallel.data_parallel", "torch.nn.parallel.data_parallel.data_parallel"})
_MESSAGE = "Models are wrapped in DistributedDataParallel."


def spell_distributed(file: ParsedFile, node: ast.AST, stays: bool) -> Spelling:
    """Return what to write in place of DataParallel: `nn.parallel.DistributedDataParallel` for `nn.DataParallel`.

    A name that an import brings in leaves that import, unless DataParallel `stays` in use in the file.
    """
    if isinstance(node, ast.Attribute):
        owner = file.qualified(node.value)
        if owner == "torch.nn":
            return Spelling(f"{file.code(node.value)}.parallel.{_NAME}")
        if owner == _HOME:
            return Spelling(f"{file.code(node.value)}.{_NAME}")
    found = spelling(file, f"{_HOME}.{_NAME}")
    binding = None if stays else _import_of(file, node)
    if binding is None:
        return found
    statement = binding.statement
    if not found.edits and "." not in found.name:
        return Spelling(found.name, (_taken_out(file, binding),))
    if len(statement.names) == 1:
        start, end = file.bounds(statement)
        edit = Edit((start, end), code("from {home} import {name}", home=_HOME, name=_NAME), RULE, _MESSAGE)
        return Spelling(_NAME, (edit,))
    if isinstance(statement, ast.ImportFrom) and import_module(statement) == _HOME:
        start, end = file.bounds(binding.alias)
        return Spelling(_NAME, (Edit((start, end), plain(_NAME), RULE, _MESSAGE),))
    return Spelling(found.name, (*found.edits, _taken_out(file, binding)))


def without_import(file: ParsedFile, node: ast.AST) -> tuple[Edit, ...]:
    """The edit that takes the name of `node` out of its import, where all uses of it go."""
    binding = _import_of(file, node)
    return () if binding is None else (_taken_out(file, binding),)


def _import_of(file: ParsedFile, node: ast.AST) -> Imported | None:
    """The from-import of torch that binds a name, if nothing else does."""
    found = file.scope_of(node).lookup(node.id) if isinstance(node, ast.Name) else None
    if found is None or len(found[1]) != 1 or not isinstance(found[1][0], Imported):
        return None
    binding = found[1][0]
    return binding if isinstance(binding.statement, ast.ImportFrom) and binding.qualified in DATA_PARALLEL else None


def _taken_out(file: ParsedFile, binding: Imported) -> Edit:
    """The import without the name, or nothing in its place if it was the only one."""
    if len(binding.statement.names) == 1:
        return removal(file, binding.statement, RULE, _MESSAGE)
    return Edit(file.bounds(binding.alias), "", RULE, _MESSAGE)


def is_data_parallel(file: ParsedFile, node: ast.AST) -> bool:
    """Return whether an expression names DataParallel, and nothing else on any way to it."""
    if dotted_name(node) is None or file.qualified(node) not in DATA_PARALLEL:
        return False
    return {each.qualified in DATA_PARALLEL for each in live_names(file.names, node)} == {True}


def other_values(file: ParsedFile, node: ast.AST) -> list[LiveName]:
    """The values besides DataParallel of an expression, by path and line; none if it never names DataParallel."""
    is_rebound = isinstance(node, ast.Name) and len(file.scope_of(node).bound(node)) > 1
    if dotted_name(node) is None or not (is_rebound or file.qualified(node) in DATA_PARALLEL):
        return []
    live = live_names(file.names, node)
    others = [each for each in live if each.qualified not in DATA_PARALLEL]
    return sorted(others, key=lambda each: (each.path, each.line)) if len(others) < len(live) else []


def api_of(file: ParsedFile, node: ast.AST) -> str:
    """The name that a report gives what `node` names: DataParallel of torch.nn, or the same of torch.nn.parallel."""
    found = file.qualified(node)
    return found if found is not None and found in DATA_PARALLEL else "torch.nn.DataParallel"
