"""msFmkTranspltlog.txt: what was done to each file, in the order of the files, at most ten parts of 1 MB."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator
from logging.handlers import RotatingFileHandler
from pathlib import Path

from gpu2npu.language import sentence, shown
from gpu2npu.records import MigratedFile, Outcome
from gpu2npu.report.text import counted, file_and_line, one_line

LOG_NAME = "msFmkTranspltlog.txt"
# How every line of a log begins, so that a later migration knows the file for ours.
LOG_LINE = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} gpu2npu ")

# Under 1 MiB with room for the last line, whose length logging counts in characters.
_PART_BYTES = 1_000_000
_PARTS = 10

_Entry = tuple[int, str]


def write_log(outcome: Outcome, file: Path, level: str, opening: str) -> None:
    """Writes the log of a migration to `file`; `opening` is what was asked for. `level` is that of `--log-level`."""
    handler = RotatingFileHandler(
        file, maxBytes=_PART_BYTES, backupCount=_PARTS - 1, encoding="utf-8", errors="backslashreplace"
    )
    handler.setFormatter(logging.Formatter("%(asctime)s gpu2npu %(levelname)s %(message)s"))
    logger = logging.Logger("gpu2npu", level.upper())
    logger.addHandler(handler)
    try:
        # Whatever the level: a log without a line could not be distinguished from a file of the project.
        handler.handle(logger.makeRecord("gpu2npu", logging.INFO, "", 0, one_line(shown(opening)), (), None))
        for severity, message in _entries(outcome):
            logger.log(severity, "%s", one_line(message))
    finally:
        handler.close()


def _entries(outcome: Outcome) -> Iterator[_Entry]:
    for path in outcome.skipped:
        yield logging.INFO, shown(f"{path}: left out (version control, caches and virtual environments are not copied)")
    for note in outcome.notes:
        yield logging.ERROR if note.failed else logging.WARNING, f"{note.path}: {shown(note.reason)}"
    for file in outcome.files:
        yield from _file_entries(file)
    folders = Counter(path.rpartition("/")[0] for path in outcome.copied)  # thousands of data files have one line
    for folder, count in sorted(folders.items()):
        yield logging.INFO, f"{folder or '.'}: {sentence('{} copied', counted(count, 'file'))}"
    for native in outcome.native:
        message = shown(f"CUDA {native.kind.value} {native.api}, which needs an NPU version")
        yield logging.WARNING, f"{native.path}:{native.line}: {message}"
    python = sum(file.path.endswith(".py") for file in outcome.files)
    changes = sum(len(file.changes) for file in outcome.files)
    findings = sum(len(file.findings) for file in outcome.files)
    sums = (counted(python, "Python file"), counted(changes, "change"), counted(findings, "finding"))
    yield logging.INFO, sentence("{} in {} s", ", ".join(map(shown, sums)), f"{outcome.seconds:.2f}")


def _file_entries(file: MigratedFile) -> Iterator[_Entry]:
    if file.failure is not None:
        yield logging.ERROR, shown(f"{file.path}: copied as it is, because it could not be migrated: {file.failure}")
    elif file.content is not None:
        yield logging.INFO, shown(f"{file.path}: migrated with {counted(len(file.changes), 'change')}")
    else:
        yield logging.INFO, f"{file.path}: {shown('unchanged')}"
    for change in file.changes:
        what = f"{change.rule}: {change.before!r} -> {change.after!r}: {shown(change.message)}"
        yield logging.DEBUG, f"{file_and_line(file.path, change.span)}: {what}"
    for finding in sorted(file.findings, key=lambda finding: (finding.span, finding.rule)):
        yield logging.WARNING, f"{file_and_line(file.path, finding.span)}: {finding.api}: {shown(finding.message)}"
    for advice in sorted(file.advice, key=lambda advice: (advice.span, advice.rule)):
        yield logging.INFO, f"{file_and_line(file.path, advice.span)}: {advice.api}: {shown(advice.message)}"
