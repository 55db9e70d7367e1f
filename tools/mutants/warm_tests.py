"""The tests of some folders of a copy, in warm processes that this one asks."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Generic, TypeVar

from tools.mutants.copies import Copy

MOST_IN_A_CHILD = 150
# A file that is written again within a second has the same time and often the same size: no bytecode is kept of it.
SURROUNDINGS = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTEST_CURRENT_TEST": "",
    "PYTHONDONTWRITEBYTECODE": "1",
}
Key = TypeVar("Key")
Task = TypeVar("Task")
Result = TypeVar("Result")
Member = TypeVar("Member")


@dataclass(frozen=True)
class Outcome:
    """The result of a test."""

    passed: bool
    seconds: float


class EndedError(Exception):
    """A warm process ended before it had collected the tests, or while it was to run some: what it printed."""


class WarmProcess:
    """The client of `warm.py`."""

    def __init__(self, copy: Copy, folders: Iterable[str], environment: Mapping[str, str]) -> None:
        options = ("-n", "0", "-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:faulthandler")
        command = [str(copy.python), str(Path(__file__).with_name("warm.py")), *options, *folders]
        self._log = copy.log
        with copy.log.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=copy.root,
                env={**os.environ, **SURROUNDINGS, "TMPDIR": str(copy.temporary), **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )

    def collected(self) -> list[str]:
        """Wait for the names of all tests."""
        found: list[str] = self._answer()
        return found

    def run(
        self, tests: Mapping[str, float], active: Iterable[int], *, stop: bool, reached: bool
    ) -> dict[str, Outcome]:
        """Run tests in one child; return the outcomes of those that came to their end.

        Args:
            tests: Each with the seconds after which it is taken to fail.
            active: The mutants.
            stop: At the first that fails.
            reached: Write down who reaches which mutants.
        """
        assert self._process.stdin is not None
        job = {"tests": list(tests.items()), "active": list(active), "stop": stop, "reached": reached}
        self._process.stdin.write(json.dumps(job).encode() + b"\n")
        self._process.stdin.flush()
        return {test: Outcome(passed, seconds) for test, passed, seconds in iter(self._answer, None)}

    def end(self) -> None:
        """End the process, and the child that it may have."""
        self._process.terminate()
        self._process.communicate()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise EndedError(self._log.read_text(errors="replace")[-2000:])
        return json.loads(line)


class Crew(Generic[Member]):
    """Members that do one task at a time each, beside each other."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.members = members
        self._idle: SimpleQueue[Member] = SimpleQueue()
        for member in members:
            self._idle.put(member)

    def each(self, work: Callable[[Member, Task], Result], tasks: Mapping[Key, Task]) -> Iterator[tuple[Key, Result]]:
        """Yield the result of each task, as they are done; those before are begun before."""

        def run(task: Task) -> Result:
            member = self._idle.get()
            try:
                return work(member, task)
            finally:
                self._idle.put(member)

        with ThreadPoolExecutor(len(self.members)) as threads:
            keys = {threads.submit(run, task): key for key, task in tasks.items()}
            try:
                for future in as_completed(keys):
                    yield keys[future], future.result()
            finally:
                threads.shutdown(cancel_futures=True)


class WarmTests:
    """The tests of some folders, in several warm processes; a context that ends them.

    Raises:
        EndedError: The tests cannot be collected.
    """

    def __init__(self, copy: Copy, folders: Iterable[str], count: int, active: Collection[int] = ()) -> None:
        self._active = active
        self.records = copy.root.parent / "reached"
        self.records.mkdir(exist_ok=True)
        reached = {"ACTIVE_MUTANTS": " ".join(map(str, active)), "REACHED_MUTANTS": "" if active else str(self.records)}
        self._crew = Crew([WarmProcess(copy, folders, reached) for _ in range(count)])
        try:
            for process in self._crew.members:
                self.names = process.collected()
        except EndedError:
            self.__exit__(None, None, None)
            raise

    def __enter__(self) -> WarmTests:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process in self._crew.members:
            process.end()

    def all_outcomes(self, seconds: Mapping[str, float], otherwise: float) -> dict[str, Outcome]:
        """Run all tests, those of a file in a child of its own; also write down which mutants each reaches.

        Args:
            seconds: After which a test is taken to fail.
            otherwise: The same for those that are not there.
        """

        def run(process: WarmProcess, names: list[str]) -> dict[str, Outcome]:
            found: dict[str, Outcome] = {}
            while rest := {name: seconds.get(name, otherwise) for name in names if name not in found}:
                found |= process.run(rest, self._active, stop=False, reached=not self._active)
                if broken := next((name for name in rest if name not in found), None):
                    found[broken] = Outcome(False, rest[broken])
            return found

        files = (list(group) for _, group in groupby(self.names, lambda name: name.partition("::")[0]))
        parts = [part[at : at + MOST_IN_A_CHILD] for part in files for at in range(0, len(part), MOST_IN_A_CHILD)]
        outcomes = self._crew.each(run, dict(enumerate(parts)))
        return {name: outcome for _, found in outcomes for name, outcome in found.items()}

    def reached(self) -> dict[int, set[str]]:
        """Return the tests that reach each mutant; "" stands for none, as at import."""
        found: dict[int, set[str]] = {}
        for file in self.records.iterdir():
            for line in file.read_text().split("\n")[:-1]:
                number, _, test = line.partition(" ")
                found.setdefault(int(number), set()).add(test)
        return found

    def each(self, tests: Mapping[int, Mapping[str, float]]) -> Iterator[tuple[int, bool]]:
        """Yield each mutant, and whether its tests pass; each test with the seconds after which it is taken to fail."""

        def run(process: WarmProcess, task: tuple[int, Mapping[str, float]]) -> bool:
            outcomes = process.run(task[1], [task[0]], stop=True, reached=False)
            return len(outcomes) == len(task[1]) and all(outcome.passed for outcome in outcomes.values())

        return self._crew.each(run, {number: (number, names) for number, names in tests.items()})
