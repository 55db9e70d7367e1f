"""`gpu2npu rules learn`, `new` and `schema`: rules that a migration by hand speaks for, and one to start from."""

from __future__ import annotations

import re
from pathlib import Path

import click

from gpu2npu.builtin_rules import SCHEMA_NAME, schema_path
from gpu2npu.cli.language import say
from gpu2npu.cli.rules.options import rule_files_option, usage_errors
from gpu2npu.project.learn.learning import Learned, LineDifference, amount, learn_rules
from gpu2npu.project.learn.proposals import Proposal, rule_file
from gpu2npu.report.text import counted
from gpu2npu.rulebook.document import schema_text, starter
from gpu2npu.rulebook.match import kinds
from gpu2npu.support.releases import RELEASES, known_version, unknown_version

_FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)


@click.command()
@click.argument("before", type=_FOLDER)
@click.argument("after", type=_FOLDER)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the rules to FILE, and the schema beside it for your editor, instead of printing them.",
)
@rule_files_option
@click.option(
    "-v", "--version", default=RELEASES[0], show_default=True, metavar="VERSION", help="The project's PyTorch version."
)
def learn(before: Path, after: Path, output: Path | None, files: tuple[Path, ...], version: str) -> None:
    """Propose rules from a project before and after it was migrated by hand.

    BEFORE and AFTER are two folders with the same files. A rule is proposed for what neither the built-in rules nor
    those of -r make of BEFORE, with examples that it passes. Nothing is applied: read the rules, and change them,
    before you use them with -r. What no rule explains is shown.

    Example: gpu2npu rules learn trainer_cuda trainer_npu -o learned.json
    """
    if known_version(version) is None:
        raise click.UsageError(f"{unknown_version(version)}.")
    with usage_errors():
        learned = learn_rules(before.resolve(), after.resolve(), version, files)
    text = rule_file(learned.proposals)
    if output is not None and learned.proposals:
        write_rules(output, text)
    elif learned.proposals:
        click.echo(text, nl=False)
    _show(learned, to_stderr=output is None)


def _show(learned: Learned, *, to_stderr: bool) -> None:
    """The report: on stderr where stdout has the rules."""
    for proposal in learned.proposals:
        say(_proposal(proposal), bold=True, err=to_stderr)
    for line in _numbers(learned):
        say(line, err=to_stderr)
    if learned.left:
        say("Not explained (- the result of the rules, + what was written by hand):", err=to_stderr)
    for difference in learned.left:
        for line in _difference(difference):
            colour = {"-": "red", "+": "green"}.get(line[:1])
            say(line, fg=colour, err=to_stderr)


def _proposal(proposal: Proposal) -> str:
    path, line = proposal.places[0]
    more = f" and {counted(len(proposal.places) - 1, 'other place')}" if len(proposal.places) > 1 else ""
    return f"{proposal.rule.id}: {proposal.rule.match.text}, as in {path}:{line}{more}"


def _numbers(learned: Learned) -> list[str]:
    left = amount(learned.left)
    part = 100 * (learned.by_hand - left) // learned.by_hand if learned.by_hand else 100
    lines = [
        f"The two folders differ by {counted(learned.by_hand, 'line')}. The rules that were there leave "
        f"{learned.without} of them; with {counted(len(learned.proposals), 'proposed rule')} {left} are left, and "
        f"{max(part, 0)} % are reproduced."
    ]
    if learned.unpaired:
        lines.append(f"Only one of the folders has: {', '.join(learned.unpaired)}.")
    if learned.unread:
        lines.append(f"Not parsed in one of the folders, so nothing is learned of: {', '.join(learned.unread)}.")
    return lines


def _difference(difference: LineDifference) -> list[str]:
    removed, added = (
        [f"{sign} {line}" for line in lines] for sign, lines in (("-", difference.before), ("+", difference.after))
    )
    return [f"{difference.path}:{difference.line}", *removed, *added]


_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@click.command()
@click.argument("rule_id", metavar="[ID]", default="my-rule")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write to FILE, and the schema beside it for your editor, instead of printing.",
)
@click.option(
    "--match",
    "kind",
    type=click.Choice(tuple(kinds())),
    default="name",
    show_default=True,
    help="What the rule matches.",
)
def new(rule_id: str, output: Path | None, kind: str) -> None:
    """Write a rule file to start from: a rule called ID that works, to be changed into your own."""
    if _ID.fullmatch(rule_id) is None:
        raise click.UsageError(f"{rule_id!r} is not a rule's id: use lower-case letters, digits and single hyphens.")
    text = starter(rule_id, kind)
    if output is None:
        click.echo(text, nl=False)
        return
    write_rules(output, text)


def write_rules(output: Path, text: str) -> None:
    """Write a new rule file, and the schema beside it unless it is there. Raises UsageError if the file exists."""
    _write(output, text)
    say(f"Wrote {output}.")
    schema_copy = output.parent / SCHEMA_NAME
    if not schema_copy.exists():
        _write(schema_copy, schema_text())
        say(f"Wrote {schema_copy}, which your editor completes the file with.")


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError as error:
        raise click.UsageError(f"'{path}' exists; choose another name, or move it away.") from error
    except OSError as error:
        raise click.UsageError(f"'{path}' cannot be written: {error.strerror}.") from error


@click.command()
@click.option("--path", "as_path", is_flag=True, help="Print the path of its file instead.")
def schema(as_path: bool) -> None:
    """Print the JSON Schema of rule files, which editors complete and check them with."""
    click.echo(schema_path() if as_path else schema_text(), nl=as_path)
