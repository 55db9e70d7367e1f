"""The functions for Python programs; `import gpu2npu` has them. docs/python-api.ipynb shows their use.

They do what the commands do: nothing of the user's code is imported or run, and a project is never changed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from gpu2npu.project.errors import OutputError as OutputError
from gpu2npu.project.errors import UsageError as UsageError
from gpu2npu.project.location import Output
from gpu2npu.project.settings import Settings
from gpu2npu.project.tree.parts import parts_of
from gpu2npu.records import Change, Finding, MigratedFile
from gpu2npu.report.check.result import Cause, CheckResult, Part, Readiness
from gpu2npu.report.tables import CHANGE_LIST, HEADERS, PLACE_HEADER, change_rows, place_rows
from gpu2npu.rulebook.packs import rule_files
from gpu2npu.rulebook.rule import RuleError

if TYPE_CHECKING:
    import pandas

_ENCODING = "utf-8"


class SourceError(ValueError):
    """A text cannot be migrated: its syntax is wrong, for instance. The message says where and why."""


class Changes(tuple[tuple[str, Change], ...]):
    """The edits of a migration, each with the path of its file, sorted by place."""

    def to_frame(self) -> pandas.DataFrame:
        """A table with the columns and rows of change_list.csv."""
        return _frame(change_rows(MigratedFile(path, changes=(change,)) for path, change in self), HEADERS[CHANGE_LIST])


class Findings(tuple[tuple[str, Finding, Part], ...]):
    """The places that are left to a person, each with the path of its file and its part of the project."""

    def to_frame(self) -> pandas.DataFrame:
        """A table with the columns of unsupported_api.csv, and `Kind`, `Rule` and `Part`; one row a place."""
        return _frame(place_rows(self), PLACE_HEADER)


class Migrated(Struct, frozen=True):
    """One migrated text, what was changed in it and what is left to a person."""

    text: str
    changes: Changes
    findings: Findings


class MigratedProject(Struct, frozen=True):
    """One migration of a project.

    `destination` is the folder that was written, None where nothing was to be written. `failures` has by path why a
    file could not be migrated: it is copied as it is.
    """

    destination: Path | None
    changes: Changes
    findings: Findings
    failures: dict[str, str]


class CheckedProject(Struct, frozen=True):
    """One check: the verdict with its counts and its effort, the edits a migration makes, and what is left.

    `causes` are the findings by the answer that they need, the worst first. `failures` has by path why a file could
    not be read or parsed.
    """

    readiness: Readiness
    changes: Changes
    findings: Findings
    causes: tuple[Cause, ...]
    failures: dict[str, str]


def migrate_source(
    text: str,
    *,
    version: str,
    torch_npu: str = "",
    rules: Iterable[Path | str] | Path | str = (),
    name: str = "source.py",
) -> Migrated:
    """Migrate one text as a file of its own.

    Args:
        text: The source; Python unless `name` says otherwise.
        version: The version of PyTorch, such as "2.1.0".
        torch_npu: The release of torch_npu, "" for the newest of the version.
        rules: Files and folders of own rules; `pack:NAME` for those of an installed package.
        name: A file name, which says the kind: "train.py", "run.sh", "config.yaml".

    Raises:
        SourceError: The text cannot be migrated.
        UsageError: The version, the name or a rule file cannot be used.
    """
    from gpu2npu.project.migration import preview_project

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / Path(name).name
        try:
            file.write_text(text, encoding=_ENCODING, newline="")
        except UnicodeEncodeError as error:
            raise SourceError(f"{name}: {error}") from error
        except (OSError, ValueError) as error:
            raise UsageError(f"{name!r} cannot be the name of a file.") from error
        outcome = preview_project(file, _settings(version, torch_npu, rules, jobs=1)).outcome
    migrated = next((each for each in outcome.files if each.path == file.name), MigratedFile(file.name))
    if migrated.failure is not None:
        raise SourceError(f"{name}: {migrated.failure}")
    after = text if migrated.content is None else migrated.content.decode(_ENCODING)
    return Migrated(after, _changes([migrated]), _findings([migrated]))


def migrate_project(
    source: Path | str,
    output: Path | str | None = None,
    *,
    version: str,
    torch_npu: str = "",
    rules: Iterable[Path | str] | Path | str = (),
    exclude: Sequence[str] = (),
    jobs: int | None = None,
    force: bool = False,
) -> MigratedProject:
    """Migrate a folder or a file, and write the copy and its reports below `output`; without it, write nothing.

    Args:
        source: The project's folder, or one file of it.
        output: The folder in which `<name>_msft` is made.
        version: The version of PyTorch, such as "2.1.0".
        torch_npu: The release of torch_npu, "" for the newest of the version.
        rules: Files and folders of own rules; `pack:NAME` for those of an installed package.
        exclude: Patterns of paths that are copied as they are.
        jobs: The number of processes, None for one a CPU.
        force: Replace what an earlier migration wrote.

    Raises:
        UsageError: The request cannot be carried out.
        OutputError: The output cannot be written; nothing of it is left.
    """
    from gpu2npu.project import migration

    settings = _settings(version, torch_npu, rules, exclude, jobs)
    destination = None
    if output is None:
        outcome = migration.preview_project(Path(source), settings).outcome
    else:
        outcome, destination = migration.migrate_project(Path(source), settings, Output(Path(output), force))
    failures = {file.path: file.failure for file in outcome.files if file.failure is not None}
    failures.update({note.path: note.reason for note in outcome.notes if note.failed})
    return MigratedProject(destination, _changes(outcome.files), _findings(outcome.files), failures)


def check_project(
    *sources: Path | str,
    version: str = "",
    torch_npu: str = "",
    rules: Iterable[Path | str] | Path | str = (),
    exclude: Sequence[str] = (),
    soc: Sequence[str] = (),
    cache: Path | str | None = None,
    jobs: int | None = None,
) -> CheckedProject:
    """Check folders and files as `gpu2npu check` does, with the settings that the projects have.

    Args:
        sources: Folders and files.
        version: The version of PyTorch; "" for that of the settings, or else the latest.
        torch_npu: The release of torch_npu, "" for that of the settings, or else the newest.
        rules: Files and folders of own rules; `pack:NAME` for those of an installed package.
        exclude: Patterns of paths that are not looked at.
        soc: The chips to run on, such as "910B" or "Ascend910B2"; none for those of the settings, or else 910B.
        cache: The folder of the cache, None for no cache.
        jobs: The number of processes, None for one a CPU.

    Raises:
        UsageError: A source cannot be checked, or a version, a chip or a rule file cannot be used.
    """
    from gpu2npu.project.check import session
    from gpu2npu.project.check.choice import CheckChoice, named_chips
    from gpu2npu.report.check.causes import causes_of

    settings = _settings(version, torch_npu, rules, exclude, jobs, named_chips(_words(soc)))
    choice = CheckChoice(cache=None if cache is None else Path(cache))
    result, _ = session.check_project(tuple(map(Path, sources)), settings, choice)
    return _checked(result, causes_of(result.places()))


def _checked(result: CheckResult, causes: Iterable[Cause]) -> CheckedProject:
    failures = {file.path: file.failure for file in result.files if file.failure is not None}
    failures.update({note.path: note.reason for note in result.notes if note.failed})
    changes = Changes((file.path, change) for file in result.files for change in file.changes)
    return CheckedProject(result.readiness, changes, Findings(result.places()), tuple(causes), failures)


def _changes(files: Iterable[MigratedFile]) -> Changes:
    return Changes((file.path, change) for file in files for change in file.changes)


def _findings(files: Iterable[MigratedFile]) -> Findings:
    files = tuple(files)
    part = parts_of(file.path for file in files)
    return Findings((file.path, finding, part(file.path)) for file in files for finding in file.findings)


def _settings(
    version: str,
    torch_npu: str,
    rules: Iterable[Path | str] | Path | str,
    exclude: Sequence[str] = (),
    jobs: int | None = None,
    chips: tuple[str, ...] = (),
) -> Settings:
    """The settings of a run. Raises UsageError for a version that is not a string: 2.10 would be 2.1."""
    for given in (version, torch_npu):
        if not isinstance(given, str):
            raise UsageError(f'A version is a text, such as "2.7.1", not {given!r}.')
    try:
        files = rule_files(map(Path, (rules,) if isinstance(rules, (str, Path)) else rules))
    except RuleError as error:
        raise UsageError(str(error)) from error
    return Settings(version, torch_npu, files, exclude=tuple(_words(exclude)), chips=chips, jobs=jobs)


def _words(given: Sequence[str]) -> Sequence[str]:
    """Several texts; a text alone is one of them, not its letters."""
    return (given,) if isinstance(given, str) else given


def _frame(rows: Iterable[tuple[str | int, ...]], columns: Sequence[str]) -> pandas.DataFrame:
    import pandas

    table: pandas.DataFrame = pandas.DataFrame(list(rows), columns=list(columns))
    return table
