"""The migrator of a project's files: made ready once, then called for each file, in any process."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Set
from functools import lru_cache, partial
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from gpu2npu.analysis.cuda_cpp.extensions import built_modules
from gpu2npu.analysis.file_analysis import FileAnalyser, FileQuestion
from gpu2npu.codemods.choice import CODEMODS, DEFAULT_CHOICE, CodemodChoice, CodemodError
from gpu2npu.codemods.device_files import device_readers
from gpu2npu.codemods.project_plan import Plan, Spread, plan_codemods
from gpu2npu.deep_stack import with_deep_stack
from gpu2npu.engine import ProjectContext, scan_project, unreadable, without_own
from gpu2npu.engine.marks import merged
from gpu2npu.engine.other_devices.device_pairs import has_npu_file
from gpu2npu.engine.strings.value_effects import forget_values
from gpu2npu.formats.dispatch import gives_device, may_concern, migrate_file, values_in
from gpu2npu.kinds.import_ import rules_for_built
from gpu2npu.kinds.name import NameMatch
from gpu2npu.project.errors import UsageError
from gpu2npu.project.rule_examples import check_user_examples
from gpu2npu.project.settings import RuleChoice
from gpu2npu.project.tree.mirror import ProjectReader
from gpu2npu.records import Finding, FindingKind, MigratedFile, Severity, Span
from gpu2npu.rulebook import Rulebook, RuleError, load_rulebook
from gpu2npu.rulebook.in_code import NPU_FILE, NPU_LIMIT, PLUGIN, TORCH_API
from gpu2npu.rulebook.load import select_rules
from gpu2npu.support.chips import DEFAULT_CHIP
from gpu2npu.support.releases import autoloads

_HAS_NPU_FILE = "This file is for another device and stays as it is: the project has one for NPUs beside it."
NO_FILES: Mapping[str, bytes] = {}
# What the API of a method begins with.
_OF_METHODS = ("torch.Tensor.", "torch.nn.Module.")


def _read_nothing(rulebook: Rulebook, version: str) -> Mapping[str, bytes]:
    """Leave the files to those that ask about them first."""
    return NO_FILES


_Paths = tuple[str, ...]
# Gives paths from an earlier run, or by a function.
Stored = Callable[[Callable[[], _Paths]], _Paths]


def _work_out(paths: Callable[[], _Paths]) -> _Paths:
    """Take nothing from an earlier run."""
    return paths()


class Migrator(Struct, frozen=True):
    """Applies a rulebook and the plan of the codemods to the files of one project, and analyses them where there is an
    `analyser`. Picklable, so that workers can have it.

    What a rule changes or reports is not reported again, but for limits: a call that fails for its dtype does so with
    "npu" in it, too.
    """

    rulebook: Rulebook
    context: ProjectContext
    plan: Plan = field(default_factory=Plan)
    analyser: FileAnalyser | None = None
    rule_files: frozenset[str] = frozenset()

    @property
    def new_files(self) -> Mapping[str, bytes]:
        """Files that the output gets besides, by path."""
        return self.plan.new_files

    def concerns(self, source: bytes, path: str) -> bool:
        """Return whether a file may have to be looked at, judged quickly from its bytes; if not, it stays as it is."""
        return path not in self.rule_files and (
            (self.analyser is not None and self.analyser.concerns(source, path))
            or path in self.plan.rewrites
            or path in self.plan.failures
            or may_concern(source, path, self.rulebook, self.context)
        )

    def __call__(self, source: bytes, path: str) -> MigratedFile:
        if path in self.rule_files:
            return MigratedFile(path)
        if path in self.plan.failures:
            return MigratedFile(path, failure=self.plan.failures[path])
        forget_values(self.context.project)
        migrated = migrate_file(source, path, self.rulebook, self.context, self.plan.rewrites.get(path))
        if self.analyser is not None and migrated.failure is None and self.analyser.concerns(source, path):
            migrated = analysed(migrated, self.analyser, source, _renamed(self.rulebook, self.context.version))
        spans = [*(each.span for each in migrated.changes), *(each.span for each in migrated.findings)]
        if spans and has_npu_file(path, self._exists):
            first = min(spans, key=lambda span: (span.start_line, span.start_column))
            note = Finding(first, NPU_FILE, FindingKind.REVIEW, path, _HAS_NPU_FILE, Severity.NOTE)
            return MigratedFile(path, findings=(note,))
        return migrated

    def _exists(self, path: str) -> bool:
        """Return whether the project has a file, or a folder."""
        return path in self.context.files or (self.context.root is not None and (self.context.root / path).exists())

    @classmethod
    def load(
        cls,
        rules: RuleChoice,
        version: str,
        root: Path,
        sources: Mapping[str, bytes],
        codemods: CodemodChoice = DEFAULT_CHOICE,
        spread: Spread = map,
        questions: Set[FileQuestion] = frozenset(),
        chips: tuple[str, ...] = (DEFAULT_CHIP,),
        others: Mapping[str, bytes] = NO_FILES,
        read: Callable[[Rulebook, str], Mapping[str, bytes]] = _read_nothing,
        writes: bool = True,
        built: Mapping[str, bytes] = NO_FILES,
        stored: Stored = _work_out,
    ) -> Migrator:
        """Load the rules and collect what they need to know of the whole project.

        `spread` plans the parts of the project. `questions` are those that the analyses answer of each file, for
        families of chips (of chips.CHIPS). `others` are the files that are not Python and may give the project's
        programs a device. `read` is called with the rules and the release before anything is asked about the files, and
        gives their facts as far as other processes need them. `built` are the files that say what is installed.
        `stored` gives the files that read a device from others: as an earlier run found them, or by a function.

        Raises UsageError if a rule file cannot be used, an example in it fails, a rule's id is unknown, or a codemod
        cannot do what it was asked for.
        """
        try:
            whole = load_rulebook(rules.files)
            check_user_examples(whole)
            rulebook = without_own(select_rules(whole, rules.only, rules.skip), sources, root.name)
            facts = read(rulebook, version)
            migrator = cls.of(rulebook, version, root, sources, codemods, spread, others, facts, writes, built, stored)
        except (RuleError, CodemodError) as error:
            raise UsageError(str(error)) from error
        home = root.resolve()
        own = (path.resolve() for path in rules.files)
        within = frozenset(path.relative_to(home).as_posix() for path in own if path.is_relative_to(home))
        migrator = replace(migrator, rule_files=within)
        if not questions:
            return migrator
        analyser = FileAnalyser(version, frozenset(questions), migrator.context.project, chips=chips)
        return replace(migrator, analyser=analyser)

    @classmethod
    def of(
        cls,
        rulebook: Rulebook,
        version: str,
        root: Path,
        sources: Mapping[str, bytes],
        codemods: CodemodChoice = DEFAULT_CHOICE,
        spread: Spread = map,
        others: Mapping[str, bytes] = NO_FILES,
        facts: Mapping[str, bytes] = NO_FILES,
        writes: bool = True,
        built: Mapping[str, bytes] = NO_FILES,
        stored: Stored = _work_out,
    ) -> Migrator:
        """Collect what rules that are loaded need to know of the whole project. Raises CodemodError."""
        context = scan_project(sources, rulebook, version, ProjectReader(root), root, facts, writes)
        data = {path: values_in(source, path, rulebook, context) for path, source in others.items()}
        context = dataclasses.replace(context, data={path: each for path, each in data.items() if each is not None})
        rulebook = rules_for_built(built_modules(context.project, built), rulebook)
        giving = {} if autoloads(version) else others
        gives = partial(gives_device, rulebook=rulebook, context=context)
        # What programs do with a value is followed by recursion.
        readers = stored(lambda: with_deep_stack(lambda: device_readers(giving, sources, gives))) if giving else ()
        wanted = replace(_wanted(codemods, rulebook), readers=readers)
        plan = plan_codemods(sources, context, wanted, spread)
        return cls(rulebook, _with_plugin(context, plan), plan)


def _with_plugin(context: ProjectContext, plan: Plan) -> ProjectContext:
    """The context of a project in which a codemod may have written an import of torch_npu."""
    if context.has_plugin or not any(edit.rule == PLUGIN for each in plan.rewrites.values() for edit in each.edits):
        return context
    return dataclasses.replace(context, has_plugin=True)


def _wanted(codemods: CodemodChoice, rulebook: Rulebook) -> CodemodChoice:
    ids = {rule.id for rule in rulebook.rules}
    return replace(codemods, skipped=frozenset(each.name for each in CODEMODS if each.rule and each.rule not in ids))


@lru_cache(maxsize=4)
def _renamed(rulebook: Rulebook, version: str) -> frozenset[str]:
    """The names that rules for a release replace everywhere, and these rules' ids, which rows of behaviour may have."""
    rules = [rule for rule in rulebook.rules if rule.then.rename is not None and rule.applies_to(version)]
    return frozenset(text for rule in rules if isinstance(rule.match, NameMatch) for text in (rule.id, rule.match.name))


