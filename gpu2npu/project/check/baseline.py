"""Known findings: a check reports what is new, and forgets what was fixed."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from gpu2npu.project.errors import OutputError, UsageError
from gpu2npu.project.tree.atomic import write_atomically
from gpu2npu.report.check.result import CheckedFile

FORMAT = 1
_MAX_BYTES = 256 * 1024 * 1024


class Known(Struct, frozen=True, order=True):
    """One known finding. The rule and the api are for people who read the file; the fingerprint decides."""

    fingerprint: str
    rule: str
    api: str


class Baseline(Struct, frozen=True):
    """Known findings by the path of their file, relative to the folder that the baseline is in, with "/"."""

    findings: Mapping[str, Collection[Known]] = field(default_factory=dict)


def read_baseline(file: Path) -> Baseline:
    """Raises UsageError where there is no such file, or no baseline in it."""
    try:
        if not file.is_file():
            raise UsageError(f"The baseline '{file}' is not a file; --update-baseline makes one.")
        with file.open("rb") as opened:
            data = opened.read(_MAX_BYTES)
        content = json.loads(data)
        if content["format"] != FORMAT:
            raise UsageError(f"The baseline '{file}' was written by another version of gpu2npu; update it.")
        return Baseline(
            {
                path: frozenset(Known(one["fingerprint"], one["rule"], one["api"]) for one in entries)
                for path, entries in content["findings"].items()
            }
        )
    except OSError as error:
        raise UsageError(f"The baseline '{file}' cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"The file '{file}' is not a baseline of gpu2npu; --update-baseline makes one.") from error


def write_baseline(baseline: Baseline, file: Path) -> None:
    """Sorted, so that the same findings make the same bytes. Raises OutputError."""
    findings = {
        path: [asdict(known) for known in sorted(entries)]
        for path, entries in sorted(baseline.findings.items())
        if entries
    }
    text = json.dumps({"format": FORMAT, "tool": "gpu2npu", "findings": findings}, indent=1) + "\n"
    try:
        write_atomically(file, text.encode())
    except OSError as error:
        raise OutputError(f"The baseline '{file}' could not be written: {error.strerror}.") from error


def mark_known(files: Iterable[CheckedFile], baseline: Baseline, root: Path, file: Path) -> tuple[CheckedFile, ...]:
    """The files with those findings marked that the baseline has. `root` is what their paths are relative to."""
    marked = []
    for checked in files:
        known = {entry.fingerprint for entry in baseline.findings.get(baseline_path(checked.path, root, file), ())}
        findings = tuple(replace(found, known=found.fingerprint in known) for found in checked.findings)
        marked.append(replace(checked, findings=findings))
    return tuple(marked)


def expired(
    files: Iterable[CheckedFile], baseline: Baseline, root: Path, file: Path, checked: Collection[str], rules: set[str]
) -> Baseline:
    """The entries that matched no finding, of those that this check could match: of the source trees `checked`, as
    paths from the baseline, and of `rules`."""
    met = {baseline_path(each.path, root, file): {one.fingerprint for one in each.findings} for each in files}
    gone: dict[str, list[Known]] = {}
    for path, entries in baseline.findings.items():
        if _lies_under(path, checked):
            left = [one for one in entries if one.fingerprint not in met.get(path, ()) and one.rule in rules]
            if left:
                gone[path] = left
    return Baseline(gone)


def updated(files: Iterable[CheckedFile], baseline: Baseline, gone: Baseline, root: Path, file: Path) -> Baseline:
    """The baseline with all findings of the files and without what is gone."""
    findings = {
        path: set(entries).difference(gone.findings.get(path, ())) for path, entries in baseline.findings.items()
    }
    for checked in files:
        entries = findings.setdefault(baseline_path(checked.path, root, file), set())
        entries.update(Known(each.fingerprint, each.finding.rule, each.finding.api) for each in checked.findings)
    return Baseline(findings)


def baseline_path(path: str, root: Path, file: Path) -> str:
    """A path as the baseline has it: from its own folder, so that it does not matter where a check is started."""
    return os.path.relpath(root / path, file.absolute().parent).encode("utf-8", "backslashreplace").decode()


def _lies_under(path: str, folders: Collection[str]) -> bool:
    return any(
        (folder == "." and not path.startswith("../")) or path == folder or path.startswith(f"{folder}/")
        for folder in folders
    )
