"""The migration that `gpu2npu -i SRC -o OUT -v VERSION` runs. Imported only when there is something to migrate."""

from __future__ import annotations

import sys

from gpu2npu.cli.console import progress_shown, show_outcome, write_diff
from gpu2npu.cli.signals import end_cleanly_when_asked
from gpu2npu.project.migration import migrate_project, preview_project
from gpu2npu.project.request import Request
from gpu2npu.python.text.source import declared_encoding
from gpu2npu.report.diff import unified_diff

EXIT_COMPLETE = 0
EXIT_INCOMPLETE = 1


def migrate(request: Request, quiet: bool) -> int:
    """Migrates and shows what was done; returns the exit code."""
    end_cleanly_when_asked()
    with progress_shown(quiet) as progress:
        outcome, destination = migrate_project(request, progress)
    show_outcome(outcome, str(destination), sys.stdout, quiet)
    return EXIT_COMPLETE if outcome.complete else EXIT_INCOMPLETE


def show_diff(request: Request, quiet: bool) -> int:
    """Prints the diff of the migration, writes nothing; returns the exit code."""
    end_cleanly_when_asked()
    with progress_shown(quiet) as progress:
        preview = preview_project(request, progress)
    for file in preview.outcome.files:
        if file.content is not None:
            before = preview.before[file.path]
            diff = unified_diff(file.path, before, file.content, _sections(file.path, before))
            write_diff(diff, declared_encoding(before))
    show_outcome(preview.outcome, "(nothing written)", sys.stderr, quiet)
    return EXIT_COMPLETE if preview.outcome.complete else EXIT_INCOMPLETE


def _sections(path: str, source: bytes) -> list[tuple[int, str]]:
    """Return the first line and the name of each cell of a notebook; nothing for other files."""
    if not path.endswith(".ipynb"):
        return []
    from gpu2npu.formats.notebook import cell_lines

    return [(line, f"cell {number}") for number, line in cell_lines(source.decode("utf-8-sig"))]
