"""The output of an earlier `gpu2npu check --repos`, to compare with: lines of JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpu2npu.project.errors import UsageError
from gpu2npu.report.check.json import FORMAT
from gpu2npu.report.check.result import Verdict
from gpu2npu.report.check.rollup import LastRun

_VERDICTS = {verdict.value for verdict in Verdict}


def read_last_run(file: Path) -> dict[str, LastRun]:
    """The result of each repository, by path. Raises UsageError where the file cannot be read or is something else."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"The last run '{file}' cannot be read: {reason}.") from error
    found = {}
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                path, last = _entry(json.loads(line))
            except (ValueError, LookupError, TypeError, RecursionError) as error:
                hint = "give a file that `gpu2npu check --repos` wrote as lines of JSON"
                raise UsageError(f"Line {number} of '{file}' is not a repository of this format; {hint}.") from error
            found[path] = last
    return found


def _entry(line: Any) -> tuple[str, LastRun]:
    if line["format"] != FORMAT:
        raise ValueError("another format")
    ready = line["readiness"]
    if ready is None:
        return str(line["path"]), LastRun("", 0, 0.0)
    if ready["verdict"] not in _VERDICTS:
        raise ValueError("another verdict")
    return str(line["path"]), LastRun(ready["verdict"], int(ready["blocking"]), float(ready["effort_hours"][1]))