def analysed(
    migrated: MigratedFile, analyser: FileAnalyser, source: bytes, renamed: Set[str] = frozenset()
) -> MigratedFile:
    """The record of a migrated file with what an analysis of its source adds, but of names that are `renamed`."""
    path = migrated.path
    try:
        found = analyser(source, path)
    except Exception as error:  # an analysis that fails is not a reason to leave a file unmigrated
        found = MigratedFile(path, failure=f"an internal error of gpu2npu ({type(error).__name__}: {error})")
    if found.failure is not None:
        failure = unreadable(source, path) if path.endswith(".py") else None
        if failure is not None:
            return MigratedFile(path, failure=failure)
        return replace(migrated, findings=merged(migrated.findings, [_unread(found.failure)]))
    findings = merged(migrated.findings, found.findings, partial(_is_answered, migrated=migrated, renamed=renamed))
    return replace(migrated, findings=findings, advice=found.advice)


def _is_answered(finding: Finding, migrated: MigratedFile, renamed: Set[str]) -> bool:
    """Return whether the rules have dealt with what an analysis found; with a limit, by a finding on the same call, or
    by the rule that has the id of the row."""
    if finding.api in renamed or finding.row in renamed:
        return True
    if finding.rule == NPU_LIMIT:
        return any(_begins_as(finding.span, each.span) for each in migrated.findings)
    reported = [change.span for change in migrated.changes] + [each.span for each in migrated.findings]
    place = _method_name(finding) if finding.api.startswith(_OF_METHODS) else finding.span
    return any(_overlap(place, span) for span in reported)


def _method_name(finding: Finding) -> Span:
    """The name of the method alone: a change of what it is called on (`x.cuda().det()`) does not answer for it."""
    span = finding.span
    start = span.end_column - len(finding.api.rpartition(".")[2])
    return dataclasses.replace(span, start_line=span.end_line, start_column=start)


def _begins_as(one: Span, other: Span) -> bool:
    return (one.cell, one.start_line, one.start_column) == (other.cell, other.start_line, other.start_column)


def _overlap(one: Span, other: Span) -> bool:
    if one.cell != other.cell:
        return False
    starts = max((one.start_line, one.start_column), (other.start_line, other.start_column))
    return starts < min((one.end_line, one.end_column), (other.end_line, other.end_column))


def _unread(reason: str) -> Finding:
    """A file that the migration can read and the analysis cannot: newer syntax than this Python's, for instance."""
    message = f"The file's torch APIs were not checked, and a person has to look at them: {reason}."
    return Finding(Span(1, 0, 1, 0), TORCH_API, FindingKind.UNKNOWN, "torch", message)
