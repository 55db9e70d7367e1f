"""Options and error handling that the commands about rules share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from gpu2npu.project.errors import UsageError

_Command = TypeVar("_Command", bound=Callable[..., Any])


@contextmanager
def usage_errors() -> Iterator[None]:
    """A rule file that cannot be used is a wrong command line: one sentence and exit code 2."""
    from gpu2npu.rulebook.expression import ExpressionTimeError
    from gpu2npu.rulebook.rule import RuleError  # with all of the rule book, which `--help` does not need

    try:
        yield
    except (RuleError, ExpressionTimeError) as error:
        raise UsageError(str(error)) from error


def with_packs(_ctx: click.Context, _option: click.Parameter, sources: tuple[Path, ...]) -> tuple[Path, ...]:
    """The callback of options and arguments that take rule files: packs and folders become their files."""
    if not sources:
        return ()
    from gpu2npu.rulebook.packs import rule_files  # reads the metadata of what is installed

    with usage_errors():
        return rule_files(sources)


def rule_files(parameter: str) -> Callable[[_Command], _Command]:
    """The option -r, whose files the command takes as `parameter`."""
    return click.option(
        "-r",
        "--rule",
        parameter,
        type=click.Path(path_type=Path),
        multiple=True,
        metavar="RULES.json",
        callback=with_packs,
        help="A file or a folder of your own rules, or pack:NAME for those of an installed package: they come before "
        "the built-in ones. Repeatable.",
    )


rule_files_option = rule_files("files")
rule_files_argument = click.argument(
    "files", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="FILE...", callback=with_packs
)


def split_ids(lists: Sequence[str]) -> tuple[str, ...]:
    """The ids in lists with commas, one for each time the option is given."""
    return tuple(part.strip() for listed in lists for part in listed.split(",") if part.strip())
