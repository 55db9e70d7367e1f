"""The record of a migrated file: the edits of codemods and rules as one text with imports, changes, findings."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, NamedTuple

from gpu2npu.engine.imports import ImportSite, anchor, binds_module, imports_package
from gpu2npu.engine.marks import merged
from gpu2npu.engine.matches import Matches
from gpu2npu.engine.other_devices.npu import mentions_npu
from gpu2npu.engine.table import RuleTable
from gpu2npu.python.text.edits import Edited
from gpu2npu.python.text.offsets import holds
from gpu2npu.python.text.templates import code, line_below, lines_above
from gpu2npu.python.text.tokens import statement_end
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.scopes import Assigned, Scope
from gpu2npu.python.tree.syntax import string_value
from gpu2npu.python.tree.syntax_tree import TreeError, parse
from gpu2npu.records import (
    KNOWS_NPUS,
    Bounds,
    Change,
    Edit,
    FileRewrite,
    Finding,
    FindingKind,
    Found,
    MigratedFile,
    Operation,
    Text,
)

if TYPE_CHECKING:
    from gpu2npu.python.text.writing import Written


class Migration(NamedTuple):
    """The record of a file, and its text with the edits, where there are any."""

    record: MigratedFile
    edited: Edited | Written | None = None


def migrated_file(
    file: PythonFile, matches: Matches, table: RuleTable, rewrite: FileRewrite, writes: bool = True
) -> Migration:
    """The file after what codemods (`rewrite`) and rules (`matches`) do to it. Where nobody reads the new code, nothing
    `writes` it, and the changes do not have it."""
    traits = rewrite.traits | matches.traits
    if mentions_npu(file.text) and matches.stays.branches:
        traits |= {KNOWS_NPUS}
    edits = [*rewrite.edits, *matches.edits]
    if not edits and not matches.found and not rewrite.found:
        return Migration(MigratedFile(file.path, traits=traits))
    made = {edit for edit, _ in Edited(file.text, edits).made()}
    in_order = [edit for edit in (*matches.edits, *rewrite.edits) if edit in made]
    imports = needed_imports(in_order, matches, file, table)
    placed = [*(edit for edit, _ in imports), *edits]
    edited = Edited(file.text, placed)
    written = _written(file, edited) if made and writes else None
    refused = written.refused if written is not None else {}
    after = _After(edited, written.codes if written is not None else {})
    changes = [change for edit, change in imports if edit not in refused]
    changes += _changes(file, after, [edit for edit in matches.edits if edit not in refused])
    changes += _changes_of_codemods(file, after, [edit for edit in rewrite.edits if edit not in refused])
    lost = [*lost_insertions(placed, {edit for edit, _ in edited.made()}), *_refused(file, refused)]
    record = MigratedFile(
        file.path,
        content=_content(file, written) if made and (written is None or written.replacements) else None,
        changes=tuple(sorted(changes, key=lambda change: (change.span, change.rule))),
        findings=_findings(
            file, matches.found, [*rewrite.found, *lost], rewrite.edits, [e for e in matches.edits if e in made]
        ),
        traits=frozenset(traits),
    )
    return Migration(record, (written or edited) if made else None)


def _written(file: PythonFile, edited: Edited) -> Written:
    from gpu2npu.python.text.writing import rewritten

    return rewritten(file, edited)


def _content(file: PythonFile, written: Written | None) -> bytes:
    """The new text in the encoding of the file. Raises TreeError: the new text is not Python."""
    if written is None:
        return b""
    text = written.text
    try:
        parse(text)
    except TreeError as error:
        raise TreeError(f"the result would not be Python, {error}: the file stays as it is") from error
    return file.source.encode(text)


class _After(NamedTuple):
    """The new code of places: that which LibCST wrote for it, or the text of the edits."""

    edited: Edited
    codes: Mapping[Bounds, str]

    def of(self, place: Bounds) -> str:
        found = self.codes.get(place)
        return found if found is not None else self.edited.between(*place)


def _changes(file: PythonFile, after: _After, edits: Sequence[Edit]) -> Iterator[Change]:
    """The changes of the rules; what they do inside the code of a codemod is part of that codemod's change."""
    ours = set(edits)
    for edit, outer in after.edited.made():
        if edit not in ours or (outer is not None and outer not in ours):
            continue
        start, end = edit.shown or edit.place
        is_gone = edit.operation is Operation.DELETE and (edit.shown is None or edit.is_block)
        new = "" if is_gone else after.of((start, end))
        if start == end and isinstance(edit.text, str):  # a statement or a decorator that is added
            new = edit.text.strip()
        span = file.lines.span(*((start, end) if edit.is_block else edit.place))
        yield Change(span, edit.rule, edit.operation, edit.message, file.text[start:end], new)


