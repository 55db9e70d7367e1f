"""Options of every command that looks at the files of a project, and the tables that `--report` writes."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from functools import reduce
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gpu2npu.cli.language import prefer, say
from gpu2npu.codemods.choice import CODEMODS
from gpu2npu.project.errors import OutputError, UsageError

if TYPE_CHECKING:
    import pandas as pd

    from gpu2npu.project.settings import Settings


FORMS = ("xlsx", "parquet", "csv")
_NEEDED = {"xlsx": "openpyxl", "excel": "openpyxl", "parquet": "pyarrow"}

report_option = click.option(
    "--report",
    type=click.Choice(FORMS),
    help="Write all tables too, as one Excel workbook, or as Parquet or CSV files in one folder.",
)


def refuse_missing_package(form: str | None, option: str = "--report") -> None:
    """Raise UsageError, before any work, where a form needs a package that is not there."""
    needed = _NEEDED.get(form or "")
    if needed is not None and find_spec(needed) is None:
        raise UsageError(f"{option} {form} needs {needed}: pip install 'gpu2npu[tables]'.")


def write_report(frames: Callable[[], dict[str, pd.DataFrame]], form: str, place: Path, quiet: bool) -> None:
    """Write the tables to PLACE.xlsx, or into the folder PLACE, and say so. Raises OutputError."""
    from gpu2npu.report.frames import write_frames

    try:
        written = write_frames(frames(), form, place)
    except OSError as error:
        raise OutputError(f"The report '{place}' could not be written: {error.strerror or error}.") from error
    if not quiet:
        say(f"The tables are in {written}.", err=True)


_Command = TypeVar("_Command", bound=Callable[..., Any])

# The largest file that is looked at takes a tenth of it.
_SECONDS = 120.0

version_option = click.option(
    "-v",
    "--version",
    metavar="VERSION",
    help="The PyTorch version the project is written for, such as 2.1.0: 1.11.0, or 2.1 to 2.14; without a "
    "patch number its newest.",
)
torch_npu_option = click.option(
    "--torch-npu",
    metavar="VERSION",
    help="The release of torch_npu, such as 2.1.0.post3.  [default: the newest on PyPI for the version]",
)
jobs_option = click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many processes to use.  [default: one for each CPU]",
)
file_timeout_option = click.option(
    "--file-timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How much time of the processor the work on one file may take. A file that takes longer is left unchanged, "
    "and listed as failed.",
)

force_option = click.option("--force", is_flag=True, help="Replace the result of an earlier run, if it is there.")


class FilledPath(click.Path):
    """A path that is not "", as an unset variable of a shell leaves it, nor an address, nor too long for the system."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("it is empty; for the current folder write '.'.", param, ctx)
        if re.match(r"\w+://|git@", str(value)):
            self.fail(f"{value} is an address; clone it first, and name the folder.", param, ctx)
        try:
            os.lstat(value)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                self.fail("it is longer than the name of a file may be.", param, ctx)
        return super().convert(value, param, ctx)


def source_option(required: bool) -> Callable[[_Command], _Command]:
    """The option -i, which the command takes as `source`."""
    return click.option(
        "-i",
        "--input",
        "source",
        type=FilledPath(path_type=Path),
        required=required,
        metavar="SRC",
        help="The project: a folder, or one file such as train.py. It is never modified.",
    )


def output_option(required: bool) -> Callable[[_Command], _Command]:
    """The option -o, which the command takes as `output`."""
    return click.option(
        "-o",
        "--output",
        type=FilledPath(path_type=Path),
        required=required,
        metavar="OUT",
        help="The folder in which the result is written, as a folder of its own.",
    )


def place_options(required: bool) -> Callable[[_Command], _Command]:
    """The options -i, -o, -v and --torch-npu; the first two are required, or not."""
    return _together(source_option(required), output_option(required), version_option, torch_npu_option)


def work_options(command: _Command) -> _Command:
    """The options -j, --file-timeout and --force."""
    return _together(jobs_option, file_timeout_option, force_option)(command)


def _together(*options: Callable[[_Command], _Command]) -> Callable[[_Command], _Command]:
    """Several options as one decorator, in the order of the help."""
    return lambda command: reduce(lambda given, option: option(given), reversed(options), command)


def chosen_settings(given: Settings, source: Path) -> Settings:
    """The command line's settings, filled up with the project's, whose language is used. Raises UsageError."""
    from gpu2npu.project.config import read_config

    settings = given.or_else(read_config(source))
    prefer(settings.lang)
    if not settings.version:
        raise click.UsageError("The option -v/--version is missing: give the PyTorch version of the project.")
    return settings


def codemod_options(command: _Command) -> _Command:
    """The options that ask for codemods, each by the name of its record."""
    for codemod in reversed(CODEMODS):
        if (option := codemod.option) is not None:
            is_switch = option.metavar is None
            taken = {"is_flag": True} if is_switch else {"metavar": option.metavar, "multiple": bool(option.reads)}
            command = click.option(*option.flags, codemod.name, help=option.help, **taken)(command)
    return command
