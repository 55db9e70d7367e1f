"""`gpu2npu verify`: the original program against the migrated one, side by side or on two machines."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpu2npu.cli.file_options import FilledPath, version_option
from gpu2npu.cli.language import prefer, say
from gpu2npu.cli.lazy_group import LazyCommand, LazyGroup
from gpu2npu.cli.program_options import (
    ReportOptions,
    baseline_option,
    check_outermost,
    check_program,
    check_requirements,
    check_soc,
    evaluation_option,
    format_option,
    html_option,
    npus_option,
    soc_option,
    steps_option,
    table_option,
    update_baseline_option,
)

if TYPE_CHECKING:
    from gpu2npu.verify.verdict import Side

EPILOG = """
\b
Examples:
  gpu2npu verify -i resnet -v 2.1.0 -- train.py --epochs 1
  gpu2npu verify -i resnet --migrated out/resnet_msft --steps 50 -- -m resnet.train
  gpu2npu verify -i resnet -v 2.1.0 -o verified --html verified.html -- train.py
  gpu2npu verify -i resnet -v 2.1.0 --npus 2 -- torchrun --nproc_per_node 2 train.py
  gpu2npu verify -i resnet -v 2.1.0 --baseline resnet.json --update-baseline -- train.py    store what it costs now
  gpu2npu verify -i resnet -v 2.1.0 --baseline resnet.json -- train.py                      what is slower, or different
  gpu2npu verify -i resnet -v 2.1.0 --msprobe dump -- train.py                              dumps for `msprobe compare`

\b
On two machines:
  gpu2npu verify record -o resnet.gpu2npu -- train.py           the original, where a GPU is
  gpu2npu verify compare resnet.gpu2npu -- train.py             the migrated copy, emulated or where an NPU is

The original runs on a GPU where PyTorch has one, else on a CPU that plays the part of CUDA, and the migrated program on
the emulated NPU, in copies of their folders: neither is modified. Both are given the same random numbers.

\b
Exit codes:
  0   both train the same: all differences are rounding
  1   they diverge; the first place is named
  2   the command line or a path is wrong
  3   one of the two failed
"""

_COMMANDS = {
    "record": LazyCommand("gpu2npu.cli.verify.record", "record", "Record what the original does, in one file."),
    "compare": LazyCommand("gpu2npu.cli.verify.compare", "compare", "Compare a migrated program with a recording."),
}


class _VerifyGroup(LazyGroup):
    """A group whose words are a program to run where the first of them is not a subcommand."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As LazyGroup; the program's words are in `ctx.args`."""
        words = self.make_parser(ctx).parse_args(list(args))[1] if "--" not in args else []
        if not words or words[0] in self.lazy_commands:
            return super().parse_args(ctx, args)
        return super().parse_args(ctx, [*args[: len(args) - len(words)], "--", *words])


