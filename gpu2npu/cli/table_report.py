"""The option --report of a migration and a check: all tables of it as a workbook, or as Parquet or CSV files."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpu2npu.cli.language import say
from gpu2npu.project.errors import OutputError, UsageError

if TYPE_CHECKING:
    import pandas as pd

FORMS = ("xlsx", "parquet", "csv")
_NEEDED = {"xlsx": "openpyxl", "parquet": "pyarrow"}

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
