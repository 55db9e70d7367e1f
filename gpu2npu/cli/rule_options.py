"""Options and error handling that the commands about rules share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from gpu2npu.project.errors import UsageError
from gpu2npu.rulebook.errors import RuleError

rule_files_option = click.option(
    "-r",
    "--rule",
    "files",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="RULES.json",
    help="A file of your own rules. Repeatable.",
)
rule_files_argument = click.argument(
    "files", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="FILE..."
)


@contextmanager
def usage_errors() -> Iterator[None]:
    """A rule file that cannot be used is a wrong command line: one sentence and exit code 2."""
    try:
        yield
    except RuleError as error:
        raise UsageError(str(error)) from error
