"""The bytes of one file in, a MigratedFile out."""

from __future__ import annotations

import ast
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import libcst as cst

from gpu2npu.engine.context import ProjectContext
from gpu2npu.engine.edits import Code, Edit, Positions, RoundTripError, locate, splice
from gpu2npu.engine.imports import ImportSite, anchor, binds_module, imported_modules, imports_package
from gpu2npu.engine.inference import infer_kinds
from gpu2npu.engine.literals import is_for_part
from gpu2npu.engine.match import find_matches
from gpu2npu.engine.matches import Doubt, Found, Matches
from gpu2npu.engine.names import Names
from gpu2npu.engine.prose import without_prose
from gpu2npu.engine.python_tree import python_tree
from gpu2npu.engine.receivers import OWN, UNKNOWN
from gpu2npu.engine.rewrites import Replacement, in_source, rewritten
from gpu2npu.engine.scopes import collect_scopes
from gpu2npu.engine.skips import Skips, find_skips
from gpu2npu.engine.table import RuleTable, outside, rule_table
from gpu2npu.engine.tree import children
from gpu2npu.python.source import SourceError, SourceFile, read_source
from gpu2npu.records import Change, FileRewrite, Finding, FindingKind, MigratedFile, Operation
from gpu2npu.rulebook.rule import Rulebook

_PLUGIN = "torch_npu"
# A long chain of `elif` is that deep a tree; the walks recurse twice a level.
_RECURSION_LIMIT = 10_000


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
    return _guarded(source, path, lambda file: _migrate(file, rulebook, context)[0])


def unreadable(source: bytes, path: str) -> str | None:
    """Why a Python file could not be migrated if there were something to migrate in it; None where it could."""
    return _guarded(source, path, _parse).failure


def _parse(file: SourceFile) -> MigratedFile:
    _python_parse(file.text)
    cst.parse_module(file.text)
    return MigratedFile(file.path)


def _guarded(source: bytes, path: str, work: Callable[[SourceFile], MigratedFile]) -> MigratedFile:
    """What `work` makes of a file, or why it cannot."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _RECURSION_LIMIT))
    try:
        file = read_source(source, path)
        return work(file)
    except cst.ParserSyntaxError as error:
        return MigratedFile(path, failure=_syntax_error(file.text, error))
    except (SourceError, RoundTripError) as error:
        return MigratedFile(path, failure=str(error))
    except (RecursionError, MemoryError):
        return MigratedFile(path, failure="its expressions are nested too deeply to be parsed")
    except UnicodeEncodeError as error:
        return MigratedFile(path, failure=f"the result does not fit its encoding {error.encoding}")
    finally:
        sys.setrecursionlimit(limit)


def _after_codemods(
    file: SourceFile, rewrite: FileRewrite, rulebook: Rulebook, context: ProjectContext
) -> MigratedFile:
    after = replace(file, text=rewritten(file.text, rewrite))
    migrated, replacements = _migrate(after, rulebook, context)
    if migrated.content is None and after.text != file.text:
        migrated = replace(migrated, content=file.encode(after.text))
    return in_source(migrated, replacements, file.text, after.text, rewrite)


def _migrate(file: SourceFile, rulebook: Rulebook, context: ProjectContext) -> tuple[MigratedFile, list[Replacement]]:
    """The file after the rules, and what they replaced in its text."""
    path = file.path
    skips = find_skips(file.text)
    table = rule_table(rulebook, context.version, outside(rulebook, path, skips.file))
    parsed = _python_parse(file.text)
    if parsed is not None:
        code = without_prose(file.text, parsed, partial(is_for_part, table))
        if not table.trigger.is_in(code):
            return MigratedFile(path), []
    module = cst.parse_module(file.text)
    scopes = collect_scopes(module)
    without = outside(rulebook, path, skips.file, imported_modules(scopes))
    table = rule_table(rulebook, context.version, without)
    names = Names(path, scopes, context, wanted=table.users_names)
    return _rewrite(file, module, parsed, names, table, skips)


def _python_parse(text: str) -> ast.Module | None:
    """The file as Python's own parser sees it; None where the syntax is not this Python's.

    It comes before LibCST's parser, which it takes a tenth of the time of, because that one crashes on nesting so deep
    that this one refuses it.

    Raises:
        RecursionError, MemoryError: The nesting is too deep.
    """
    try:
        return python_tree(text)
    except SyntaxError as error:
        if "too many nested" in str(error.msg):
            raise RecursionError from error
        return None
    except ValueError:  # null bytes
        return None


def _syntax_error(text: str, error: cst.ParserSyntaxError) -> str:
    """What is wrong in Python's own words, where this Python agrees: LibCST lists every token it could have taken."""
    try:
        python_tree(text)
    except SyntaxError as own:
        return f"syntax error at line {own.lineno or 1}: {own.msg}"
    except ValueError as own:
        return f"syntax error: {own}"
    return f"syntax error at line {error.raw_line}: this syntax is not known to the parser"


