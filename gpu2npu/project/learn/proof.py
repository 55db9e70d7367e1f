"""Applies rules to the project before the migration by hand, and counts what they leave of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gpu2npu.engine import without_own
from gpu2npu.project.migration import preview_project
from gpu2npu.project.migrator import Migrator
from gpu2npu.project.session import Session
from gpu2npu.project.settings import Settings
from gpu2npu.rulebook.rule import Rulebook

Texts = Mapping[str, str]


class LineDifference(Struct, frozen=True):
    """Lines of one file that differ: its path, the first line (from 1) of `before`, and both texts."""

    path: str
    line: int
    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def lines(self) -> int:
        """The number of lines that differ, of both."""
        return len(self.before) + len(self.after)


def differences(before: Texts, after: Texts) -> list[LineDifference]:
    """The lines in which the files that two versions have differ; one quote is as good as the other."""
    found = []
    for path in sorted(before.keys() & after.keys()):
        if before[path] == after[path]:
            continue
        old, new = before[path].splitlines(), after[path].splitlines()
        matcher = SequenceMatcher(None, list(map(_unquoted, old)), list(map(_unquoted, new)), autojunk=False)
        for tag, start, end, new_start, new_end in matcher.get_opcodes():
            if tag != "equal":
                found.append(LineDifference(path, start + 1, tuple(old[start:end]), tuple(new[new_start:new_end])))
    return found


def _unquoted(line: str) -> str:
    return line.replace("'", '"')


def amount(found: Sequence[LineDifference]) -> int:
    """The number of lines in all."""
    return sum(each.lines for each in found)


def migrated(source: Path, settings: Settings, before: Texts, rulebook: Rulebook) -> Texts:
    """The texts that the rules of a rulebook make of a project; the settings name none."""

    def prepare(session: Session) -> Migrator:
        root, codemods = session.location.root, replace(settings.codemods, excluded=session.excluded)
        own = without_own(rulebook, session.python, root.name)
        return Migrator.of(own, settings.release, root, session.python, codemods)

    outcome = preview_project(source, settings, prepare=prepare).outcome
    contents = {file.path: file.content.decode() for file in outcome.files if file.content is not None}
    return {path: contents.get(path, text) for path, text in before.items()}
