"""`gpu2npu rules validate` and `test`: whether rule files can be used, and do what their examples show."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

import click
from msgspec.structs import replace

from gpu2npu.cli.file_options import jobs_option
from gpu2npu.cli.language import say
from gpu2npu.cli.rules.options import rule_files_argument, usage_errors
from gpu2npu.project.errors import UsageError
from gpu2npu.project.rule_examples import ExampleRun, check_user_examples, run_apart
from gpu2npu.project.worker_processes import available_cpus
from gpu2npu.report.text import counted
from gpu2npu.rulebook import Rule, RuleError, load_rulebook
from gpu2npu.rulebook.check import find_conflicts
from gpu2npu.rulebook.rule import Then

EXIT_FAILED = 1


@click.command()
@rule_files_argument
def validate(files: tuple[Path, ...]) -> None:
    """Check that FILEs can be used with -r: their form, their meaning, their examples.

    Rules that are for the same place are not an error: they are listed, with the one that counts there and why. The
    exit code is 2 if a file cannot be used, and 1 if no example shows what a rule does.
    """
    problems = [problem for path in files if (problem := _problem(path)) is not None]
    if problems:
        raise UsageError("\nError: ".join(problems))
    with usage_errors():
        rulebook = load_rulebook(files)
        check_user_examples(rulebook)
        conflicts = find_conflicts(rulebook, frozenset(map(str, files)))
    unshown = False
    for path in files:
        rules = [rule for rule in rulebook.rules if rule.file == str(path)]
        examples = sum(len(rule.examples) for rule in rules)
        gaps = [(rule, words) for rule in rules if (words := [*unshown_acts(rule)])]
        numbers = counted(len(rules), "rule"), counted(examples, "example")
        if gaps:
            say(f"{path}: {numbers[0]} and {numbers[1]}, which do not show all:")
        else:
            say(f"{path}: {numbers[0]} and {numbers[1]}, all good.")
        _show_gaps(gaps)
        unshown = unshown or bool(gaps)
    for conflict in conflicts:
        say(
            f"Note: where '{conflict.first.id}' and '{conflict.second.id}' both match, '{conflict.first.id}' counts: "
            f"{conflict.reason}."
        )
    if unshown:
        raise SystemExit(EXIT_FAILED)


def _problem(path: Path) -> str | None:
    try:
        check_user_examples(load_rulebook([path]))
    except RuleError as error:
        return str(error)
    return None


@click.command()
@rule_files_argument
@jobs_option
def test(files: tuple[Path, ...], jobs: int | None) -> None:
    """Run the examples of FILEs, which may be folders and pack:NAME too. Shows a diff for each that fails; the exit
    code is then 1.

    The last lines name the rules whose examples do not show everything: an edit, a finding, or a release that the rule
    is not for. For an edit or a finding the exit code is 1 too.
    """
    with usage_errors():
        rulebook = load_rulebook(files)
    own = {path: [rule for rule in rulebook.rules if rule.file == str(path)] for path in files}
    rules = [rule for found in own.values() for rule in found]
    with usage_errors():
        runs = {rule.id: found for rule, found in run_apart(rules, rulebook, jobs or available_cpus())}
    for path, found in own.items():
        _show_file(path, [(index, run) for index, rule in enumerate(found) for run in runs[rule.id]])
    proven = [
        replace(rule, examples=tuple(run.example for run in runs[rule.id] if run.problem is None)) for rule in rules
    ]
    gaps = [(rule, words) for rule in proven if (words := [*unshown_acts(rule), *unshown_limits(rule)])]
    say(f"Examples show all of {len(rules) - len(gaps)} of {counted(len(rules), 'rule')}.")
    _show_gaps(gaps)
    if any(run.problem is not None for found in runs.values() for run in found) or any(map(_is_unshown, proven)):
        raise SystemExit(EXIT_FAILED)


def _is_unshown(rule: Rule) -> bool:
    return next(unshown_acts(rule), None) is not None


def _show_file(path: Path, runs: list[tuple[int, ExampleRun]]) -> None:
    failures = [(index, run) for index, run in runs if run.problem is not None]
    for index, run in failures:
        _show(run, f"{path}: $.rules[{index}].examples[{run.index}]")
    good = len(runs) - len(failures)
    say(f"{path}: {good} of {counted(len(runs), 'example')} as shown", fg="red" if failures else "green")


def _show_gaps(gaps: list[tuple[Rule, list[str]]]) -> None:
    for rule, words in gaps:
        say(f"  {rule.id}: no example shows {' or '.join(words)}.")


def _show(run: ExampleRun, place: str) -> None:
    say(f"FAILED {run.rule.id}, example {run.index + 1}: {run.problem}", fg="red", bold=True)
    say(f"  at {place}")
    if not run.is_migrated:
        return
    expected, got = (text.splitlines() for text in (run.example.after, run.after))
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in difflib.unified_diff(expected, got, "what the example shows", "what the rules make", lineterm=""):
        click.secho(line, fg=colours.get(line[:1]))


def unshown_acts(rule: Rule) -> Iterator[str]:
    """Yield what a rule does and no example shows; a few words each."""
    stated = replace(rule.then, report=None, trait=None, keep=False, needs_target=False, own_devices=False)
    edits = replace(stated, plugin=None) != Then()
    if edits and not any(example.before != example.after for example in rule.examples):
        yield "its edit"
    if rule.then.report is not None and not any(example.reports for example in rule.examples):
        yield "its finding"


def unshown_limits(rule: Rule) -> Iterator[str]:
    """Yield a few words where a rule is for some releases, and no example shows one outside of them."""
    if _is_limited(rule) and not any(_is_outside(rule, example.version) for example in rule.examples):
        yield "a release that it is not for"


def _is_limited(rule: Rule) -> bool:
    return any((rule.since, rule.until, rule.needs, rule.lacks))


def _is_outside(rule: Rule, version: str | None) -> bool:
    return version is not None and not rule.applies_to(version)
