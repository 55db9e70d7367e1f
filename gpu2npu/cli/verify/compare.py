"""`gpu2npu verify compare`: a migrated program against what the original did on another machine."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpu2npu.cli.program_options import (
    ReportOptions,
    baseline_option,
    check_outermost,
    check_program,
    check_requirements,
    check_soc,
    format_option,
    here_option,
    html_option,
    npus_option,
    program_argument,
    soc_option,
    table_option,
    update_baseline_option,
)
from gpu2npu.emulator.launch import real_torch_npu

if TYPE_CHECKING:
    from gpu2npu.verify.verdict import ReferenceRun

EPILOG = """
\b
Examples:
  cd out/resnet_msft && gpu2npu verify compare ../../resnet.gpu2npu -- train.py --epochs 1
  gpu2npu verify compare resnet.gpu2npu -i out/resnet_msft --html verified.html -- train.py --epochs 1

CMD runs in a copy of the project for as many steps as were recorded, and on as many NPUs as the original had GPUs
unless --npus says otherwise: on those of this machine where torch_npu is installed, else on emulated ones. Exit codes
are those of `gpu2npu verify`.
"""


@click.command(epilog=EPILOG, options_metavar="[OPTIONS]")
@click.argument("reference", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="REFERENCE")
@here_option
@npus_option
@soc_option
@html_option
@table_option
@format_option
@baseline_option
@update_baseline_option
@program_argument
def compare(
    reference: Path,
    source: Path,
    npus: int | None,
    soc: str,
    html: Path | None,
    table: Path | None,
    form: str,
    baseline: Path | None,
    update_baseline: bool,
    command: tuple[str, ...],
) -> None:
    """Compare the migrated program with REFERENCE, which `gpu2npu verify record` wrote."""
    check_outermost()
    check_program(command)
    report = ReportOptions(html, form, baseline, update_baseline, table)
    report.check()
    check_soc(soc)
    check_requirements()

    from gpu2npu.verify.recording.records import RecordingError
    from gpu2npu.verify.reference_file import read_reference

    try:
        original = read_reference(reference)
    except RecordingError as error:
        raise click.UsageError(f"{error}.") from None
    sys.exit(_compare(original, source.resolve(), npus, soc, report, command))


def _compare(
    original: ReferenceRun, source: Path, npus: int | None, soc: str, report: ReportOptions, command: tuple[str, ...]
) -> int:
    from gpu2npu.cli.verify.run import commands_of, emulated_side, real_side, shown
    from gpu2npu.verify.verdict import compare_with, with_stored_elements

    run, cards = commands_of(command, source, npus or original.gpus)
    shared = run.shared and len(original.ranks) == 1
    recorded = {"shared": shared, "evaluation": original.evaluation}
    with tempfile.TemporaryDirectory(prefix="gpu2npu-verify-") as folder:
        if real_torch_npu(sys.path) is not None:
            migrated = real_side(source, run.migrated, Path(folder), original.steps, **recorded)
        else:
            migrated = emulated_side(source, run.migrated, Path(folder), original.steps, soc, cards, **recorded)
        return shown(
            lambda progress: compare_with(original, migrated, progress),
            None,
            migrated,
            report,
            lambda comparison: with_stored_elements(original, migrated, comparison),
        )
