"""`gpu2npu rules validate` and `test`: whether rule files can be used, and do what their examples show."""

from __future__ import annotations

import difflib
from pathlib import Path

import click

from gpu2npu.cli.rule_options import rule_files_argument, usage_errors
from gpu2npu.project.errors import UsageError
from gpu2npu.project.rule_examples import ExampleRun, check_user_examples, run_examples
from gpu2npu.report.text import counted
from gpu2npu.rulebook import Rulebook, RuleError, load_rulebook
from gpu2npu.rulebook.conflicts import find_conflicts

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
    for path in files:
        rules = [rule for rule in rulebook.rules if rule.file == str(path)]
        examples = sum(len(rule.examples) for rule in rules)
        click.echo(f"{path}: {counted(len(rules), 'rule')} and {counted(examples, 'example')}, all good.")
    for conflict in find_conflicts(rulebook, frozenset(map(str, files))):
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
def test(files: tuple[Path, ...]) -> None:
    """Run the examples of FILEs. Shows a diff for each that fails; the exit code is then 1."""
    with usage_errors():
        rulebook = load_rulebook(files)
    failed = [_test_file(path, rulebook) for path in files]
    if any(failed):
        raise SystemExit(EXIT_FAILED)


def _test_file(path: Path, rulebook: Rulebook) -> bool:
    """Run the examples of one file and show them; return whether one failed."""
    runs = list(run_examples((rule for rule in rulebook.rules if rule.file == str(path)), rulebook))
    failures = [run for run in runs if run.problem is not None]
    for run in failures:
        _show(run)
    good = len(runs) - len(failures)
    click.secho(f"{path}: {good} of {counted(len(runs), 'example')} as shown", fg="red" if failures else "green")
    return bool(failures)


def _show(run: ExampleRun) -> None:
    click.secho(f"FAILED {run.rule.id}, example {run.index + 1}: {run.problem}", fg="red", bold=True)
    expected, got = (text.splitlines() for text in (run.example.after, run.after))
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in difflib.unified_diff(expected, got, "what the example shows", "what the rules make", lineterm=""):
        click.secho(line, fg=colours.get(line[:1]))