def _rewrite(
    file: SourceFile, module: cst.Module, parsed: ast.Module | None, names: Names, table: RuleTable, skips: Skips
) -> tuple[MigratedFile, list[Replacement]]:
    matches = find_matches(module, file.text, names, table, skips)
    if not (matches.edits or matches.found or matches.doubts):
        return MigratedFile(file.path, traits=frozenset(matches.traits)), []
    positions = locate(module, parsed, file.text, _wanted(matches), frozenset(matches.above))
    for doubt in matches.doubts:
        _settle(doubt, matches, names, positions)
    _apply_skips(matches, skips, positions)
    replacements = _replacements(matches.edits, positions)
    changes = [_change(edit, positions, replacements) for edit in matches.edits]
    for insertion in _insertions(matches, names, positions, table, module.default_newline):
        replacements.append(insertion[0])
        changes.append(insertion[1])
    findings = sorted({_finding(found, positions) for found in matches.found}, key=lambda f: (f.span, f.rule, f.api))
    content = file.encode(splice(file.text, replacements)) if replacements else None
    migrated = MigratedFile(
        file.path,
        content=content,
        changes=tuple(sorted(changes, key=lambda change: (change.span, change.rule))),
        findings=tuple(findings),
        traits=frozenset(matches.traits),
    )
    return migrated, replacements


def _wanted(matches: Matches) -> Iterable[cst.CSTNode]:
    for edit in matches.edits:
        yield from edit.nodes()
    for found in matches.found:
        yield found.node
    for doubt in matches.doubts:
        yield doubt.receiver
        yield doubt.edit.node
    for site in matches.sites:
        yield site.statement
        yield site.line


def _settle(doubt: Doubt, matches: Matches, names: Names, positions: Positions) -> None:
    """Keep the method of an object of the user's own class; edit it where the object is anything else, or unknown."""
    start, end = positions.of(doubt.receiver)
    called = positions.text[start:end].endswith(")")
    name_end = _callee_end(doubt.receiver, positions) if called else end
    span = positions.span(start, name_end)
    kinds = (
        frozenset({UNKNOWN})
        if name_end == start
        else infer_kinds(names, positions.text, span.end_line, span.end_column, called, doubt.member)
    )
    if kinds == {OWN}:
        return
    matches.edits.append(doubt.edit)
    if OWN in kinds or kinds == {UNKNOWN}:
        message = (
            f"Classes of this project define {doubt.member} themselves, and the type of this object is not certain: "
            f"check that it is a tensor or module."
        )
        matches.found.append(Found(doubt.edit.node, doubt.edit.rule, FindingKind.REVIEW, doubt.member, message))


def _callee_end(receiver: cst.CSTNode, positions: Positions) -> int:
    """Where the name of a called receiver ends, `Kit` in `Kit(1)`; its start where that is not plain."""
    start, _ = positions.of(receiver)
    if not isinstance(receiver, cst.Call):
        return start
    code = cst.Module(()).code_for_node(receiver.func)
    return start + len(code) if positions.text.startswith(code, start) else start


def _apply_skips(matches: Matches, skips: Skips, positions: Positions) -> None:
    """Drop what the file's own comments switch off."""

    def is_kept(item: Edit | Found) -> bool:
        span = positions.span(*positions.of(item.node))
        return not skips.covers(item.rule, span.start_line, span.end_line)

    if skips.lines:
        matches.edits = [edit for edit in matches.edits if is_kept(edit)]
        matches.found = [found for found in matches.found if is_kept(found)]


def _replacements(edits: Iterable[Edit], positions: Positions) -> list[Replacement]:
    """Where each edit's text goes, sorted. Small ones come first: larger ones may be made of code they are in."""
    done: list[Replacement] = []
    for edit in sorted(edits, key=lambda edit: _length(edit, positions)):
        start, end = _extent(edit, positions)
        if isinstance(edit.text, str):
            text = edit.text
        else:
            text = "".join(_code(piece, positions, done) for piece in edit.text)
        if isinstance(edit.node, cst.ImportFrom):  # one statement may have become several
            text = text.replace("\n", _separator(positions.text, start))
        done.append((start, end, text))
    return sorted(done)


def _length(edit: Edit, positions: Positions) -> int:
    start, end = positions.of(edit.node)
    return end - start


def _extent(edit: Edit, positions: Positions) -> tuple[int, int]:
    start, end = positions.of(edit.node)
    if isinstance(edit.node, (cst.Name, cst.SimpleString)):  # without the parentheses that may be around it
        start = positions.text.index(edit.node.value, start, end)
        end = start + len(edit.node.value)
    if isinstance(edit.node, cst.FormattedStringText):  # with the white space it begins with
        start = end - len(edit.node.value)
    if isinstance(edit.node, cst.SimpleStatementLine):  # with its indentation
        start -= len(_indentation(positions.text, start))
    if isinstance(edit.node, cst.BaseSmallStatement):  # without the semicolon behind it
        end = start + len(positions.text[start:end].rstrip("; \t\f"))
    if edit.start is not None:
        start = positions.of(edit.start[0])[edit.start[1]]
    if edit.end is not None:
        end = positions.of(edit.end[0])[edit.end[1]]
    return start, end


