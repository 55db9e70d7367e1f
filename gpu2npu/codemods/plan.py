"""The records of a plan: what the codemods do to a project, and to a part of it. They are light to import."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from gpu2npu.codemods.choice import CodemodChoice
from gpu2npu.records import FileRewrite

if TYPE_CHECKING:
    from gpu2npu.python.meaning.library import Library


class Plan(Struct, frozen=True):
    """The work of the codemods: rewrites by path, and files that the output gets besides, by path.

    `failures` are the reasons for which files could not be looked at, by path.
    """

    rewrites: Mapping[str, FileRewrite] = field(default_factory=dict)
    new_files: Mapping[str, bytes] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)


class ProjectPart(Struct, frozen=True):
    """Some files of a project, with everything that they import of it. Picklable.

    `wanted` are the files that some codemod could be for, `imports` the files that each imports, `trains` is whether
    any file of the project computes gradients, `packages` are the folders of the project with an `__init__.py`.
    `facts` are those of the files that another process has read, encoded.
    """

    sources: Mapping[str, bytes]
    wanted: tuple[str, ...]
    imports: Mapping[str, frozenset[str]]
    version: str
    library: Library
    choice: CodemodChoice
    trains: bool
    packages: frozenset[str]
    facts: Mapping[str, bytes] = field(default_factory=dict)


class PlannedPart(Struct, frozen=True):
    """`without` are the codemods, by name, that were asked for something the part does not have."""

    plan: Plan
    without: frozenset[str] = frozenset()


# Plans parts, in any order: `map`, or that of an Executor.
Spread = Callable[[Callable[[ProjectPart], PlannedPart], Sequence[ProjectPart]], Iterable[PlannedPart]]
