"""Do migrate, check and analyse agree about a project? Each place that one of them changes or reports must be known to
the others, with the same text and severity; and no file may be passed over that has something to change or report.

    python -m tools.agreement FOLDER... [-v VERSION] [-j N]

exits with 1 where they disagree.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from os.path import relpath
from pathlib import Path

from msgspec.structs import replace

from gpu2npu.engine import migrate_source
from gpu2npu.project.analyse import AnalysisChoice, analyse_project
from gpu2npu.project.check.choice import CheckChoice
from gpu2npu.project.check.session import check_project
from gpu2npu.project.location import Output, locate
from gpu2npu.project.migration import preview_project
from gpu2npu.project.session import Session
from gpu2npu.project.settings import Settings
from gpu2npu.records import Change, FileRewrite, Finding, FindingKind, MigratedFile
from gpu2npu.report.tables import (
    AFFINITY_CALLS,
    PERFORMANCE_ADVICE,
    UNKNOWN_API,
    UNSUPPORTED_API,
    affinity_rows,
    finding_rows,
    performance_rows,
)
from gpu2npu.rulebook.in_code import UNREAD

# What says where a record stands and what it says.
_Row = tuple[object, ...]


@dataclass(frozen=True)
class Disagreement:
    """A record of one file that `by` has, and `missing` has not: a change, a finding, a row or a failure."""

    path: str
    by: str
    missing: str
    record: object

    def __str__(self) -> str:
        return f"{self.path}: {self.by} has, {self.missing} has not: {self.record}"


@dataclass(frozen=True)
class Agreement:
    """The number of changes and findings that were compared, and what was not the same."""

    changes: int
    findings: int
    disagreements: tuple[Disagreement, ...]


def agreement(source: Path, version: str, jobs: int | None = 1) -> Agreement:
    """Migrate, check and analyse a folder, without writing anything into it, and compare what they say."""
    settings = Settings(version, jobs=jobs)
    files = preview_project(source, settings).outcome.files
    # A migration has a row for a file that could not be read, as well as its failure, which check has too.
    read = (replace(file, findings=tuple(one for one in file.findings if one.rule != UNREAD)) for file in files)
    migrated = {file.path: file for file in read}
    comparisons = (_with_check, _with_analysis, _without_gates)
    found = [each for compare in comparisons for each in compare(source, settings, migrated)]
    return Agreement(
        sum(len(file.changes) for file in migrated.values()),
        sum(len(file.findings) for file in migrated.values()),
        tuple(found),
    )


def _with_check(source: Path, settings: Settings, migrated: Mapping[str, MigratedFile]) -> Iterator[Disagreement]:
    place = locate(source, settings)
    result, _ = check_project((source,), settings, CheckChoice(diffs=True))
    checked = {
        relpath(Path(result.root) / file.path, place.root): MigratedFile(
            file.path,
            changes=file.changes,
            findings=tuple(found.finding for found in file.findings),
            failure=file.failure,
        )
        for file in result.files
    }
    for path in sorted({*migrated, *checked}):
        one, other = migrated.get(path, MigratedFile(path)), checked.get(path, MigratedFile(path))
        yield from _differences(path, "migrate", _records(one), "check", _records(other))


def _records(file: MigratedFile) -> list[Change | Finding | str]:
    return [*file.changes, *file.findings, *([file.failure] if file.failure is not None else [])]


def _differences(
    path: str, name: str, one: Iterable[object], other_name: str, other: Iterable[object]
) -> Iterator[Disagreement]:
    counts, others = Counter(one), Counter(other)
    yield from (Disagreement(path, name, other_name, record) for record in (counts - others).elements())
    yield from (Disagreement(path, other_name, name, record) for record in (others - counts).elements())


def _with_analysis(source: Path, settings: Settings, migrated: Mapping[str, MigratedFile]) -> Iterator[Disagreement]:
    """The tables of `analyse` about Python files and notebooks, against those of the migration."""
    with tempfile.TemporaryDirectory() as folder:
        choice = AnalysisChoice(("torch_apis", "affinity_apis"))
        tables, _, _ = analyse_project(source, settings, Output(Path(folder)), choice)
    files = [file for path, file in migrated.items() if path.endswith((".py", ".ipynb"))]
    expected: dict[str, list[_Row]] = {
        UNSUPPORTED_API: list(finding_rows(files, {FindingKind.UNSUPPORTED})),
        UNKNOWN_API: list(finding_rows(files, {FindingKind.UNKNOWN, FindingKind.REVIEW})),
        PERFORMANCE_ADVICE: list(performance_rows(files)),
        AFFINITY_CALLS: list(affinity_rows(files)),
    }
    for name, rows in expected.items():
        yield from _differences(name, "migrate", rows, "analyse", map(_without_kind, tables[name].rows))


def _without_kind(row: _Row) -> _Row:
    """Leave out which kind of --affinity would write what a row advises: only an analysis plans these kinds."""
    return tuple(re.sub(r" Written by --affinity [\w-]+\.$", "", x) if isinstance(x, str) else x for x in row)


def _without_gates(source: Path, settings: Settings, migrated: Mapping[str, MigratedFile]) -> Iterator[Disagreement]:
    """Yield what the rules find in any Python file, whatever words it has, and the migration does not."""
    session = Session(locate(source, settings), settings)
    engine = session.migrator(frozenset())
    for path, content in sorted(session.wanted.items()):
        rewrite = engine.plan.rewrites.get(path, FileRewrite())
        file = migrate_source(content, path, engine.rulebook, engine.context, rewrite)
        if file.failure is None:
            known = Counter(_records(migrated[path]))
            for record in (Counter(_records(file)) - known).elements():
                yield Disagreement(path, "the rules without a gate", "migrate", record)


def main(arguments: list[str]) -> int:
    """Print what disagrees, and the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("-v", "--version", default="2.1.0")
    parser.add_argument("-j", "--jobs", type=int, default=None)
    options = parser.parse_args(arguments)
    failed = False
    for folder in options.folders:
        result = agreement(folder, options.version, options.jobs)
        for each in result.disagreements:
            print(each)
        counts = f"{result.changes} changes, {result.findings} findings, {len(result.disagreements)} disagreements"
        print(f"{folder}: {counts}", flush=True)
        failed |= bool(result.disagreements)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
