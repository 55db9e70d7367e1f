"""The bytes of one file in, a MigratedFile out."""

from __future__ import annotations

import ast
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from gpu2npu.engine.context import ProjectContext
from gpu2npu.engine.imports import anchor, binds_module, imported_modules, imports_package
from gpu2npu.engine.match import find_matches
from gpu2npu.engine.matches import Bounds, Code, Edit, Found, ImportSite, Matches, Question
from gpu2npu.engine.npu_branches import other_branches
from gpu2npu.engine.rewrites import Replacement, in_source, rewritten
from gpu2npu.engine.skips import Skips, find_skips
from gpu2npu.engine.table import RuleTable, outside, rule_table
from gpu2npu.python.file import PythonFile, read_file
from gpu2npu.python.inference import infer_kinds
from gpu2npu.python.kinds import OWN
from gpu2npu.python.names import Names
from gpu2npu.python.scopes import Scope
from gpu2npu.python.source import SourceError, SourceFile, read_source
from gpu2npu.python.text import splice
from gpu2npu.python.tokens import statement_end
from gpu2npu.python.tree import TreeError
from gpu2npu.python.types import UNKNOWN
from gpu2npu.records import Change, FileRewrite, Finding, FindingKind, MigratedFile, Operation
from gpu2npu.rulebook.rule import Rulebook

_PLUGIN = "torch_npu"


def has_trigger(source: bytes, rulebook: Rulebook, version: str) -> bool:
    """Whether a file contains a word that some rule could be for; without one it stays as it is."""
    return rule_table(rulebook, version).trigger.is_in(source)


def migrate_source(
    source: bytes, path: str, rulebook: Rulebook, context: ProjectContext, rewrite: FileRewrite | None = None
) -> MigratedFile:
    """Apply the rules to one file, after what the codemods do to it. A file that cannot be migrated comes back with the
    reason as its failure."""
    if rewrite is None and not rule_table(rulebook, context.version).trigger.is_in(source):
        return MigratedFile(path)
    if rewrite is not None:
        return _guarded(source, path, partial(_after_codemods, rewrite=rewrite, rulebook=rulebook, context=context))
    return _guarded(source, path, lambda file: _migrate(Names.of(file, context.project), rulebook, context)[0])


def unreadable(source: bytes, path: str) -> str | None:
    """Why a Python file could not be migrated if there were something to migrate in it; None where it could."""
    return _guarded(source, path, _parse).failure


def _parse(source: SourceFile) -> MigratedFile:
    Names.of(source, ProjectContext().project)
    return MigratedFile(source.path)


def _guarded(source: bytes, path: str, work: Callable[[SourceFile], MigratedFile]) -> MigratedFile:
    """The result of `work` for a file, or why there is none."""
    try:
        return work(read_source(source, path))
    except (SourceError, TreeError) as error:
        return MigratedFile(path, failure=str(error))
    except UnicodeEncodeError as error:
        return MigratedFile(path, failure=f"the result does not fit its encoding {error.encoding}")


def _after_codemods(
    file: SourceFile, rewrite: FileRewrite, rulebook: Rulebook, context: ProjectContext
) -> MigratedFile:
    after = replace(file, text=rewritten(file.text, rewrite))
    # The project's other files go on seeing the source.
    migrated, replacements = _migrate(Names(read_file(after), context.project), rulebook, context)
    if migrated.content is None and after.text != file.text:
        migrated = replace(migrated, content=file.encode(after.text))
    return in_source(migrated, replacements, file.text, after.text, rewrite)


def _migrate(names: Names, rulebook: Rulebook, context: ProjectContext) -> tuple[MigratedFile, list[Replacement]]:
    """The file after the rules, and what they replaced in its text."""
    file = names.file
    skips = find_skips(file.text)
    without = outside(rulebook, file.path, skips.file, imported_modules(file))
    table = rule_table(rulebook, context.version, without)
    if table.users_names:
        names = Names(file, context.project, wanted=table.users_names)
    return _rewrite(names, context, table, skips)


