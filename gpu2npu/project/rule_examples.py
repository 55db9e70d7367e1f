"""The examples of rules, executed: what the command line and the tests run alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from gpu2npu.engine import ProjectContext
from gpu2npu.formats.dispatch import migrate_file
from gpu2npu.project.processes import can_start_processes, in_processes
from gpu2npu.records import FindingKind, MigratedFile
from gpu2npu.rulebook import Rule, Rulebook, RuleError
from gpu2npu.rulebook.rule import Example
from gpu2npu.support.releases import RELEASES, VERSIONS, known_version, torch_npu_versions, unknown_version

# Rules whose examples take longer than a process takes to start.
_WORTH_PROCESSES = 100


@dataclass(frozen=True)
class ExampleRun:
    """One example (counted from 0) and what came of it: the text `after`, and the `problem`, None if all is well."""

    rule: Rule
    index: int
    example: Example
    after: str
    problem: str | None


def run_examples(rules: Iterable[Rule], rulebook: Rulebook) -> Iterator[ExampleRun]:
    """Run every example of some rules under a rulebook that has them."""
    for rule in rules:
        for index, example in enumerate(rule.examples):
            yield run_example(rule, index, example, rulebook)


def run_in_processes(rules: Sequence[Rule], rulebook: Rulebook, jobs: int) -> list[ExampleRun]:
    """Run the examples of some rules by up to `jobs` processes; the runs in the order of the rules."""
    if jobs == 1 or len(rules) < _WORTH_PROCESSES or not can_start_processes():
        return list(run_examples(rules, rulebook))
    parts = [tuple(rules[start::jobs]) for start in range(jobs)]
    runs = []
    for _, answer in in_processes(partial(_runs, rulebook), parts, jobs):
        if isinstance(answer, Exception):
            raise answer
        runs += answer
    places = {rule.id: place for place, rule in enumerate(rules)}
    return sorted(runs, key=lambda run: (places[run.rule.id], run.index))


def _runs(rulebook: Rulebook, rules: tuple[Rule, ...]) -> list[ExampleRun]:
    return list(run_examples(rules, rulebook))


def run_example(rule: Rule, index: int, example: Example, rulebook: Rulebook) -> ExampleRun:
    """Migrate the example as a file of its own, by all rules of the rulebook."""
    version = example.version or _first_version(rule)
    if known_version(version) is None:
        problem = unknown_version(version)
        return ExampleRun(rule, index, example, example.before, problem)
    result = _migrate(example, rulebook, version)
    after = example.before if result.content is None else result.content.decode()
    is_for = rule.applies_to(version)
    return ExampleRun(rule, index, example, after, _problem(rule, example, result, after, is_for))


def check_user_examples(rulebook: Rulebook) -> None:
    """Run the examples of all rules that are not built in.

    Raises:
        RuleError: One fails: its rule cannot be trusted.
    """
    for run in run_examples((rule for rule in rulebook.rules if not rule.builtin), rulebook):
        if run.problem is not None:
            raise RuleError(example_failure(run))


def example_failure(run: ExampleRun) -> str:
    """One sentence about a failed example."""
    return (
        f"{run.rule.file}: example {run.index + 1} of the rule '{run.rule.id}' fails: {run.problem}; "
        f"`gpu2npu rules test` shows it."
    )


def _first_version(rule: Rule) -> str:
    """The oldest release that the rule is for, by the newest torch_npu of each before the others; what it says itself
    where there is none."""
    others = (each for each in torch_npu_versions() if "rc" not in each)
    fitting = (version for version in (*RELEASES, *others, *VERSIONS) if rule.applies_to(version))
    return next(fitting, rule.since or rule.until or RELEASES[0])


def _migrate(example: Example, rulebook: Rulebook, version: str) -> MigratedFile:
    context = ProjectContext(version=version)
    try:
        source = example.before.encode()
    except UnicodeEncodeError as error:
        return MigratedFile(example.file, failure=str(error))
    return migrate_file(source, example.file, rulebook, context)


def _problem(rule: Rule, example: Example, result: MigratedFile, after: str, is_for: bool) -> str | None:
    """The reason why an example fails, None if it does not. `is_for` says whether the rule is for its release: where it
    is not, the example shows what the other rules make of it."""
    if result.failure is not None:
        return result.failure
    if after != example.after:
        return "the code is changed" if example.before == example.after else "the result is not what it shows"
    # An edit of the owner's name may carry out a renaming; the rule then shows by its finding.
    involved = {change.rule for change in result.changes} | {finding.rule for finding in result.findings}
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


def _names(kinds: set[FindingKind]) -> str:
    return " and ".join(sorted(kind.value for kind in kinds)) or "nothing"
