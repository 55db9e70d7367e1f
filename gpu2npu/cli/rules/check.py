"""`gpu2npu rules validate` and `test`: whether rule files can be used, and do what their examples show."""

from __future__ import annotations

import difflib
from pathlib import Path

import click

from gpu2npu.cli.file_options import jobs_option
from gpu2npu.cli.rules.options import rule_files_argument, usage_errors
from gpu2npu.project.errors import UsageError
from gpu2npu.project.rule_examples import ExampleRun, check_user_examples, run_apart
from gpu2npu.project.worker_processes import available_cpus
from gpu2npu.report.text import counted
from gpu2npu.rulebook import Rule, RuleError, load_rulebook
from gpu2npu.rulebook.conflicts import find_conflicts
from gpu2npu.rulebook.coverage import untested

EXIT_FAILED = 1


@click.command()
@rule_files_argument
def validate(files: tuple[Path, ...]) -> None:
    """Check that FILEs can be used with -r: their form, their meaning, their examples.

    Rules that are for the same place are no error: they are listed, with the one that counts there and why. The exit
    code is 2 if a file cannot be used.
    """
    problems = [problem for path in files if (problem := _problem(path)) is not None]
    if problems:
        raise UsageError("\nError: ".join(problems))
    with usage_errors():
        rulebook = load_rulebook(files)
        check_user_examples(rulebook)
        conflicts = find_conflicts(rulebook, frozenset(map(str, files)))
    for path in files:
        rules = [rule for rule in rulebook.rules if rule.file == str(path)]
        examples = sum(len(rule.examples) for rule in rules)
        click.echo(f"{path}: {counted(len(rules), 'rule')} and {counted(examples, 'example')}, all good.")
    for conflict in conflicts:
        click.echo(
            f"Note: where '{conflict.first.id}' and '{conflict.second.id}' both match, '{conflict.first.id}' counts: "
            f"{conflict.reason}."
        )


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

    At the end stands what no example shows: an edit, a finding, or a release that a rule is not for.
    """
    with usage_errors():
        rulebook = load_rulebook(files)
    own = {path: [rule for rule in rulebook.rules if rule.file == str(path)] for path in files}
    rules = [rule for found in own.values() for rule in found]
    with usage_errors():
        runs = {rule.id: found for rule, found in run_apart(rules, rulebook, jobs or available_cpus())}
    for path, found in own.items():
        _show_file(path, [run for rule in found for run in runs[rule.id]])
    _show_coverage(rules)
    if any(run.problem is not None for found in runs.values() for run in found):
        raise SystemExit(EXIT_FAILED)


def _show_file(path: Path, runs: list[ExampleRun]) -> None:
    failures = [run for run in runs if run.problem is not None]
    for run in failures:
        _show(run)
    good = len(runs) - len(failures)
    click.secho(f"{path}: {good} of {counted(len(runs), 'example')} as shown", fg="red" if failures else "green")


def _show_coverage(rules: list[Rule]) -> None:
    gaps = {rule.id: missing for rule in rules if (missing := list(untested(rule)))}
    click.echo(f"Examples show all of {len(rules) - len(gaps)} of {counted(len(rules), 'rule')}.")
    for rule_id, missing in gaps.items():
        click.echo(f"  {rule_id}: no example shows {' or '.join(missing)}.")


def _show(run: ExampleRun) -> None:
    click.secho(f"FAILED {run.rule.id}, example {run.index + 1}: {run.problem}", fg="red", bold=True)
    expected, got = (text.splitlines() for text in (run.example.after, run.after))
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in difflib.unified_diff(expected, got, "what the example shows", "what the rules make", lineterm=""):
        click.secho(line, fg=colours.get(line[:1]))