def _rewrite(
    names: Names, context: ProjectContext, table: RuleTable, skips: Skips
) -> tuple[MigratedFile, list[Replacement]]:
    file = names.file
    matches = find_matches(names, context, table, skips)
    if not (matches.edits or matches.found or matches.questions):
        return MigratedFile(file.path, traits=frozenset(matches.traits)), []
    _leave_other_branches(matches, file)
    for question in matches.questions:
        _settle(question, matches, names)
    _apply_skips(matches, skips, file)
    replacements = _replacements(matches.edits, file)
    changes = [_change(edit, file, replacements) for edit in matches.edits]
    for replacement, change in _insertions(matches, file, table):
        replacements.append(replacement)
        changes.append(change)
    findings = sorted({_finding(found, file) for found in matches.found}, key=lambda f: (f.span, f.rule, f.api))
    content = file.source.encode(splice(file.text, replacements)) if replacements else None
    migrated = MigratedFile(
        file.path,
        content=content,
        changes=tuple(sorted(changes, key=lambda change: (change.span, change.rule))),
        findings=tuple(findings),
        traits=frozenset(matches.traits),
    )
    return migrated, replacements


def _leave_other_branches(matches: Matches, file: PythonFile) -> None:
    """Drop what is in code that runs on no NPU, but not the new names of what the file imports."""
    places = other_branches(file)

    def is_kept(place: Bounds) -> bool:
        return not any(start <= place[0] and place[1] <= end for start, end in places)

    def is_local(place: Bounds) -> bool:
        text = file.text[place[0] : place[1]]
        return text.isidentifier() and not file.text.endswith(".", 0, place[0])

    if places:
        matches.edits = [edit for edit in matches.edits if is_kept(edit.place) or is_local(edit.place)]
        matches.found = [found for found in matches.found if is_kept(found.place)]
        matches.questions = [question for question in matches.questions if is_kept(question.edit.place)]


def _settle(question: Question, matches: Matches, names: Names) -> None:
    """Keep the member of an object of the project's own class; edit it where the object is anything else."""
    kinds = infer_kinds(names, question.receiver, question.member)
    if kinds == {OWN}:
        return
    edit = question.edit
    matches.edits.append(edit)
    if OWN in kinds or kinds == {UNKNOWN}:
        message = (
            f"Classes of this project define {question.member} themselves, and the type of this object is not certain: "
            f"check that it is a tensor or module."
        )
        matches.found.append(Found(edit.place, edit.rule, FindingKind.REVIEW, question.member, message))


def _apply_skips(matches: Matches, skips: Skips, file: PythonFile) -> None:
    """Drop what the file's own comments switch off."""

    def is_kept(item: Edit | Found) -> bool:
        span = file.lines.span(*item.place)
        return not skips.covers(item.rule, span.start_line, span.end_line)

    if skips.lines:
        matches.edits = [edit for edit in matches.edits if is_kept(edit)]
        matches.found = [found for found in matches.found if is_kept(found)]


def _replacements(edits: Iterable[Edit], file: PythonFile) -> list[Replacement]:
    """Where each edit's text goes, sorted. Small ones come first: larger ones may be made of code they are in."""
    done: list[Replacement] = []
    for edit in sorted(edits, key=lambda edit: edit.place[1] - edit.place[0]):
        pieces = (edit.text,) if isinstance(edit.text, str) else edit.text
        done.append((*edit.extent, "".join(_code(piece, file.text, done) for piece in pieces)))
    return sorted(done)


def _code(piece: Code, text: str, done: list[Replacement]) -> str:
    if isinstance(piece, str):
        return piece
    start, end = piece
    inside = [(begin - start, until - start, new) for begin, until, new in done if start <= begin and until <= end]
    return splice(text[start:end], inside)


def _change(edit: Edit, file: PythonFile, replacements: list[Replacement]) -> Change:
    start, end = edit.shown or edit.place
    near = replacements[bisect_left(replacements, (start,)) : bisect_right(replacements, (end, end, "\U0010ffff"))]
    inside = [(first - start, last - start, new) for first, last, new in near if last <= end]
    before = file.text[start:end]
    is_gone = edit.replaced is not None and edit.shown is None  # with its line
    after = "" if is_gone else splice(before, inside)
    return Change(file.lines.span(*edit.place), edit.rule, edit.operation, edit.message, before, after)