def _changes_of_codemods(file: PythonFile, after: _After, edits: Sequence[Edit]) -> Iterator[Change]:
    """The changes of codemods."""
    ours = set(edits)
    for edit, outer in after.edited.made():
        if edit not in ours or (outer is not None and outer in ours):
            continue
        start, end = edit.place
        before, new = file.text[start:end], after.codes.get(edit.place) or after.edited.written(edit)
        if edit.is_block:  # not its indentation and its line end
            start, end = start + len(before) - len(before.lstrip()), start + len(before.rstrip())
            before = file.text[start:end]
        operation = Operation.MODIFY if before.strip() and new.strip() else Operation.DELETE
        if not before.strip():
            operation = Operation.INSERT
        yield Change(file.lines.span(start, end), edit.rule, operation, edit.message, before, new)


def lost_insertions(edits: Sequence[Edit], made: Set[Edit]) -> Iterator[Found]:
    """The findings about new lines that are not made, for other edits take their place."""
    for edit in edits:
        new = "".join(piece for piece in edit.pieces if isinstance(piece, str)).strip()
        if edit not in made and new and (edit.place[0] == edit.place[1] or edit.is_block):
            message = f"{edit.message} `{new}` is not added, for another change replaces the code here: add it by hand."
            yield Found(edit.place, edit.rule, FindingKind.REVIEW, new, message)


def _refused(file: PythonFile, edits: Iterable[Edit]) -> Iterator[Found]:
    """The findings about edits that do not change a node, and so are not made."""
    for edit in edits:
        gap = "" if edit.is_block else "..."
        text = "".join(piece if isinstance(piece, str) else gap for piece in edit.pieces).strip()
        message = f"{edit.message} `{text}` cannot be written here: change it by hand."
        yield Found(edit.place, edit.rule, FindingKind.REVIEW, text or file.text[slice(*edit.place)], message)


def _findings(
    file: PythonFile, found: Sequence[Found], certain: Sequence[Found], codemods: Sequence[Edit], rules: Sequence[Edit]
) -> tuple[Finding, ...]:
    """The findings, each once: those that are `certain`, and what the rules `found` about code that stays, but where
    a certain one is of the same rule on the same line; of an import that another rule edits, nothing."""
    own = [each.at(file.lines.span(*each.place)) for each in certain]
    answered = {(finding.span.start_line, finding.rule) for finding in own}
    imports = [edit for edit in rules if _is_import(file, edit)]
    left = [
        each.at(file.lines.span(*each.place))
        for each in found
        if _stays(each.place, codemods)
        and not _is_replaced(each, rules)
        and not any(holds(edit.shown or edit.place, each.place) and edit.rule != each.rule for edit in imports)
    ]
    return merged(own, left, lambda finding: (finding.span.start_line, finding.rule) in answered)


def _is_replaced(found: Found, edits: Sequence[Edit]) -> bool:
    """Return whether a finding is of a string inside code whose replacement has it no more.

    One at a string that is edited itself is about the new one: a package is given `"npu"` now."""
    return found.api[:1] in ("'", '"') and any(
        edit.place != found.place
        and holds(edit.place, found.place)
        and not any(not isinstance(piece, str) and holds(piece, found.place) for piece in edit.pieces)
        for edit in edits
    )