def _code(piece: Code, positions: Positions, done: list[Replacement]) -> str:
    if isinstance(piece, str):
        return piece
    first, last = piece if isinstance(piece, tuple) else (piece, piece)
    start, end = positions.of(first)[0], positions.of(last)[1]
    inside = [(begin - start, until - start, new) for begin, until, new in done if start <= begin and until <= end]
    return splice(positions.text[start:end], inside)


def _separator(text: str, start: int) -> str:
    """What stands between a statement that starts there and one that is put behind it."""
    indentation = _indentation(text, start)
    if _line_before(text, start) != indentation:  # if x: from a import b
        return "; "
    return _newline(text) + indentation


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _line_before(text: str, offset: int) -> str:
    return text[max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1 : offset]


def _indentation(text: str, offset: int) -> str:
    line = _line_before(text, offset)
    return line[: len(line) - len(line.lstrip(" \t\f"))]


def _change(edit: Edit, positions: Positions, replacements: list[Replacement]) -> Change:
    start, end = positions.of(edit.shown or edit.node)
    near = replacements[bisect_left(replacements, (start,)) : bisect_right(replacements, (end, end, "\U0010ffff"))]
    inside = [(first - start, last - start, new) for first, last, new in near if last <= end]
    before = positions.text[start:end]
    after = "" if isinstance(edit.node, cst.SimpleStatementLine) else splice(before, inside)
    span = positions.span(*positions.of(edit.node))
    return Change(span, edit.rule, edit.operation, edit.message, before, after)


def _finding(found: Found, positions: Positions) -> Finding:
    return Finding(positions.span(*positions.of(found.node)), found.rule, found.kind, found.api, found.message)


def _insertions(
    matches: Matches, names: Names, positions: Positions, table: RuleTable, newline: str
) -> list[tuple[Replacement, Change]]:
    """The import of each module that the file's edits need, once: in the module, or in each function that needs it."""
    plugins: dict[str, list[Edit]] = {}
    spelled: dict[str, list[Edit]] = {}
    for edit in matches.edits:
        plugin = table.plugins.get(edit.rule)
        if plugin is not None:
            plugins.setdefault(plugin, []).append(edit)
        for module in edit.needs:
            spelled.setdefault(module, []).append(edit)
    needed = {plugin: edits for plugin, edits in plugins.items() if not imports_package(names.scopes, plugin)}
    for module, edits in spelled.items():
        if not binds_module(names.scopes, module):
            needed[module] = [*needed.get(module, ()), *edits]
    everywhere = sorted(matches.sites, key=lambda site: positions.of(site.statement))
    beside_torch = [site for site in everywhere if not site.names.isdisjoint(matches.anchors)]
    insertions = []
    for module, edits in needed.items():
        # To be loaded, the plugin is of use only where torch is; what is spelled goes to whatever the file imports.
        sites = everywhere if (module != _PLUGIN or module in spelled) and not beside_torch else beside_torch
        for site, above in _places(sites, edits, positions):
            replacement = _import_line(module, site, above, positions, newline)
            at = positions.span(*positions.of(site.statement))
            message = f"The result needs {module}."
            change = Change(at, edits[0].rule, Operation.INSERT, message, "", f"import {module}")
            insertions.append((replacement, change))
    return insertions


def _places(sites: list[ImportSite], edits: list[Edit], positions: Positions) -> list[tuple[ImportSite, bool]]:
    at_module = anchor([site for site in sites if site.scope.kind == "module"])
    if at_module is not None:
        return [at_module]
    places = []
    edited = frozenset(id(edit.node) for edit in edits)
    by_scope: dict[int, list[ImportSite]] = {}
    for site in sites:
        by_scope.setdefault(id(site.scope), []).append(site)
    for inside in by_scope.values():
        place = anchor(inside)
        if place is not None and _contains(inside[0].scope.node, edited):
            places.append(place)
    return places


def _contains(outer: cst.CSTNode, wanted: frozenset[int]) -> bool:
    """Whether one of the wanted nodes, given by their ids, lies under `outer`."""
    pending = [outer]
    while pending:
        node = pending.pop()
        if id(node) in wanted:
            return True
        pending += children(node)
    return False


def _import_line(module: str, site: ImportSite, above: bool, positions: Positions, newline: str) -> Replacement:
    text = positions.text
    start, end = positions.of(site.statement)
    line_start, line_end = positions.of(site.line)
    own_line = isinstance(site.line, cst.SimpleStatementLine)  # not try: import torch
    if above and not own_line:
        return start, start, f"import {module}; "
    if not above and not (own_line and children(site.line)[-1] is site.statement):  # what follows may need it already
        end = start + len(text[start:end].rstrip("; \t\f"))
        return end, end, f"; import {module}"
    indentation = _indentation(text, line_start)
    if above:
        return line_start, line_start, f"import {module}{newline}{indentation}"
    if not text[line_start:line_end].endswith(("\n", "\r")):
        return line_end, line_end, f"{newline}{indentation}import {module}"
    return line_end, line_end, f"{indentation}import {module}{newline}"