def _finding(found: Found, file: PythonFile) -> Finding:
    span = file.lines.span(*found.place)
    return Finding(span, found.rule, found.kind, found.api, found.message, found.severity)


# The imports that the edits need


def _insertions(matches: Matches, file: PythonFile, table: RuleTable) -> list[tuple[Replacement, Change]]:
    """The import of each module that the file's edits need, once: in the module, or in each function that needs it."""
    plugins: dict[str, list[Edit]] = {}
    spelled: dict[str, list[Edit]] = {}
    for edit in matches.edits:
        plugin = table.plugins.get(edit.rule)
        if plugin is not None:
            plugins.setdefault(plugin, []).append(edit)
        for module in edit.needs:
            spelled.setdefault(module, []).append(edit)
    needed = {plugin: edits for plugin, edits in plugins.items() if not imports_package(file, plugin)}
    for module, edits in spelled.items():
        if not binds_module(file, module):
            needed[module] = [*needed.get(module, ()), *edits]
    everywhere = sorted(matches.sites, key=lambda site: file.bounds(site.statement))
    beside_torch = [site for site in everywhere if not site.names.isdisjoint(matches.anchors)]
    insertions = []
    for module, edits in needed.items():
        # To be loaded, the plugin is of use only where torch is; what is spelled goes to whatever the file imports.
        sites = everywhere if (module != _PLUGIN or module in spelled) and not beside_torch else beside_torch
        for site, above in _places(sites, edits, file):
            message = f"The result needs {module}."
            span = file.span(site.statement)
            change = Change(span, edits[0].rule, Operation.INSERT, message, "", f"import {module}")
            insertions.append((_import_line(module, site.statement, above, file), change))
    return insertions


def _places(sites: Sequence[ImportSite], edits: Sequence[Edit], file: PythonFile) -> list[tuple[ImportSite, bool]]:
    at_module = anchor([site for site in sites if site.scope.kind == "module"])
    if at_module is not None:
        return [at_module]
    places = []
    starts = sorted(edit.place[0] for edit in edits)
    by_scope: dict[Scope, list[ImportSite]] = {}
    for site in sites:
        by_scope.setdefault(site.scope, []).append(site)
    for scope, inside in by_scope.items():
        place = anchor(inside)
        start, end = file.bounds(scope.node)
        if place is not None and bisect_left(starts, start) < bisect_left(starts, end):
            places.append(place)
    return places


def _import_line(module: str, statement: ast.stmt, above: bool, file: PythonFile) -> Replacement:
    """Where the import of a module goes that belongs below an import statement, or above it, and its text."""
    text = file.text
    line = _line(statement, file)
    start, end = file.bounds(statement)
    line_start = file.bounds(line[0])[0]
    own_line = file.line_before(line_start) == file.indentation(line_start)  # not try: import torch
    if above and not own_line:
        return start, start, f"import {module}; "
    if not above and not (own_line and line[-1] is statement):  # what follows may need it already
        return end, end, f"; import {module}"
    indentation = file.indentation(line_start)
    if above:
        return line_start, line_start, f"import {module}{file.newline}{indentation}"
    line_end = statement_end(text, end)
    if not text[:line_end].endswith(("\n", "\r")):
        return line_end, line_end, f"{file.newline}{indentation}import {module}"
    return line_end, line_end, f"{indentation}import {module}{file.newline}"


def _line(statement: ast.stmt, file: PythonFile) -> list[ast.stmt]:
    """The statements that stand on one line with a statement, separated by semicolons."""
    block = file.block(statement)
    first = last = block.index(statement)
    while first and block[first - 1].end_lineno == block[first].lineno:
        first -= 1
    while last + 1 < len(block) and block[last + 1].lineno == block[last].end_lineno:
        last += 1
    return list(block[first : last + 1])
