"""The judgement of mutants, in an order in which most are killed early.

1. All tests run without a mutant, which says how long they take and which mutants they reach.
2. In children of the same processes, each mutant meets the quickest of the tests that reach it.
3. What only imports reach, or no condition switches, is put into its file; the tests that are named like it, or the
   quickest, run in a new process.
4. What survives is active all at once in one run of all tests. The tests that fail, few if any, meet each mutant in its
   file, in a new process, once more with the quickest that reach it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from tools.mutants.copies import Copy
from tools.mutants.faults import Mutant
from tools.mutants.warm_tests import Crew, EndedError, Outcome, WarmProcess, WarmTests

LEAST_SECONDS = 60.0  # after which a test is taken to fail, however short it was without a mutant
LEAST_TESTS, MOST_SECONDS = 60, 20.0  # of the quickest tests: how many, or more within a time
MANY_FAILURES = 200  # of tests with several mutants at once, which are then divided


class Judge:
    """Puts mutants, which have numbers, into copies of a repository."""

    def __init__(self, repository: Path, folder: Path, mutants: Mapping[int, Mutant], count: int) -> None:
        """Make the copies: one for all mutants, and some, as many as are tried at once, for one each."""
        self._mutants = mutants
        self._count = count
        self._together = Copy.of(repository, folder / "all")
        self._switched = self._together.put_all(mutants)
        self._apart = Crew([Copy.of(repository, folder / str(number)) for number in range(count)])
        self._start = time.monotonic()
        self._sound: dict[str, bool] = {}  # whether a test passes alone without a mutant

    def verdicts(self, folders: Collection[str], numbers: Iterable[int], seconds: float) -> Iterator[tuple[int, bool]]:
        """Yield mutants with whether they survive the tests of some folders, each as soon as it is known.

        Args:
            folders: Of tests.
            numbers: Of the mutants.
            seconds: After which a test is taken to fail without a mutant.

        Raises:
            EndedError: The tests cannot be collected without a mutant.
        """
        survivors = set(numbers)
        with WarmTests(self._together, folders, self._count) as warm:
            tests = Tests(warm.all_outcomes({}, seconds), folders)
            reached = {number: tests.quickest(names) for number, names in warm.reached().items() if number in survivors}
            reached = {number: names for number, names in reached.items() if names}
            self._report(f"{len(tests.passing)} tests reach {len(reached)} of {len(survivors)} mutants", tests.failing)
            for number in _killed(warm.each({n: tests.limits(names) for n, names in reached.items()}), survivors):
                yield number, False
        self._report(f"{len(survivors)} mutants are left")
        likely = {n: tests.quickest(tests.likely(self._mutants[n].path)) for n in survivors - reached.keys()}
        for number in _killed(self._each_apart(tests, likely), survivors):
            yield number, False
        self._report(f"{len(survivors)} mutants are left")
        last = dict.fromkeys(survivors - self._switched, tests.passing)
        for number, failing in self._failing_at_once(tests, survivors & self._switched):
            last[number] = failing | set(reached.get(number, ())[:LEAST_TESTS])
        yield from self._each_apart(tests, {n: tests.quickest(names, everything=True) for n, names in last.items()})

    def _report(self, text: str, failing: Collection[str] = ()) -> None:
        """Print how far it is, and some of the tests that failed."""
        names = f"; {len(failing)} fail, such as {' '.join(sorted(failing)[:3])}" if failing else ""
        print(f"{time.monotonic() - self._start:.0f} s: {text}{names}", file=sys.stderr, flush=True)

    def _each_apart(self, tests: Tests, names: Mapping[int, list[str]]) -> Iterator[tuple[int, bool]]:
        """Yield each mutant, with whether it survives these tests in new processes."""

        def run(copy: Copy, task: tuple[int, list[str]]) -> bool:
            return self.survives_apart(copy, self._mutants[task[0]], tests.limits(task[1]))

        return self._apart.each(run, {number: (number, each) for number, each in names.items()})

    def survives_apart(self, copy: Copy, mutant: Mutant, tests: dict[str, float]) -> bool:
        """Return whether tests pass with a mutant in its file; none that fail without it as well."""
        while tests:
            outcomes = run_apart(copy, mutant, tests)
            failed = next((test for test in tests if test not in outcomes or not outcomes[test].passed), None)
            if failed is None:
                return True
            if failed not in self._sound:
                found = run_apart(copy, None, {failed: tests[failed]})
                self._sound[failed] = failed in found and found[failed].passed
            if self._sound[failed]:
                return False
            tests = {test: limit for test, limit in tests.items() if test != failed}
        return True

    def _failing_at_once(self, tests: Tests, numbers: Collection[int]) -> Iterator[tuple[int, set[str]]]:
        """Yield each mutant, with the tests that fail where it is active together with others."""
        if not numbers:
            return
        try:
            with WarmTests(self._together, tests.folders, self._count, numbers) as warm:
                outcomes = warm.all_outcomes(tests.limits(tests.passing), LEAST_SECONDS)
        except EndedError:
            outcomes = {}
        failing = {name for name in tests.passing if name not in outcomes or not outcomes[name].passed}
        self._report(f"{len(numbers)} mutants met all tests at once", failing)
        if len(failing) > MANY_FAILURES and len(numbers) > 1:
            ordered = sorted(numbers)
            for half in (ordered[::2], ordered[1::2]):
                yield from self._failing_at_once(tests, half)
        else:
            yield from ((number, failing) for number in numbers)


class Tests:
    """The tests of some folders, as they are without a mutant."""

    def __init__(self, outcomes: Mapping[str, Outcome], folders: Collection[str]) -> None:
        self.folders = folders
        self.failing = {name for name, outcome in outcomes.items() if not outcome.passed}
        self._seconds = {name: outcome.seconds for name, outcome in outcomes.items() if outcome.passed}

    @property
    def passing(self) -> set[str]:
        """The names of those that pass."""
        return set(self._seconds)

    def limits(self, names: Iterable[str]) -> dict[str, float]:
        """The seconds after which each test is taken to fail."""
        return {name: max(LEAST_SECONDS, 10 * self._seconds[name]) for name in names}

    def quickest(self, names: Iterable[str], *, everything: bool = False) -> list[str]:
        """Return the tests that pass, quickest first; not more than take a moment, unless `everything` is to run."""
        ordered = sorted((self._seconds[name], name) for name in names if name in self._seconds)
        chosen, total = [], 0.0
        for count, (seconds, name) in enumerate(ordered):
            total += seconds
            if count >= LEAST_TESTS and total > MOST_SECONDS and not everything:
                break
            chosen.append(name)
        return chosen

    def likely(self, path: str) -> Iterable[str]:
        """The tests in files that have the name of a module or of a folder that holds it; else all."""
        parts = {f"test_{part}" for part in PurePosixPath(path).with_suffix("").parts}
        found = [name for name in self._seconds if PurePosixPath(name.partition("::")[0]).stem in parts]
        return found or self._seconds


def run_apart(copy: Copy, mutant: Mutant | None, tests: Mapping[str, float]) -> dict[str, Outcome]:
    """Run tests in a new process until one fails; return the outcomes, none where their files cannot be imported."""
    with copy.with_only(mutant):
        process = WarmProcess(copy, sorted({name.partition("::")[0] for name in tests}), {})
        try:
            process.collected()
            return process.run(tests, [], stop=True, reached=False)
        except EndedError:
            return {}
        finally:
            process.end()


def _killed(found: Iterable[tuple[int, bool]], survivors: set[int]) -> Iterator[int]:
    """Take the mutants that do not survive out of a set, and yield them."""
    for number, survives in found:
        if not survives:
            survivors.remove(number)
            yield number
