"""Explains what the rules make of one line of a file, and why those whose words are there make nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from msgspec import Struct

from gpu2npu.analysis.file_analysis import FileAnalyser, FileQuestion
from gpu2npu.engine import ProjectContext
from gpu2npu.engine.imports import imported_modules, is_joined
from gpu2npu.engine.line_sites import Site, sites_on_line
from gpu2npu.engine.skips import EVERY_RULE, Skips, find_skips
from gpu2npu.engine.table import outside
from gpu2npu.formats.dispatch import migrate_file
from gpu2npu.formats.notebook import read_cells
from gpu2npu.language import shown
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.text.offsets import lines_with_ends
from gpu2npu.python.text.source import SourceFile, SourceReadError, read_source
from gpu2npu.python.tree.syntax_tree import TreeError
from gpu2npu.records import Change, Finding, Span
from gpu2npu.report.text import counted
from gpu2npu.rulebook.describe import limit_texts, where_texts
from gpu2npu.rulebook.match import Match
from gpu2npu.rulebook.rule import Rule, Rulebook
from gpu2npu.support.chips import DEFAULT_CHIP


class Explanation(Struct, frozen=True):
    """The line's `text`; what rules did there; and for each rule with words there that did nothing, the reason."""

    text: str
    changes: tuple[Change, ...]
    findings: tuple[Finding, ...]
    others: tuple[tuple[Rule, str], ...]
    failure: str | None = None


def explain_line(
    source: bytes, path: str, line: int, rulebook: Rulebook, context: ProjectContext, cell: int = 0
) -> Explanation:
    """Explain a line (counted from 1) of a file of a project; of a notebook, a line of its code cell number `cell`.
    `rulebook` has the rules that are switched on. Raises ValueError: the file has no such line or cell, or is not
    text."""
    program, text, above = _text(source, path), "", 0
    if path.endswith(".ipynb"):
        program, text, above = _cell(program, cell)
    elif cell:
        raise ValueError("only notebooks have cells")
    text = text if cell else program
    lines = [each.rstrip("\r\n") for each in lines_with_ends(text)]
    if not 1 <= line <= len(lines):
        raise ValueError(f"{f'cell {cell}' if cell else 'it'} has {counted(len(lines), 'line')}, and no line {line}")
    result = migrate_file(source, path, rulebook, context)
    changes = tuple(change for change in result.changes if _covers(change.span, line, cell))
    findings = tuple(found for found in result.findings if _covers(found.span, line, cell))
    involved = {change.rule for change in changes} | {finding.rule for finding in findings}
    candidates = [
        rule
        for rule in rulebook.rules
        if rule.id not in involved
        and (path.endswith((".py", ".ipynb")) or rule.match.outside_python)
        and rule.match.is_on(lines[line - 1])
    ]
    why = _Reasons(program, path, above + line, rulebook, context, sorted(involved))
    reasons = ((rule, why.reason(rule)) for rule in candidates)
    others = tuple((rule, reason) for rule, reason in reasons if reason is not None)
    return Explanation(lines[line - 1], changes, findings, others, result.failure)


def analysed_line(
    source: bytes, path: str, line: int, context: ProjectContext, chips: Sequence[str], cell: int = 0
) -> list[Finding]:
    """The findings of the analyses on a line: APIs that the NPU lacks, and rows of the table of behaviour."""
    analyser = FileAnalyser(
        context.version, frozenset({FileQuestion.TORCH_APIS}), context.project, tuple(chips) or (DEFAULT_CHIP,)
    )
    found = analyser(source, path).findings if analyser.concerns(source, path) else ()
    return [each for each in found if _covers(each.span, line, cell)]


def _cell(notebook: str, cell: int) -> tuple[str, str, int]:
    """All cells as one program, the text of one of them, and how many lines of the program are above it."""
    if not cell:
        raise ValueError("of a notebook give the cell as well, as the reports do: FILE:cell_4:LINE")
    program, cells = read_cells(notebook)
    if cell not in cells:
        raise ValueError(f"it has no code cell {cell}; the code cells are {', '.join(map(str, cells))}")
    text, start = cells[cell]
    return program, text, start - 1


