"""The outcome of `gpu2npu check`, of which every format of its report is a view: text, JSON, SARIF, annotations, HTML.

Made by project/check/session.py; a writer computes nothing but what is counted here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import Enum

from msgspec import Struct

from gpu2npu.records import Change, Finding, FindingKind, PathNote, Severity

# From the worst to the least: what does not work, what nobody knows to work, what works slowly, what a person has to
# look at. `--fail-on KIND` is about that kind and those before it, and likewise with a severity.
KINDS = (FindingKind.UNSUPPORTED, FindingKind.UNKNOWN, FindingKind.FALLBACK, FindingKind.REVIEW)
SEVERITIES = tuple(Severity)


class Part(str, Enum):
    """A part of a project. What is apart from the program does not block it."""

    PROGRAM = "program"
    TESTS = "tests"
    EXAMPLES = "examples"
    NOTEBOOKS = "notebooks"
    DOCS = "docs"
    CI = "CI"
    DEFERRED = "imports inside functions"  # done only when the function is called


class CheckedFinding(Struct, frozen=True):
    """A finding and where it is.

    `line` is its line in the file as an editor counts (for a notebook, `finding.span` counts within a cell). `source`
    is the text of the line, without its end, cut if it is very long; `context` are the lines around it, itself
    included, the first of which is number `context_start` (counted as the span counts). `scope` is the enclosing class
    or function, dotted, "" at the top of a file. `fingerprint` is 32 hexadecimal digits that stay when lines move.
    `known` means that a baseline has it. `part` is the part of the project that it is in.
    """

    finding: Finding
    line: int
    source: str
    context: tuple[str, ...]
    context_start: int
    scope: str
    fingerprint: str
    known: bool = False
    part: Part = Part.PROGRAM

    @property
    def kind(self) -> FindingKind:
        return self.finding.kind


class CheckedFile(Struct, frozen=True):
    """One file that a check looked into. `path` is relative to `CheckResult.root`, with forward slashes.

    `lines` is how many it has. `changes` are what a migration does by itself; `findings` what it leaves to a person,
    sorted by place. `failure` is why the file could not be read or parsed. `diff` is the unified diff of the migration,
    made only when it was asked for, else "".
    """

    path: str
    lines: int = 0
    changes: tuple[Change, ...] = ()
    findings: tuple[CheckedFinding, ...] = ()
    failure: str | None = None
    diff: str = ""

    @property
    def reported(self) -> tuple[CheckedFinding, ...]:
        """The findings that no baseline has."""
        return tuple(found for found in self.findings if not found.known)


class RuleNote(Struct, frozen=True):
    """A rule in a report: `why` is a sentence, `page` the page of docs/ about it with its anchor, `section` what is
    there as Markdown; "" for none."""

    id: str
    why: str
    page: str = ""
    section: str = ""


class NativeCode(Struct, frozen=True):
    """The project's own C++ and CUDA: numbers of files, of lines of CUDA code, of `__global__` kernels, of kernel
    launches, and of operators exported to Python. `apart` of the kernels are not in the program itself."""

    files: int = 0
    lines: int = 0
    kernels: int = 0
    launches: int = 0
    operators: int = 0
    apart: int = 0


class Reason(Struct, frozen=True):
    """One part of an estimate: `count` of what `about` says cost `low` to `high` person-hours together, by `basis`.
    `group` is that of the cause that it is for, "" for none. `constant` means that every project takes these hours."""

    about: str
    count: int
    low: float
    high: float
    basis: str
    group: str = ""
    constant: bool = False


class Effort(Struct, frozen=True):
    """An estimate in person-hours, as a range that is the sum of its reasons; the largest reason comes first.

    `apart` are reasons of what is apart from the program, such as its tests and optional kernels: they are in no
    sum.
    """

    reasons: tuple[Reason, ...] = ()
    apart: tuple[Reason, ...] = ()

    @property
    def low(self) -> float:
        return round(sum(reason.low for reason in self.reasons), 2)

    @property
    def high(self) -> float:
        return round(sum(reason.high for reason in self.reasons), 2)

    @property
    def of_code(self) -> Effort:
        """The part that depends on the code."""
        return Effort(tuple(reason for reason in self.reasons if not reason.constant))


class Cause(Struct, frozen=True):
    """Findings that one answer is for, of whatever API.

    `group` is 8 hexadecimal digits, the same in every run and report. `names` are the APIs with their numbers of
    places, the most frequent first; `rules` the ids of the rules; `message` is the whole message of the first place.
    `first` are the first lines that have places ("path:line"), and it `has_more` or not; `files` is how many files have
    one, `parts` how many places are in each part of the project.
    """

    group: str
    severity: Severity
    kind: FindingKind
    advice: str
    message: str
    names: tuple[tuple[str, int], ...]
    rules: tuple[str, ...]
    places: int
    files: int
    first: tuple[str, ...]
    parts: tuple[tuple[Part, int], ...]
    has_more: bool = False

    @property
    def blocks(self) -> bool:
        """Return whether the program itself cannot run because of it."""
        return self.severity is Severity.BLOCKER and any(part is Part.PROGRAM for part, _ in self.parts)


class Verdict(str, Enum):
    """The answer in a word."""

    READY = "ready"  # nothing is left for a person but to try it
    REVIEW = "review"  # some places need a look, or a line
    BLOCKED = "blocked"  # code of the program itself cannot run, and nothing takes its place as it is
    NO_CUDA = "no-cuda"  # nothing in it is for CUDA


class Readiness(Struct, frozen=True):
    """The state of a project on its way to the NPU.

    A use of CUDA is a place that a migration edits or that a finding is about: `automatic` are edited and nothing else
    is said of them, `blocking` are blockers in the program itself, `review` is the rest.

    `blockers` are the causes of what blocks, those with the most places first. `apart` are the blockers that are
    apart from the program, by part. `plugin` is the sentence about what takes the place of all that blocks, "" for
    none. Findings that a baseline has count too: they are still to be done.
    """

    verdict: Verdict
    automatic: int
    review: int
    blocking: int
    effort: Effort
    blockers: tuple[Cause, ...] = ()
    apart: tuple[tuple[Part, int], ...] = ()
    plugin: str = ""

    @property
    def uses(self) -> int:
        return self.automatic + self.review + self.blocking

    def share(self, count: int) -> float:
        """A count as a fraction of all uses; 0.0 where there are none."""
        return count / self.uses if self.uses else 0.0


class CheckResult(Struct, frozen=True):
    """One check of one or several source trees.

    `root` is the absolute folder that paths are relative to; `shown_root` what is put before a path that is shown to a
    user: "" where the root is the current folder, else it ends with "/". `version` is the PyTorch version the facts are
    for and `evidence` the wheel they come from; `chips` are the families of chips. `expired` is how many entries of the
    baseline matched no finding. `seconds` is wall-clock time. `files` are all files that were read, also those
    with nothing to report, sorted.
    """

    name: str
    version: str
    evidence: str
    tool_version: str
    root: str
    shown_root: str
    files: tuple[CheckedFile, ...]
    readiness: Readiness
    rules: tuple[RuleNote, ...] = ()
    notes: tuple[PathNote, ...] = ()
    native: NativeCode = NativeCode()
    chips: tuple[str, ...] = ()
    expired: int = 0
    seconds: float = 0.0

    def first_places(self, cause: Cause) -> list[str]:
        """The first places of a cause as a user finds them from the current folder."""
        return [f"{self.shown_root}{place}" for place in cause.first]

    def reported(self) -> Iterator[tuple[CheckedFile, CheckedFinding]]:
        """Each finding that no baseline has, with its file."""
        for file in self.files:
            for found in file.reported:
                yield file, found

    def places(self) -> Iterator[tuple[str, Finding, Part]]:
        """Each finding that no baseline has, with the path of its file and its part of the project."""
        for file, found in self.reported():
            yield file.path, found.finding, found.part

    @property
    def counts(self) -> dict[FindingKind, int]:
        """The number of findings of each kind that no baseline has; every kind is there."""
        counted = Counter(found.kind for _, found in self.reported())
        return {kind: counted[kind] for kind in KINDS}

    @property
    def severities(self) -> dict[Severity, int]:
        """The number of findings of each severity that no baseline has; every severity is there."""
        counted = Counter(found.finding.severity for _, found in self.reported())
        return {severity: counted[severity] for severity in SEVERITIES}

    @property
    def known(self) -> int:
        """The number of findings that a baseline has."""
        return sum(found.known for file in self.files for found in file.findings)

    @property
    def failures(self) -> tuple[tuple[str, str], ...]:
        """Path and reason of everything that could not be read or parsed, sorted."""
        files = ((file.path, file.failure) for file in self.files if file.failure is not None)
        return tuple(sorted({*files, *((note.path, note.reason) for note in self.notes if note.failed)}))


class CheckedRepository(Struct, frozen=True):
    """One of many repositories, summed up. `error` is why it could not be checked; the numbers are zero then.

    `owner` is whom it belongs to, "" where nothing says so; `causes` are those of its findings, the worst first. `page`
    is its page as HTML, "" unless it was asked for.
    """

    path: str
    name: str
    version: str = ""
    files: int = 0
    lines: int = 0
    changes: int = 0
    counts: tuple[tuple[FindingKind, int], ...] = ()
    severities: tuple[tuple[Severity, int], ...] = ()
    failures: int = 0
    readiness: Readiness | None = None
    seconds: float = 0.0
    error: str | None = None
    owner: str = ""
    causes: tuple[Cause, ...] = ()
    page: str = ""


ANY, NEVER = "any", "never"
EXIT_CLEAN = 0
EXIT_FINDINGS = 1


def above(bar: str) -> frozenset[Enum]:
    """The kinds, or severities, that are at the bar or worse; `any` stands for the least kind, `never` for none.

    Raises ValueError where there is no such kind or severity.
    """
    if bar == NEVER:
        return frozenset()
    last = KINDS[-1].value if bar == ANY else bar
    scales: tuple[tuple[Enum, ...], ...] = (KINDS, SEVERITIES)
    for scale in scales:
        values = [each.value for each in scale]
        if last in values:
            return frozenset(scale[: values.index(last) + 1])
    raise ValueError(f"no kind or severity is called {bar!r}")


def exit_code(counted: Iterable[tuple[Enum, int]], failed: bool, bar: str) -> int:
    """By what is at or above the bar: a severity counts with those before it, and so does a kind. `failed` means that a
    file could not be read or parsed."""
    failing = above(bar)
    failed = failed and bar != NEVER
    return EXIT_FINDINGS if failed or any(count and each in failing for each, count in counted) else EXIT_CLEAN
