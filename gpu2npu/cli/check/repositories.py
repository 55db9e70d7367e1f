"""`gpu2npu check --repos`: many repositories, each a line of JSON as it is done, and all of them as a page or table."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from gpu2npu.cli.check.output import write, write_bytes
from gpu2npu.cli.file_options import refuse_missing_package

if TYPE_CHECKING:
    from gpu2npu.project.check.choice import CheckChoice
    from gpu2npu.project.settings import Settings
    from gpu2npu.report.check.result import CheckedRepository
    from gpu2npu.report.check.rollup import LastRun

# What --repos takes as --format; of these, files that are made when all are done.
FORMATS = ("text", "lines", "json", "html", "csv", "parquet", "excel")
FILES = ("html", "csv", "parquet", "excel")
ROWS = ("repository", "cause", "package", "owner")


class Rollup(Struct, frozen=True):
    """The output for many repositories: `form` is one of FORMATS, `output` the file to write, None for standard output,
    `bar` that of --fail-on; `rows` is what a row of a CSV or Parquet table is, one of ROWS; `last` the file of an
    earlier run."""

    form: str
    output: Path | None
    bar: str
    rows: str = "repository"
    last: Path | None = None


def check_many(settings: Settings, choice: CheckChoice, listed: Path, shown: Rollup, address: str | None) -> int:
    """Check each repository of a list; returns the exit code. `address` is that of an executor, None for processes."""
    from gpu2npu.project.check.repositories import check_repositories, read_last_run, read_repositories
    from gpu2npu.project.executors import open_executor
    from gpu2npu.project.worker_processes import available_cpus
    from gpu2npu.report.check.json import repository_line
    from gpu2npu.report.check.result import EXIT_CLEAN, exit_code

    refuse_missing_package(shown.form, "--format")
    paths = read_repositories(listed)
    last = read_last_run(shown.last) if shown.last is not None else {}
    done: list[CheckedRepository] = []
    lines: list[str] = []
    pages: dict[str, str] = {}
    code = EXIT_CLEAN
    with ExitStack() as stack:
        executor = stack.enter_context(open_executor(address)) if address is not None else None
        jobs = settings.jobs or available_cpus()
        checked = check_repositories(paths, settings, choice, jobs=jobs, executor=executor)
        for repository in stack.enter_context(closing(checked)):
            if repository.page and shown.output is not None:
                pages[repository.path] = _write_page(repository, shown.output)
            done.append(replace(repository, page=""))
            lines.append(repository_line(repository))
            if shown.output is None or shown.form in FILES:
                print(lines[-1], flush=True)
            failed = repository.failures > 0 or repository.error is not None
            code = max(code, exit_code([*repository.severities, *repository.counts], failed, shown.bar))
    if shown.form in FILES:
        _write_all(sorted(done, key=lambda each: each.path), shown, pages, last)
    elif shown.output is not None:
        write("".join(f"{line}\n" for line in lines), shown.output)
    return code


def _write_page(repository: CheckedRepository, output: Path) -> str:
    """Write the page of one repository into a folder beside the page of all; returns its address from there."""
    digest = hashlib.sha256(repository.path.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    name = re.sub(r"[^\w.-]+", "-", repository.name, flags=re.ASCII).strip(".-")[:60] or "repository"
    folder = re.sub(r"[^\w.-]+", "-", output.stem, flags=re.ASCII) + "_pages"
    page = f"{folder}/{name}-{digest}.html"
    write(repository.page, output.parent / page)
    return page


def _write_all(
    done: Sequence[CheckedRepository], shown: Rollup, pages: Mapping[str, str], last: Mapping[str, LastRun]
) -> None:
    if shown.form == "html":
        from gpu2npu.report.check.rollup_tables import rollup_page

        write(rollup_page(done, pages, last), shown.output)
        return
    from gpu2npu.report.check.rollup_tables import csv_table, excel_workbook, parquet_table, rollup_tables

    tables = rollup_tables(done, last)
    if shown.form == "csv":
        content = csv_table(tables[shown.rows])
    else:
        content = excel_workbook(tables) if shown.form == "excel" else parquet_table(tables[shown.rows])
    write_bytes(content, shown.output)
