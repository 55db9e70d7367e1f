"""Runs tests in children of one process that has collected them, which takes longer than most of them do.

Standard input has a job in each line, as JSON: the tests to run, each with the seconds after which it is taken to fail,
the mutants that are active, and whether to stop at the first that fails and to write down which mutants are reached.
The first line of the answer is the list of all tests; then come one for each test that has run, with whether it passed
and its seconds, and `null` behind those of a job. A child that hangs is killed, with what it has started.

Arguments: those of pytest. Runs as a file, since the copy of the repository need not have this package.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import sys
from collections.abc import Sequence
from io import FileIO
from typing import Any

import pytest
from hypothesis import Phase, settings

SECONDS_TO_END = 60.0  # for fixtures and temporary folders, behind the last test


class JobPlugin:
    """A plugin of pytest that runs tests as jobs say, instead of all."""

    def __init__(self, jobs: FileIO, answers: FileIO) -> None:
        self.jobs = jobs
        self.answers = answers
        self._passed = True
        self._seconds = 0.0

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        """Let properties end with the first example that fails, instead of looking for a smaller one."""
        settings.register_profile("mutants", settings(), phases=[Phase.explicit, Phase.reuse, Phase.generate])
        settings.load_profile("mutants")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Fork a child for each job; in a child, run its tests and let pytest come to its end."""
        items = {item.nodeid: item for item in session.items}
        self.answers.write(json.dumps(list(items)).encode() + b"\n")
        for line in iter(self.jobs.readline, b""):
            job = json.loads(line)
            readable, writable = os.pipe()
            if not (child := os.fork()):
                self._begin(job, writable)
                self._run([items[test] for test, _ in job["tests"]], job["stop"])
                return True
            os.close(writable)
            self._follow(child, readable, [seconds for _, seconds in job["tests"]])
            os.close(readable)
            self.answers.write(b"null\n")
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up the phases of a test."""
        self._passed &= not report.failed
        self._seconds += report.duration

    def _begin(self, job: dict[str, Any], answers: int) -> None:
        """Make this process a child that does one job, in a process group of its own."""
        os.setpgid(0, 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self.answers = os.fdopen(answers, "wb", 0)
        switch: Any = importlib.import_module("active_mutants")
        switch.active = frozenset(job["active"])
        os.environ["ACTIVE_MUTANTS"] = " ".join(map(str, job["active"]))
        if not job["reached"]:
            switch.folder = os.environ["REACHED_MUTANTS"] = ""

    def _run(self, items: Sequence[pytest.Item], stop: bool) -> None:
        for item, following in zip(items, [*items[1:], None], strict=True):
            self._passed, self._seconds = True, 0.0
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            self.answers.write(json.dumps([item.nodeid, self._passed, self._seconds]).encode() + b"\n")
            if stop and not self._passed:
                break

    def _follow(self, child: int, lines: int, seconds: Sequence[float]) -> None:
        """Hand a child's answers on until it ends, or takes too long for a test; then kill what it has started."""
        ended, count = os.pidfd_open(child), 0
        try:
            while True:
                limit = seconds[count] if count < len(seconds) else SECONDS_TO_END
                ready, _, _ = select.select([lines, ended], [], [], limit)
                text = os.read(lines, 1 << 16) if lines in ready else b""
                if not text:
                    break
                self.answers.write(text)
                count += text.count(b"\n")
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(ended)


def main() -> None:
    """Collect the tests and do the jobs; what pytest prints goes where errors go."""
    sys.path.pop(0)  # the folder of this file
    jobs, answers = os.fdopen(os.dup(0), "rb", 0), os.fdopen(os.dup(1), "wb", 0)
    os.dup2(2, 1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    plugin = JobPlugin(jobs, answers)
    code = pytest.main(sys.argv[1:], plugins=[plugin])
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
