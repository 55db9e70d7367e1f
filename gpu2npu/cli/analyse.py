"""`gpu2npu analyse`: what a project needs that an NPU lacks, and what would be faster there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpu2npu.cli.file_options import chosen_settings, place_options, work_options
from gpu2npu.cli.language import say
from gpu2npu.language import shown
from gpu2npu.records import PathNote

if TYPE_CHECKING:
    from gpu2npu.report.tables import Table

EXIT_COMPLETE = 0
EXIT_INCOMPLETE = 1

# Named here, and defined in project/analyse.py, so that --help need not load the engine.
MODE_NAMES = ("torch_apis", "third_party", "affinity_apis", "dynamic_shape")
DEFAULT_MODES = ("torch_apis", "affinity_apis")

_EPILOG = """\
\b
Examples:
  gpu2npu analyse -i resnet -o reports -v 2.7.1            which torch APIs to check, and what could be faster
  gpu2npu analyse -i mmcv -o reports -v 2.1.0 -m third_party
  gpu2npu analyse -i resnet -o reports -v 2.1.0 --api reports/mmcv_analysis/full_unsupported_results.csv

\b
Exit codes:
  0   everything was analysed; findings do not change it (`gpu2npu check` is for that)
  1   some file could not be read or parsed; it is listed with its reason
  2   the command line or a path is wrong
"""


@click.command(epilog=_EPILOG)
@place_options(required=True)
@click.option(
    "-m",
    "--mode",
    "modes",
    type=click.Choice(MODE_NAMES),
    multiple=True,
    default=DEFAULT_MODES,
    show_default=True,
    help="What to analyse. Repeatable.",
)
@click.option(
    "-api",
    "--api",
    "apis",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    multiple=True,
    metavar="FILE",
    help="A table that -m third_party wrote for a library: calls of its functions are reported too. Repeatable.",
)
@click.option(
    "--fix",
    is_flag=True,
    help="With affinity_apis: also write OUT/<name>_analysis/fixed, a copy of the project "
    "with the replacements that change no result.",
)
@click.option("--exclude", multiple=True, metavar="PATTERN", help="Leave out files that match PATTERN. Repeatable.")
@work_options
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@click.pass_context
def analyse(
    ctx: click.Context,
    source: Path,
    output: Path,
    version: str | None,
    torch_npu: str | None,
    modes: tuple[str, ...],
    apis: tuple[Path, ...],
    fix: bool,
    exclude: tuple[str, ...],
    jobs: int | None,
    file_timeout: float,
    force: bool,
    quiet: bool,
) -> None:
    """Analyse a project without migrating it: unsupported, slow and unknown APIs, and what has a faster equivalent.

    The tables are written to OUT/<name>_analysis.
    """
    from gpu2npu.cli.console import progress_shown
    from gpu2npu.cli.signals import end_cleanly_on_signals
    from gpu2npu.project.analyse import AnalysisChoice, analyse_project
    from gpu2npu.project.location import Output
    from gpu2npu.project.settings import Settings

    given = Settings(version or "", torch_npu or "", exclude=exclude, jobs=jobs, file_timeout=file_timeout)
    settings = chosen_settings(given, source)
    end_cleanly_on_signals()
    with progress_shown(quiet, "Analysing") as progress:
        choice = AnalysisChoice(modes, fix, apis)
        tables, notes, folder = analyse_project(source, settings, Output(output, force), choice, progress)
    _show(tables, notes, folder, quiet)
    ctx.exit(EXIT_INCOMPLETE if any(note.failed for note in notes) else EXIT_COMPLETE)


def _show(tables: Mapping[str, Table], notes: list[PathNote], folder: Path, quiet: bool) -> None:
    from gpu2npu.report.text import one_line

    for note in notes:
        if note.failed or not quiet:
            say(f"{'Error' if note.failed else 'Note'}: {one_line(f'{note.path}: {shown(note.reason)}')}", err=True)
    if quiet:
        return
    print(one_line(f"-> {folder}"))
    for name, table in tables.items():
        print(f"{name}: {len(table.rows)}")
