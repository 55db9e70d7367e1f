"""The records of what a migration says about a file, which every layer hands on and every report is a view of."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, NewType

from msgspec import Struct


class FindingKind(str, Enum):
    """The reason why a place needs a person's eye."""

    UNSUPPORTED = "unsupported"  # known not to work on the NPU in this release
    FALLBACK = "fallback"  # works, but on the CPU: slow
    UNKNOWN = "unknown"  # no table says whether it works
    REVIEW = "review"  # may mean CUDA, and was left alone because that is not certain


class Severity(str, Enum):
    """The cost of a finding, from the most: see rulebook/match.py."""

    BLOCKER = "blocker"  # cannot run on the NPU as it is, and nothing takes its place as it is
    CHANGE = "change"  # a line to write, which the message shows
    ENVIRONMENT = "environment"  # a package, an image, a variable, a job's resources
    ADVICE = "advice"  # works, and could be better
    NOTE = "note"  # good to know, and nothing has to be done


class Operation(str, Enum):
    """The vendor's words in the column Operation Type of change_list.csv."""

    INSERT = "INSERT"
    MODIFY = "MODIFY"
    DELETE = "DELETE"


@dataclass(frozen=True, order=True)
class Span:
    """A place in the *source* file: lines count from 1, columns from 0 in characters; the end is exclusive.

    In a notebook, `cell` counts all its cells from 1, and lines count within the cell; elsewhere it is 0.
    """

    cell: int = field(default=0, kw_only=True)
    start_line: int
    start_column: int
    end_line: int
    end_column: int


class Change(Struct, frozen=True):
    """One edit, with the source text it replaced (`before`) and what is there now (`after`)."""

    span: Span
    rule: str
    operation: Operation
    message: str
    before: str
    after: str


class Finding(Struct, frozen=True):
    """One place that was not (or not fully) migrated: `api` is what was met, `message` is what to do.

    `advice` is the part of the message that other APIs share; "" is all of it. `row` is the id of the row of behaviour
    that it comes from.
    """

    span: Span
    rule: str
    kind: FindingKind
    api: str
    message: str
    severity: Severity = Severity.CHANGE
    advice: str = ""
    row: str = ""


# The offsets of a first character and of the one behind the last.
Bounds = tuple[int, int]
# A piece of new code: text, or a part of the file between two offsets, as edited itself.
Code = str | Bounds
# Text of an edit, which `python/text/templates.py` alone makes, and its pieces.
NewText = NewType("NewText", str)
Text = NewText | tuple[NewText | Bounds, ...]


class Edit(Struct, frozen=True):
    """Replace the code between the bounds `place` because of a rule. Offsets are those of the source.

    `text` may be made of pieces of the file; it is empty where the code is taken out. `shown` is the larger expression
    the change is reported as, `place` itself unless given. `needs` are modules that must be imported for the new text,
    `imports` those that it imports itself. `is_block` means that `place` and the last piece of the text are whole
    lines: statements that get the head of another around them, the text before, or that are left of one without its
    head."""

    place: Bounds
    text: Text | Literal[""]
    rule: str
    message: str
    shown: Bounds | None = None
    needs: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    operation: Operation = Operation.MODIFY
    is_block: bool = False

    @property
    def pieces(self) -> tuple[Code, ...]:
        """The pieces of the new text."""
        return (self.text,) if isinstance(self.text, str) else self.text


class Found(Struct, frozen=True):
    """A finding at a place, by offsets in the source."""

    place: Bounds
    rule: str
    kind: FindingKind
    api: str
    message: str
    severity: Severity = Severity.CHANGE
    advice: str = ""

    def at(self, span: Span) -> Finding:
        """The finding with its place by lines and columns."""
        return Finding(span, self.rule, self.kind, self.api, self.message, self.severity, self.advice)


class FileRewrite(Struct, frozen=True):
    """The edits and findings of the codemods in one Python file, and traits that it gets by them.

    An edit here has precedence over one of the rules, and a finding over what the rule of its id finds on its line.
    """

    edits: tuple[Edit, ...] = ()
    found: tuple[Found, ...] = ()
    traits: frozenset[str] = frozenset()


class AdviceKind(str, Enum):
    """The benefit of following an advice."""

    PRECISION = "precision"  # results nearer to those on a GPU
    PERFORMANCE = "performance"  # the code works on the NPU, and could be faster
    AFFINITY = "affinity"  # torch_npu has a fused operator for what the code spells out


class Advice(Struct, frozen=True):
    """One place that works and could be better on the NPU.

    `rule` is the id of the knowledge behind it; `api` is what was met and `replacement` what to use instead, if it has
    a name. `form` is the vendor's word in the column Api Type of affinity_api_call.csv.
    """

    span: Span
    rule: str
    kind: AdviceKind
    api: str
    message: str
    replacement: str = ""
    form: str = ""


KNOWS_NPUS = "knows-npus"


class MigratedFile(Struct, frozen=True):
    """The outcome for one file: each Python file, and each other file that has something to migrate or to report.

    `path` is relative to the project, with forward slashes. `content` is None when the file stays as it is, byte for
    byte. `failure` is the reason why the file could not be migrated (then there is no content, change, finding or
    advice).
    `traits` are facts that rules noticed about the program, such as "multi-card", and KNOWS_NPUS: it has code for NPUs.
    """

    path: str
    content: bytes | None = None
    changes: tuple[Change, ...] = ()
    findings: tuple[Finding, ...] = ()
    failure: str | None = None
    traits: frozenset[str] = frozenset()
    advice: tuple[Advice, ...] = ()


class NativeKind(str, Enum):
    """The kinds of places in a project's C++ and CUDA code: the column Kind of cuda_op_list.csv."""

    OPERATOR = "operator"  # a function that the extension exports to Python
    KERNEL = "kernel"  # the definition of a __global__ function
    LAUNCH = "launch"  # a place that starts a kernel
    LIBRARY = "library"  # the first include of one of NVIDIA's libraries in a file
    BUILD = "build"  # what compiles CUDA code: an extension of a setup script, CMake


class NativePlace(Struct, frozen=True, order=True):
    """One place in a project's own C++ and CUDA code, or in what builds it.

    `api` is the operator by the name that Python calls it ("my_ext.nms", "torchvision::nms"), the kernel, the library
    or the extension. `called_from` are the places in the project's Python code that use it, as "path:line", sorted; an
    operator has them, and a build.
    """

    path: str
    line: int
    kind: NativeKind
    api: str
    called_from: tuple[str, ...] = ()


class PathNote(Struct, frozen=True, order=True):
    """A path that is not in the output as in the source, or was not looked at, and why; `failed`: it ought to be."""

    path: str
    reason: str
    failed: bool


class Outcome(Struct, frozen=True):
    """The outcome of one migration for a whole project. Every tuple is sorted by path.

    `copied` are the files that are not among `files`, copied as they are; `skipped` the folders left out by design.
    `looked_into` is how many files were, of all kinds; `seconds` is wall-clock time.
    """

    name: str
    files: tuple[MigratedFile, ...]
    copied: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    notes: tuple[PathNote, ...] = ()
    native: tuple[NativePlace, ...] = ()
    seconds: float = 0.0
    looked_into: int = 0

    @property
    def complete(self) -> bool:
        """Return whether everything was migrated or copied."""
        return not any(file.failure for file in self.files) and not any(note.failed for note in self.notes)