@click.group(
    name="verify",
    cls=_VerifyGroup,
    lazy_commands=_COMMANDS,
    invoke_without_command=True,
    epilog=EPILOG,
    options_metavar="[OPTIONS]",
    subcommand_metavar="-- CMD...",
)
@click.option(
    "-i",
    "--input",
    "source",
    type=FilledPath(exists=True, file_okay=False, path_type=Path),
    metavar="SRC",
    help="The original project, a folder.",
)
@version_option
@click.option(
    "--migrated",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="A copy that was migrated before; with -v instead, the project is migrated first.",
)
@steps_option
@evaluation_option
@npus_option
@soc_option
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="A new folder for the recordings, what the programs print and the migrated copy.",
)
@html_option
@table_option
@format_option
@baseline_option
@update_baseline_option
@click.option(
    "--msprobe",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Also dump the step at which they diverge, or the first one, of both: a new folder that msprobe reads.",
)
@click.pass_context
def verify(
    ctx: click.Context,
    source: Path | None,
    version: str | None,
    migrated: Path | None,
    steps: int,
    evaluation: bool,
    npus: int | None,
    soc: str,
    output: Path | None,
    html: Path | None,
    table: Path | None,
    form: str,
    baseline: Path | None,
    update_baseline: bool,
    msprobe: Path | None,
) -> None:
    """Run a project and its migrated copy side by side, and say whether they train the same.

    CMD is run in each: a Python script, `-m module`, torchrun, or any command, as for `gpu2npu run`. With --npus, a
    copy whose DataParallel became DistributedDataParallel is started by its launcher, run_distributed_npu.sh.
    """
    if ctx.invoked_subcommand is not None:
        _refuse_options(ctx)
        return
    if source is None:
        raise click.UsageError("The option -i/--input is missing: give the folder of the original project.")
    check_outermost()
    check_program(ctx.args, source)
    if (version is None) == (migrated is None):
        raise click.UsageError("Give either -v, to migrate the project, or --migrated, the folder of a migrated copy.")
    _check_folder("-o", output, (source, migrated))
    _check_folder("--msprobe", msprobe, (source, migrated))
    report = ReportOptions(html, form, baseline, update_baseline, table)
    report.check()
    check_soc(soc)
    check_requirements()
    say("The programs are prepared.", err=True)

    from gpu2npu.cli.verify.run import commands_of, emulated_side, original_side

    with _workplace(output) as folder:
        copy = _migrated(source, version, folder) if migrated is None else migrated
        run, cards = commands_of(tuple(ctx.args), copy.resolve(), npus)
        recorded = {"shared": run.shared, "evaluation": evaluation}
        original = original_side(source.resolve(), run.original, folder / "original", steps, cards, **recorded)
        copied = emulated_side(copy.resolve(), run.migrated, folder / "migrated", steps, soc, cards, **recorded)
        sys.exit(_verify(original, copied, report, msprobe))


def _refuse_options(ctx: click.Context) -> None:
    by_user = click.core.ParameterSource.COMMANDLINE
    for option in ctx.command.params:
        if option.name is not None and ctx.get_parameter_source(option.name) is by_user:
            raise click.UsageError(f"The option {option.opts[0]} has no meaning before '{ctx.invoked_subcommand}'.")


def _check_folder(option: str, folder: Path | None, projects: tuple[Path | None, ...]) -> None:
    if folder is None:
        return
    if folder.exists():
        raise click.UsageError(f"{option} {folder}: there is such a folder already; name a new one.")
    for project in projects:
        if project is not None and folder.resolve().is_relative_to(project.resolve()):
            raise click.UsageError(f"{option} {folder} is in {project}, which is copied: name another folder.")


@contextmanager
def _workplace(output: Path | None) -> Iterator[Path]:
    """The folder in which programs run: the one asked for, or one that is removed at the end."""
    if output is not None:
        yield output.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="gpu2npu-verify-") as folder:
        yield Path(folder)


def _migrated(source: Path, version: str | None, folder: Path) -> Path:
    """Migrate the project; the folder of the copy."""
    from gpu2npu.project.config import read_config
    from gpu2npu.project.location import Output
    from gpu2npu.project.migration import migrate_project
    from gpu2npu.project.settings import Settings

    settings = Settings(version or "").or_else(read_config(source))
    prefer(settings.lang)
    outcome, destination = migrate_project(source, settings, Output(folder / "migration"))
    if not outcome.complete:
        say("Note: some files could not be migrated; see msFmkTranspltlog.txt in the copy.", err=True)
    return destination


def _verify(original: Side, migrated: Side, report: ReportOptions, msprobe: Path | None) -> int:
    from gpu2npu.cli.verify.run import missing_of, shown
    from gpu2npu.verify.comparing.compare import Comparison
    from gpu2npu.verify.verdict import dump, verify, with_elements

    def run_again(comparison: Comparison) -> Comparison:
        if msprobe is not None:
            dump(original, migrated, comparison, msprobe)
        return with_elements(original, migrated, comparison)

    missing = missing_of(original.project, original.gpus)
    return shown(
        lambda progress: verify(original, migrated, progress), original.project, migrated, report, run_again, missing
    )
