"""Options and arguments of every command that runs a program: `run`, `verify` and what is below it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from click.core import ParameterSource
from msgspec import Struct

from gpu2npu.cli.file_options import FORMS, FilledPath, refuse_missing_package
from gpu2npu.cli.language import say
from gpu2npu.emulator.launch import missing_requirements
from gpu2npu.emulator.soc import DEFAULT_SOC, soc_named
from gpu2npu.support.cann import chip_problem
from gpu2npu.support.chips import chip_family, other_meaning

# What a command needs whose last words are a program with options of its own.
PROGRAM_SETTINGS = {"ignore_unknown_options": True, "allow_interspersed_args": False}

program_argument = click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="CMD...")

soc_option = click.option(
    "--soc",
    envvar="GPU2NPU_SOC",
    default=DEFAULT_SOC,
    show_default=True,
    metavar="NAME",
    help="Which Ascend chip the NPUs are, such as Ascend910A.",
)
steps_option = click.option(
    "--steps",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="Optimizer steps to compare.",
)
evaluation_option = click.option(
    "--evaluation",
    is_flag=True,
    help="Also record what is within modules that are called while no gradient is computed: slower.",
)
npus_option = click.option(
    "--npus",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many NPUs the migrated program sees, and GPUs the original; as many as torchrun in CMD starts, or 1.",
)
here_option = click.option(
    "-i",
    "--input",
    "source",
    type=FilledPath(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    metavar="SRC",
    help="The project's folder, in a copy of which CMD runs.  [default: the current folder]",
)
html_option = click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write the result as one web page."
)
table_option = click.option(
    "--table",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a row for each place and step that was compared: FILE.xlsx, FILE.parquet or FILE.csv.",
)
format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Print the verdict, or all that was compared as JSON.",
)

baseline_option = click.option(
    "--baseline",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Losses, step times and memory of an earlier run: report what became slower or different.",
)
update_baseline_option = click.option(
    "--update-baseline", is_flag=True, help="Write the present ones into the file of --baseline."
)


class ReportOptions(Struct, frozen=True):
    """The report of a verification: a page, text or JSON, and the baseline that the program is held against."""

    html: Path | None
    form: str
    baseline: Path | None = None
    update_baseline: bool = False
    table: Path | None = None

    def check(self) -> None:
        """Refuse files in folders that do not exist, and a baseline that is not there."""
        _check_folder("--html", self.html)
        _check_folder("--table", self.table)
        if self.table is not None:
            form = self.table.suffix.removeprefix(".")
            if form not in FORMS:
                raise click.UsageError(f"--table {self.table}: name a file that ends with .{', .'.join(FORMS)}.")
            refuse_missing_package(form, "--table")
        if self.update_baseline:
            _check_folder("--baseline", self.baseline)
            if self.baseline is None:
                raise click.UsageError("--update-baseline needs --baseline, the file to write.")
        elif self.baseline is not None and not self.baseline.is_file():
            raise click.UsageError(f"--baseline {self.baseline}: there is no such file; --update-baseline writes it.")


def check_outermost() -> None:
    """Refuse to verify within `gpu2npu run`, whose NPUs the original would see too."""
    if "GPU2NPU_NPUS" in os.environ:
        raise click.UsageError("`gpu2npu verify` starts both programs itself: call it without `gpu2npu run` before it.")


def check_program(command: Sequence[str], project: Path | None = None) -> None:
    """Refuse a missing program, an option of ours that there is not, and what a project does not have: a script, a
    command, or a module of a package of its own."""
    if not command:
        raise click.UsageError("Missing CMD: name a script, `-m module` or a command to run.")
    if command[0].startswith("-") and command[0] not in ("-m", "-c"):
        raise click.NoSuchOption(command[0])
    if project is None:
        return
    first, *more = command
    if first.endswith(".py") and not (project / first).is_file():
        raise click.UsageError(f"{project / first}: there is no such script.")
    parts = more[0].split(".") if first == "-m" and more else []
    module = project.joinpath(*parts)
    if parts and (project / parts[0]).is_dir() and not (module.is_dir() or module.with_suffix(".py").is_file()):
        raise click.UsageError(f"-m {more[0]}: there is no such module in {project}.")
    if first not in ("-m", "-c") and not (project / first).exists() and not _is_command(first):
        raise click.UsageError(f"{first}: there is no such command on PATH.")


def _is_command(name: str) -> bool:
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    return shutil.which(name, path=path) is not None


def check_soc(soc: str, torch_npu: str | None = None) -> None:
    """Refuse a chip that is not emulated, or that the torch_npu in use does not know; say which is meant, where the
    name that a user gave is that of two."""
    try:
        soc_named(soc)
    except ValueError as error:
        raise click.UsageError(f"--soc: {error}.") from None
    if torch_npu is not None and (problem := chip_problem(torch_npu, chip_family(soc))):
        raise click.UsageError(f"--soc: {problem}.")
    is_given = click.get_current_context().get_parameter_source("soc") is not ParameterSource.DEFAULT
    if is_given and (meaning := other_meaning(soc)):
        say(f"Note: {meaning}.", err=True)


def check_requirements() -> None:
    """Refuse to run a program without what the emulator, recordings and comparisons need."""
    missing = missing_requirements(sys.path)
    if missing:
        raise click.UsageError(
            f"{' and '.join(missing)} not installed for {sys.executable}: run `pip install 'gpu2npu[emulator]'`."
        )


def _check_folder(option: str, file: Path | None) -> None:
    if file is not None and not file.absolute().parent.is_dir():
        raise click.UsageError(f"{option} {file}: there is no folder {file.absolute().parent}.")