def _is_import(file: PythonFile, edit: Edit) -> bool:
    """Return whether an edit takes an import out, or gives it another module; not where other names of it stay."""
    start, end = edit.shown or edit.place
    words = file.text[start:end].split(None, 1)[:1]
    is_whole = edit.place == (start, end) if edit.text == "" else edit.place[0] > start
    return words in (["from"], ["import"]) and is_whole


def _stays(place: Bounds, edits: Sequence[Edit]) -> bool:
    """Return whether the code at a place is still there after the edits of codemods."""
    if not any(holds(edit.place, place) for edit in edits):
        return True
    return any(not isinstance(piece, str) and holds(piece, place) for edit in edits for piece in edit.pieces)


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
    torch_sites = [site for site in everywhere if not site.names.isdisjoint(matches.anchors)]
    spelled = {module for edit in edits for module in edit.needs}
    spelled_torch = not matches.anchors.isdisjoint(each.partition(".")[0] for each in spelled)
    insertions = []
    for module, needing in needed.items():
        # To be loaded, the plugin is of use only where torch is; what is spelled is for whatever the file imports.
        sites = everywhere if (module != _PLUGIN or module in spelled) and not torch_sites else torch_sites
        places: list[tuple[ast.stmt, bool]] = [
            (site.statement, above) for site, above in _places(sites, needing, matches, file)
        ]
        if module in spelled and not _cover(places, needing, file):  # an import in some other function is of no use
            places = [(site.statement, above) for site, above in _places(everywhere, needing, matches, file)]
            places = places if _cover(places, needing, file) else [(_first(file), True)]
        if not places and spelled_torch:  # no import of torch is left
            places = [(_first(file), True)]
        if not places:  # torch, nn = try_import_torch()
            places = [(each, False) for each in _calls_for("torch", file)]
        for statement, above in places:
            if module in imported and not above:
                continue
            place, text = _import_line(module, statement, above, file)
            edit = Edit(place, text, needing[0].rule, f"The result needs {module}.", operation=Operation.INSERT)
            span = file.span(statement)
            change = Change(span, edit.rule, edit.operation, edit.message, "", f"import {module}")
            insertions.append((edit, change))
    return insertions


def _calls_for(name: str, file: PythonFile) -> Iterator[ast.stmt]:
    """The statements of a module that give a name what a call returns."""
    for each in file.module.bindings.get(name, ()):
        if isinstance(each, Assigned) and isinstance(each.statement, ast.Assign) and isinstance(each.value, ast.Call):
            yield each.statement


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


def _import_line(module: str, statement: ast.stmt, above: bool, file: PythonFile) -> tuple[Bounds, Text]:
    """Return where the import of a module is put that belongs below an import statement, or above it, and its text."""
    line = _line(statement, file)
    start, end = file.bounds(statement)
    line_start = file.bounds(line[0])[0]
    is_on_line = file.line_before(line_start) == file.indentation(line_start)  # not try: import torch
    if above and not is_on_line:
        return (start, start), code("import {module}; ", module=module)
    if not above and not (is_on_line and line[-1] is statement):  # what follows may need it already
        return (end, end), code("; import {module}", module=module)
    new = code("import {module}", module=module)
    if above:
        return (line_start, line_start), lines_above(file, line_start, [new])
    line_end = statement_end(file.text, end)
    return (line_end, line_end), line_below(file, line_end, file.indentation(line_start), new)


def _line(statement: ast.stmt, file: PythonFile) -> list[ast.stmt]:
    """The statements that are on one line with a statement, separated by semicolons."""
    block = file.block(statement)
    first = last = block.index(statement)
    while first and block[first - 1].end_lineno == block[first].lineno:
        first -= 1
    while last + 1 < len(block) and block[last + 1].lineno == block[last].end_lineno:
        last += 1
    return list(block[first : last + 1])
