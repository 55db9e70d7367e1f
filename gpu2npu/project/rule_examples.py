"""The examples of rules, executed: what the command line and the tests run alike."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial

from msgspec import Struct

from gpu2npu.engine import ProjectContext
from gpu2npu.engine.context import project_imports
from gpu2npu.formats.dispatch import migrate_file
from gpu2npu.formats.kinds import HEAD_BYTES, kind_of
from gpu2npu.kinds.pattern import PatternMatch
from gpu2npu.project.explain import explain_line
from gpu2npu.project.worker_processes import TaskEndedError, Workers, can_fork, can_start_processes
from gpu2npu.python.text.offsets import lines_with_ends
from gpu2npu.records import FindingKind, MigratedFile
from gpu2npu.rulebook import Rule, Rulebook, RuleError
from gpu2npu.rulebook.expression import ExpressionTimeError
from gpu2npu.rulebook.rule import Example
from gpu2npu.support.releases import RELEASES, VERSIONS, known_version, torch_npu_versions, unknown_version

# How long the examples of one rule may take by the clock. A search that takes too long says so much earlier; this is
# for the expressions that evade its limit, as (?:(?:(?:a?){1000}){1000}){1000} does.
_SECONDS = 180.0
_IMPORT = re.compile(r"\s*(import|from)\b")  # a line that says less about a match than those that use the name


class ExampleRun(Struct, frozen=True):
    """One example (counted from 0) and what came of it: the text `after`, and the `problem`, None if all is well.
    Where it could not be migrated at all, `after` says nothing."""

    rule: Rule
    index: int
    example: Example
    after: str
    problem: str | None
    is_migrated: bool = True


def run_examples(rules: Iterable[Rule], rulebook: Rulebook) -> Iterator[ExampleRun]:
    """Run every example of some rules under a rulebook that has them."""
    for rule in rules:
        for index, example in enumerate(rule.examples):
            yield run_example(rule, index, example, rulebook)


def run_apart(
    rules: Sequence[Rule], rulebook: Rulebook, jobs: int = 1
) -> Generator[tuple[Rule, list[ExampleRun]], None, None]:
    """Run the examples of some rules by up to `jobs` processes that can be ended; each rule with its runs, once done.
    Raises RuleError: the examples of a rule come to no end."""
    runs = partial(_runs, rulebook)
    if not (can_start_processes() and can_fork()):
        yield from ((rule, runs(rule)) for rule in rules)
        return
    with closing(Workers(jobs)) as workers:
        for rule, answer in workers.answers(runs, rules, lambda rule: _SECONDS):
            if isinstance(answer, TaskEndedError):
                raise RuleError(f"{rule.file}: the examples of the rule '{rule.id}' come to no end.")
            if isinstance(answer, Exception):
                raise answer
            yield rule, answer


def _runs(rulebook: Rulebook, rule: Rule) -> list[ExampleRun]:
    return list(run_examples([rule], rulebook))


def run_example(rule: Rule, index: int, example: Example, rulebook: Rulebook) -> ExampleRun:
    """Migrate the example as a file of its own, by all rules of the rulebook."""
    version = example.version or _first_version(rule)
    unusable = _unusable(rule, version)
    if unusable is not None:
        return ExampleRun(rule, index, example, example.before, unusable, is_migrated=False)
    context = ProjectContext(version=version, imported=_imported(rule, example))
    result = _migrate(example, rulebook, context)
    after = example.before if result.content is None else result.content.decode()
    is_for = rule.applies_to(version)
    problem = _problem(rule, example, result, after, is_for)
    if problem is not None and is_for and result.failure is None and rule.id not in _involved(result):
        problem = f"{problem}: {_why_unmatched(rule, example, rulebook, context)}"
    return ExampleRun(rule, index, example, after, problem, is_migrated=result.failure is None)


def _imported(rule: Rule, example: Example) -> frozenset[str] | None:
    """The modules that the project of an example imports: those of its file, where the rule excludes some modules."""
    files = {example.file: example.before.encode()} if rule.where.without else {}
    return project_imports(Rulebook((rule,), {}), files)


def check_user_examples(rulebook: Rulebook) -> None:
    """Run the examples of all rules that are not built in. Raises RuleError: one fails: its rule cannot be trusted."""
    with closing(run_apart([rule for rule in rulebook.rules if not rule.builtin], rulebook)) as done:
        for _, runs in done:
            for run in runs:
                if run.problem is not None:
                    raise RuleError(example_failure(run))


def example_failure(run: ExampleRun) -> str:
    """One sentence about a failed example."""
    return (
        f"{run.rule.file}: example {run.index + 1} of the rule '{run.rule.id}' fails: {run.problem}; "
        f"`gpu2npu rules test` shows it."
    )


def _unusable(rule: Rule, version: str) -> str | None:
    """Return why no example of a rule can be run under a version, or None."""
    if known_version(version) is None:
        return unknown_version(version)
    if isinstance(rule.match, PatternMatch):
        try:
            found = rule.expression(rule.match.pattern).search("")
        except ExpressionTimeError as error:
            return str(error)
        if found is not None:
            return f"{rule.match.pattern!r} also finds nothing at all, the empty text, and so would match every string"
    return None


def _first_version(rule: Rule) -> str:
    """The oldest release that the rule is for, the newest torch_npu of each first; what it states where none is."""
    others = (each for each in torch_npu_versions() if "rc" not in each)
    fitting = (version for version in (*RELEASES, *others, *VERSIONS) if rule.applies_to(version))
    return next(fitting, rule.since or rule.until or RELEASES[0])


def _migrate(example: Example, rulebook: Rulebook, context: ProjectContext) -> MigratedFile:
    try:
        source = example.before.encode()
    except UnicodeEncodeError as error:
        return MigratedFile(example.file, failure=str(error))
    return migrate_file(source, example.file, rulebook, context)


def _problem(rule: Rule, example: Example, result: MigratedFile, after: str, is_for: bool) -> str | None:
    """The reason why an example fails, None if it does not. `is_for` is whether the rule is for its release: where it
    is not, the example shows what the other rules make of it."""
    if result.failure is not None:
        return result.failure
    if after != example.after:
        if example.before != example.after:
            messages = [found.message for found in result.findings if found.rule == rule.id]
            return f"the result is not what it shows{f': the rule reports this: {messages[0]}' if messages else ''}"
        return f"the code is changed by {', '.join(sorted({change.rule for change in result.changes}))}"
    involved = _involved(result)
    if not is_for and rule.id in involved:
        return "the rule acts in a release that it is not for"
    if is_for and example.before != example.after and rule.id not in involved:
        others = sorted({change.rule for change in result.changes})
        return f"the change is not made by this rule but by {', '.join(others)}"
    expected = {example.reports} if example.reports is not None else set()
    reported = {finding.kind for finding in result.findings if finding.rule == rule.id}
    if reported != expected:
        return f"the rule reports {_names(reported)} where the example says {_names(expected)}"
    return None


def _involved(result: MigratedFile) -> set[str]:
    """The rules of the changes and findings: where an edit of the owner's name carries out a renaming, the rule of the
    renaming shows by its finding."""
    return {change.rule for change in result.changes} | {finding.rule for finding in result.findings}


def _why_unmatched(rule: Rule, example: Example, rulebook: Rulebook, context: ProjectContext) -> str:
    """The part of a sentence that says that a rule matches nothing in an example, and where to look for the reason."""
    nothing = "the rule matches nothing in it"
    if kind_of(example.file, example.before.encode()[:HEAD_BYTES]) is None:
        return f"{nothing}, since files named as {example.file!r} are not read"
    numbered = enumerate(lines_with_ends(example.before), 1)
    lines = [(number, line) for number, line in numbered if rule.match.is_on(line)]
    if not lines:
        return f"{nothing}, no line has what it looks for: {rule.match.text}"
    for number, _ in sorted(lines, key=lambda each: _IMPORT.match(each[1]) is not None):
        reason = _reason(rule, example, number, rulebook, context)
        if reason is not None:
            return f"{nothing}, since in line {number} {reason}"
    return f"{nothing}, and line {lines[0][0]} is not what it looks for: {rule.match.text}"


def _reason(rule: Rule, example: Example, line: int, rulebook: Rulebook, context: ProjectContext) -> str | None:
    """The reason why a rule makes nothing of a line of an example, where one is known."""
    if example.file.endswith(".ipynb"):
        return None
    others = explain_line(example.before.encode(), example.file, line, rulebook, context).others
    return next((reason for other, reason in others if other.id == rule.id), None)


def _names(kinds: set[FindingKind]) -> str:
    return " and ".join(sorted(kind.value for kind in kinds)) or "nothing"
