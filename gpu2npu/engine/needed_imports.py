"""The imports that the new code of a file needs, and where they go."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Sequence

from gpu2npu.engine.imports import ImportSite, anchor, binds_module, imports_package
from gpu2npu.engine.matches import Matches
from gpu2npu.engine.table import RuleTable
from gpu2npu.python.text.offsets import holds
from gpu2npu.python.text.tokens import statement_end
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import string_value
from gpu2npu.records import Bounds, Change, Edit, Operation

_PLUGIN = "torch_npu"


def needed_imports(
    edits: Sequence[Edit], matches: Matches, file: PythonFile, table: RuleTable
) -> list[tuple[Edit, Change]]:
    """The import of each module that some edits of a file need, once: in the module, or in each function that needs it.

    Each comes with the change that reports it.
    """
    needed = _needed(edits, file, table)
    imported = {module for edit in edits for module in edit.imports}
    everywhere = sorted(matches.sites, key=lambda site: file.bounds(site.statement))
    beside_torch = [site for site in everywhere if not site.names.isdisjoint(matches.anchors)]
    spelled = {module for edit in edits for module in edit.needs}
    spelled_torch = not matches.anchors.isdisjoint(each.partition(".")[0] for each in spelled)
    insertions = []
    for module, needing in needed.items():
        # To be loaded, the plugin is of use only where torch is; what is spelled goes to whatever the file imports.
        sites = everywhere if (module != _PLUGIN or module in spelled) and not beside_torch else beside_torch
        places: list[tuple[ast.stmt, bool]] = [
            (site.statement, above) for site, above in _places(sites, needing, matches, file)
        ]
        if module in spelled and not _cover(places, needing, file):  # an import in some other function is of no use
            places = [(site.statement, above) for site, above in _places(everywhere, needing, matches, file)]
            places = places if _cover(places, needing, file) else [(_first(file), True)]
        if not places and spelled_torch:  # no import of torch is left
            places = [(_first(file), True)]
        for statement, above in places:
            if module in imported and not above:
                continue
            place, text = _import_line(module, statement, above, file)
            edit = Edit(place, text, needing[0].rule, f"The result needs {module}.", operation=Operation.INSERT)
            span = file.span(statement)
            change = Change(span, edit.rule, edit.operation, edit.message, "", f"import {module}")
            insertions.append((edit, change))
    return insertions


def _needed(edits: Sequence[Edit], file: PythonFile, table: RuleTable) -> dict[str, list[Edit]]:
    """The modules that the file does not import yet, each with the edits that need it."""
    plugins: dict[str, list[Edit]] = {}
    spelled: dict[str, list[Edit]] = {}
    for edit in edits:
        plugin = table.plugins.get(edit.rule)
        if plugin is not None:
            plugins.setdefault(plugin, []).append(edit)
        for module in edit.needs:
            spelled.setdefault(module, []).append(edit)
    needed = {plugin: needing for plugin, needing in plugins.items() if not imports_package(file, plugin)}
    for module, needing in spelled.items():
        if not binds_module(file, module):
            needed[module] = [*needed.get(module, ()), *needing]
    return needed


def _places(
    sites: Sequence[ImportSite], edits: Sequence[Edit], matches: Matches, file: PythonFile
) -> list[tuple[ImportSite, bool]]:
    at_module = anchor([site for site in sites if site.scope.kind == "module"])
    if at_module is not None:
        return [at_module]
    places: list[tuple[ImportSite, bool]] = []
    others: list[tuple[ImportSite, bool]] = []
    starts = sorted(edit.place[0] for edit in edits)
    by_scope: dict[Scope, list[ImportSite]] = {}
    for site in sites:
        by_scope.setdefault(site.scope, []).append(site)
    for scope, inside in by_scope.items():
        place = anchor(inside)
        start, end = file.bounds(scope.node)
        if place is not None:
            (places if bisect_left(starts, start) < bisect_left(starts, end) else others).append(place)
    return places or (others if "self" in matches.anchors else [])  # one method imports what others read of `self`


def _cover(places: Sequence[tuple[ast.stmt, bool]], edits: Sequence[Edit], file: PythonFile) -> bool:
    """Return whether what is imported at some places is known where the edits are made."""
    scopes = [file.scope_of(statement) for statement, _ in places]
    bounds = [file.bounds(scope.node) for scope in scopes if scope.kind != "module"]
    return len(bounds) < len(scopes) or all(any(holds(each, edit.place) for each in bounds) for edit in edits)


def _first(file: PythonFile) -> ast.stmt:
    """The first statement of a file but its docstring."""
    first, *others = file.tree.body
    is_docstring = isinstance(first, ast.Expr) and string_value(first.value) is not None
    return others[0] if is_docstring and others else first


def _import_line(module: str, statement: ast.stmt, above: bool, file: PythonFile) -> tuple[Bounds, str]:
    """Return where the import of a module goes that belongs below an import statement, or above it, and its text."""
    text = file.text
    line = _line(statement, file)
    start, end = file.bounds(statement)
    line_start = file.bounds(line[0])[0]
    own_line = file.line_before(line_start) == file.indentation(line_start)  # not try: import torch
    if above and not own_line:
        return (start, start), f"import {module}; "
    if not above and not (own_line and line[-1] is statement):  # what follows may need it already
        return (end, end), f"; import {module}"
    indentation = file.indentation(line_start)
    if above:
        return (line_start, line_start), f"import {module}{file.newline}{indentation}"
    line_end = statement_end(text, end)
    if not text[:line_end].endswith(("\n", "\r")):
        return (line_end, line_end), f"{file.newline}{indentation}import {module}"
    return (line_end, line_end), f"{indentation}import {module}{file.newline}"


def _line(statement: ast.stmt, file: PythonFile) -> list[ast.stmt]:
    """The statements that stand on one line with a statement, separated by semicolons."""
    block = file.block(statement)
    first = last = block.index(statement)
    while first and block[first - 1].end_lineno == block[first].lineno:
        first -= 1
    while last + 1 < len(block) and block[last + 1].lineno == block[last].end_lineno:
        last += 1
    return list(block[first : last + 1])