def _covers(span: Span, line: int, cell: int) -> bool:
    return span.cell == cell and span.start_line <= line <= span.end_line


def _text(source: bytes, path: str) -> str:
    try:
        return read_source(source, path).text if path.endswith(".py") else source.decode()
    except (SourceReadError, UnicodeDecodeError) as error:
        raise ValueError(f"it is not text ({error})") from error


def _limits(sentences: Iterable[str]) -> str:
    """The sentences in the language in use, without the last full stop: they end a sentence."""
    return " ".join(map(shown, sentences)).rstrip(".\u3002")


class _Reasons:
    """The reasons why rules did nothing at one line: first what is true of the rule, then what is true of the place."""

    def __init__(
        self, text: str, path: str, line: int, rulebook: Rulebook, context: ProjectContext, involved: Sequence[str]
    ) -> None:
        self.path, self.line, self.context, self.involved = path, line, context, involved
        self.rulebook = rulebook
        self.skips: Skips = find_skips(text)
        self.names: Names | None = None
        self.sites: list[Site] = []
        imported: frozenset[str] | None = frozenset()
        joined: Callable[[frozenset[str]], bool] | None = None
        if path.endswith((".py", ".ipynb")):
            try:
                self.names = Names.of(SourceFile(path, text, "utf-8", b""), context.project)
            except TreeError:
                imported = None
            else:
                self.sites = sites_on_line(self.names.file, line, context)
                imported, joined = imported_modules(self.names.facts), partial(is_joined, self.names)
        self.outside = outside(rulebook, path, frozenset(), imported, context.imported, joined)

    def reason(self, rule: Rule) -> str | None:
        """One clause; None for a rule that no one would expect here."""
        general = self._of_rule(rule)
        if general is not None:
            return general
        if self._is_far(rule):
            return None
        if self.names is None:
            package = rule.match.package
            matched = rule.match.text if package is None else f"the package `{package}` where it is required"
            return f"it matches {matched}, and that is not what is here"
        return next(self._of_place(rule, self.names), None) or self._of_others()

    def _is_far(self, rule: Rule) -> bool:
        """Return whether the line has nothing of the sort that the rule looks at: no string, no import."""
        if rule.match.package is not None:
            return bool(self.sites) and not any(site.is_import for site in self.sites)
        if rule.match.in_strings:
            code = [site.word for site in self.sites if site.text is None]
            return len(code) == len(self.sites) and any(rule.match.is_on(name) for name in code)
        return False

    def _of_rule(self, rule: Rule) -> str | None:
        if not rule.applies_to(self.context.version):
            limits = _limits(limit_texts(rule))
            return f"the project is for PyTorch {self.context.version}, the rule is not: {limits}"
        if rule.id in self.outside:
            return f"the rule is limited: {_limits(where_texts(rule.where))}"
        if rule.id in self.skips.file or EVERY_RULE in self.skips.file:
            return "a comment at the top switches it off for the whole file"
        if self.skips.covers(rule.id, self.line, self.line):
            return "a comment switches it off for this line"
        return None

    def _of_others(self) -> str:
        if self.involved:
            return f"the place is handled by {' and '.join(self.involved)}, which comes first"
        return "its words are not together as the rule requires"

    def _of_place(self, rule: Rule, names: Names) -> Iterator[str]:
        match = rule.match
        if match.in_strings:
            yield from self._of_strings(rule, match, names)
            return
        word = match.word
        is_import = match.package is not None
        sites = [
            site for site in self.sites if (site.is_import and is_import) or (site.text is None and site.word == word)
        ]
        if not sites:
            yield match.why_not_named
        for site in sites:
            reason = match.why_not(site, names)
            if reason is not None:
                yield reason

    def _of_strings(self, rule: Rule, match: Match, names: Names) -> Iterator[str]:
        strings = [site for site in self.sites if site.text is not None]
        if not strings:
            yield "there is no string on this line, and the rule looks at strings alone"
        for site in strings:
            yield from match.why_not_text(site, names, rule.then.rename or "", self.rulebook.roles)
