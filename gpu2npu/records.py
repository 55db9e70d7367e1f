"""What a migration says about a file: the records that every layer hands on and every report is a view of."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class FindingKind(str, Enum):
    """Why a place needs a person's eye."""

    UNSUPPORTED = "unsupported"  # known not to work on the NPU in this release
    UNKNOWN = "unknown"  # no table says whether it works
    REVIEW = "review"  # may mean CUDA, and was left alone because that is not certain


class Operation(str, Enum):
    """The vendor's words in the column Operation Type of change_list.csv."""

    INSERT = "INSERT"
    MODIFY = "MODIFY"
    DELETE = "DELETE"


@dataclass(frozen=True, order=True)
class Span:
    """A place in the *source* file: lines count from 1, columns from 0 in characters; the end is exclusive."""

    start_line: int
    start_column: int
    end_line: int
    end_column: int


@dataclass(frozen=True)
class Change:
    """One edit, with the source text it replaced (`before`) and what stands there now (`after`)."""

    span: Span
    rule: str
    operation: Operation
    message: str
    before: str
    after: str


@dataclass(frozen=True)
class Finding:
    """One place that was not (or not fully) migrated: `api` is what was met, `message` says what to do."""

    span: Span
    rule: str
    kind: FindingKind
    api: str
    message: str


@dataclass(frozen=True)
class MigratedFile:
    """The outcome for one Python file.

    `path` is relative to the project, with forward slashes. `content` is None when the file stays as it is, byte for
    byte. `failure` is the reason why the file could not be migrated (then there is no content, change or finding).
    `traits` are facts rules noticed about the program, such as "multi-card".
    """

    path: str
    content: bytes | None = None
    changes: tuple[Change, ...] = ()
    findings: tuple[Finding, ...] = ()
    failure: str | None = None
    traits: frozenset[str] = frozenset()
