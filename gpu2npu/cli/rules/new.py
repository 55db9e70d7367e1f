"""`gpu2npu rules new` and `schema`: what writing a rule starts with."""

from __future__ import annotations

import re
from pathlib import Path

import click

from gpu2npu.builtin_rules import SCHEMA_NAME, schema_path
from gpu2npu.cli.language import say
from gpu2npu.rulebook.match import kinds
from gpu2npu.rulebook.schema import schema_text, starter

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
