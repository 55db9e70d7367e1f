"""`gpu2npu verify`: the original program against the migrated one, run side by side."""

from __future__ import annotations

import json
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpu2npu.emulator.launch import LaunchError, missing_requirements
from gpu2npu.emulator.soc import DEFAULT_SOC, soc_named

if TYPE_CHECKING:
    from gpu2npu.verify.comparing.compare import Comparison
    from gpu2npu.verify.verdict import Task

EXIT_SAME, EXIT_DIVERGED, EXIT_USAGE, EXIT_FAILED = 0, 1, 2, 3

EPILOG = """
\b
Examples:
  gpu2npu verify -i resnet -v 2.1.0 -- train.py --epochs 1
  gpu2npu verify -i resnet --migrated out/resnet_msft --steps 50 -- -m resnet.train
  gpu2npu verify -i resnet -v 2.1.0 -o verified --html verified.html -- train.py

The original runs on the CPU with CUDA's part played, the migrated program on the emulated NPU, in copies of their
folders: neither is modified. Both are given the same random numbers.

\b
Exit codes:
  0   both train the same: all differences are rounding
  1   they diverge; the first place is named
  2   the command line or a path is wrong
  3   one of the two failed
"""


@click.command(
    name="verify",
    epilog=EPILOG,
    options_metavar="[OPTIONS]",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option(
    "-i",
    "--input",
    "source",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=True,
    metavar="SRC",
    help="The original project, a folder.",
)
@click.option("-v", "--version", metavar="VERSION", help="The PyTorch version it is written for; it is migrated first.")
@click.option(
    "--migrated",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="A migrated copy that is there already, in place of -v.",
)
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="Optimizer steps to compare.",
)
@click.option(
    "--soc", envvar="GPU2NPU_SOC", default=DEFAULT_SOC, show_default=True, metavar="NAME", help="The Ascend chip."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="A new folder for the recordings, what the programs print and the migrated copy.",
)
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write the result as one web page."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Print the verdict, or all that was compared as JSON.",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="CMD...")
def verify(
    source: Path,
    version: str | None,
    migrated: Path | None,
    steps: int,
    soc: str,
    output: Path | None,
    html: Path | None,
    form: str,
    command: tuple[str, ...],
) -> None:
    """Run a project and its migrated copy side by side, and say whether they train the same.

    CMD is run in each: a Python script, `-m module`, or any command, as for `gpu2npu run`.
    """
    if not command:
        raise click.UsageError("Missing CMD: name a script, `-m module` or a command to run.")
    if command[0].startswith("-") and command[0] not in ("-m", "-c"):
        raise click.NoSuchOption(command[0])
    if (version is None) == (migrated is None):
        raise click.UsageError("Give either -v, to migrate the project, or --migrated, the folder of a migrated copy.")
    if output is not None and output.exists():
        raise click.UsageError(f"-o {output}: there is such a folder already; name a new one.")
    for project in (source, migrated):
        if output is not None and project is not None and output.resolve().is_relative_to(project.resolve()):
            raise click.UsageError(f"-o {output} lies in {project}, which is copied to it: name a folder elsewhere.")
    if html is not None and not html.absolute().parent.is_dir():
        raise click.UsageError(f"--html {html}: there is no folder {html.absolute().parent}.")
    try:
        soc_named(soc)
    except ValueError as error:
        raise click.UsageError(f"--soc: {error}.") from None
    missing = missing_requirements(sys.path)
    if missing:
        raise click.UsageError(f"{' and '.join(missing)} not installed: run `pip install 'gpu2npu[emulator]'`.")
    with ExitStack() as stack:
        folder = output or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpu2npu-verify-")))
        folder = folder.absolute()
        copy = _migrated(source, version, folder) if migrated is None else migrated
        task = _task(source, copy, command, folder, steps, soc)
        sys.exit(_verify(task, html, form))


def _migrated(source: Path, version: str | None, folder: Path) -> Path:
    """Migrate the project; the folder of the copy."""
    from gpu2npu.project.config import read_config, with_config
    from gpu2npu.project.migration import migrate_project
    from gpu2npu.project.request import Request

    request = with_config(Request(source, version or "", folder / "migration"), read_config(source))
    outcome, destination = migrate_project(request)
    if not outcome.complete:
        click.echo("Note: some files could not be migrated; see msFmkTranspltlog.txt in the copy.", err=True)
    return destination


def _task(source: Path, copy: Path, command: tuple[str, ...], folder: Path, steps: int, soc: str) -> Task:
    from gpu2npu.cli.run import newest_release
    from gpu2npu.verify.verdict import Task

    return Task(
        original=source.resolve(),
        migrated=copy.resolve(),
        original_command=command,
        migrated_command=command,
        folder=folder,
        steps=steps,
        soc=soc,
        torch_npu=newest_release(),
    )


def _verify(task: Task, html: Path | None, form: str) -> int:
    from gpu2npu.cli.verify_text import Losses, show_failure, show_verdict
    from gpu2npu.verify.document import document
    from gpu2npu.verify.programs import FailedError
    from gpu2npu.verify.recording.records import RecordingError
    from gpu2npu.verify.verdict import verify

    try:
        with Losses(task.steps, sys.stderr if form == "json" else sys.stdout) as losses:
            comparison = verify(task, losses.show)
    except FailedError as error:
        show_failure(error, task.migrated)
        return EXIT_FAILED
    except LaunchError as error:
        raise click.UsageError(f"{error}.") from None
    except RecordingError as error:
        click.echo(f"Error: {error}.", err=True)
        return EXIT_FAILED
    if html is not None:
        _write_page(html, comparison, task)
    if form == "json":
        click.echo(json.dumps(document(comparison, task.original, task.migrated), indent=1))
    else:
        show_verdict(comparison, task.migrated)
    return EXIT_DIVERGED if comparison.differences else EXIT_SAME


def _write_page(html: Path, comparison: Comparison, task: Task) -> None:
    from gpu2npu.report.verify_page import verify_page
    from gpu2npu.verify.document import document

    page = verify_page(document(comparison, task.original, task.migrated), task.original.name)
    try:
        html.write_text(page, encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"--html {html}: {error.strerror}.") from None
