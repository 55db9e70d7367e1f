"""Many repositories summed up: by cause, by package and by owner, and against the last run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from gpu2npu.records import Severity
from gpu2npu.report.check.result import SEVERITIES, Cause, CheckedRepository, Verdict

_OF_PACKAGES = re.compile(r"package-|.*-requirement$")  # the rules that are about packages, by their ids
_PACKAGE = re.compile(r"[A-Za-z0-9][\w-]*")
_NAMED = 5  # names that are shown of a cause


class CauseTotal(Struct, frozen=True):
    """One cause over all repositories: in how many `repositories` it is, how many it `blocks`, and of how many it is
    the only blocker (`only_cause`); its places, and the hours that it costs together."""

    group: str
    severity: Severity
    kind: str
    names: str
    advice: str
    repositories: int
    blocks: int
    only_cause: int
    places: int
    low: float
    high: float


class PackageTotal(Struct, frozen=True):
    """One package that causes are about: in how many repositories, how many it blocks, and in how many places."""

    package: str
    severity: Severity
    repositories: int
    blocks: int
    places: int


class OwnerTotal(Struct, frozen=True):
    """The repositories of one owner ("" where none is known), by verdict, and the hours that they cost."""

    owner: str
    repositories: int
    blocked: int
    review: int
    ready: int
    no_cuda: int
    not_checked: int
    low: float
    high: float


class LastRun(Struct, frozen=True):
    """The earlier result of a repository: its verdict, "" where it was not checked, blockers and hours."""

    verdict: str
    blocking: int
    high: float


class Trend(Struct, frozen=True):
    """A repository against the last run. `word` is better, worse, same, or new; `hours` and `blocking` are what was
    added since, negative for less."""

    word: str
    before: str = ""
    blocking: int = 0
    hours: float = 0.0


_ORDER = (Verdict.NO_CUDA, Verdict.READY, Verdict.REVIEW, Verdict.BLOCKED)


def by_cause(repositories: Iterable[CheckedRepository]) -> tuple[CauseTotal, ...]:
    """The causes that block most repositories first, then those that cost most."""
    met: dict[str, list[tuple[CheckedRepository, Cause]]] = {}
    for repository in repositories:
        for cause in repository.causes:
            met.setdefault(cause.group, []).append((repository, cause))
    totals = (_cause_total(group, entries) for group, entries in met.items())
    return tuple(sorted(totals, key=lambda each: (-each.blocks, -each.high, -each.repositories, each.group)))


def _cause_total(group: str, entries: Sequence[tuple[CheckedRepository, Cause]]) -> CauseTotal:
    names: Counter[str] = Counter()
    for _, cause in entries:
        names.update(dict(cause.names))
    ranked = [name for name, _ in sorted(names.items(), key=lambda entry: (-entry[1], entry[0]))]
    more = f" and {len(ranked) - _NAMED} more" if len(ranked) > _NAMED else ""
    blocked = [repository for repository, cause in entries if cause.blocks]
    first = entries[0][1]
    hours = [_hours(repository, group) for repository, _ in entries]
    return CauseTotal(
        group=group,
        severity=first.severity,
        kind=first.kind.value,
        names=", ".join(ranked[:_NAMED]) + more,
        advice=first.advice,
        repositories=len(entries),
        blocks=len(blocked),
        only_cause=sum(sum(cause.blocks for cause in repository.causes) == 1 for repository in blocked),
        places=sum(cause.places for _, cause in entries),
        low=sum(low for low, _ in hours),
        high=sum(high for _, high in hours),
    )


def _hours(repository: CheckedRepository, group: str) -> tuple[float, float]:
    reasons = repository.readiness.effort.reasons if repository.readiness is not None else ()
    return next(((reason.low, reason.high) for reason in reasons if reason.group == group), (0.0, 0.0))


def by_package(repositories: Iterable[CheckedRepository]) -> tuple[PackageTotal, ...]:
    """The packages that block most repositories first."""
    met: dict[str, list[tuple[str, Cause, int]]] = {}
    for repository in repositories:
        for cause in repository.causes:
            for package, places in _packages(cause).items():
                met.setdefault(package, []).append((repository.path, cause, places))
    totals = (
        PackageTotal(
            package,
            min((cause.severity for _, cause, _ in entries), key=SEVERITIES.index),
            len({path for path, _, _ in entries}),
            len({path for path, cause, _ in entries if cause.blocks}),
            sum(places for _, _, places in entries),
        )
        for package, entries in met.items()
    )
    return tuple(sorted(totals, key=lambda each: (-each.blocks, -each.repositories, -each.places, each.package)))


def _packages(cause: Cause) -> dict[str, int]:
    """The packages that a cause is about, with their numbers of places; none if it is about something else."""
    found: Counter[str] = Counter()
    if any(_OF_PACKAGES.match(rule) for rule in cause.rules):
        for name, places in cause.names:
            matched = _PACKAGE.match(name)
            if matched is not None:
                found[matched[0].replace("_", "-").lower()] += places
    return dict(found)


def by_owner(repositories: Iterable[CheckedRepository]) -> tuple[OwnerTotal, ...]:
    """The owners whose repositories cost most first."""
    owned: dict[str, list[CheckedRepository]] = {}
    for repository in repositories:
        owned.setdefault(repository.owner, []).append(repository)
    totals = (_owner_total(owner, entries) for owner, entries in owned.items())
    return tuple(sorted(totals, key=lambda each: (-each.high, each.owner)))


def _owner_total(owner: str, entries: Sequence[CheckedRepository]) -> OwnerTotal:
    judged = [each.readiness for each in entries if each.readiness is not None]
    verdicts = Counter(readiness.verdict for readiness in judged)
    return OwnerTotal(
        owner,
        len(entries),
        verdicts[Verdict.BLOCKED],
        verdicts[Verdict.REVIEW],
        verdicts[Verdict.READY],
        verdicts[Verdict.NO_CUDA],
        len(entries) - len(judged),
        sum(readiness.effort.low for readiness in judged),
        sum(readiness.effort.high for readiness in judged),
    )


def trend(repository: CheckedRepository, last: Mapping[str, LastRun]) -> Trend:
    """The changes since the last run, which is given by path; the verdict decides, then blockers, then hours."""
    before, now = last.get(repository.path), repository.readiness
    if before is None:
        return Trend("new")
    if now is None:
        return Trend("worse" if before.verdict else "same", before.verdict)
    if not before.verdict:
        return Trend("better")
    # The last run's hours are rounded, as its file has them.
    blocking, hours = now.blocking - before.blocking, round(round(now.effort.high, 1) - before.high, 1)
    ranks = [verdict.value for verdict in _ORDER]
    steps = (ranks.index(now.verdict.value) - ranks.index(before.verdict), blocking, hours)
    decisive = next((step for step in steps if step), 0)
    word = "worse" if decisive > 0 else "better" if decisive < 0 else "same"
    return Trend(word, before.verdict, blocking, hours)
