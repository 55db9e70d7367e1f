"""A pytest plugin for suites that run on the emulated NPU: `gpu2npu run -m pytest -p gpu2npu.pytest --npu-report FILE`.

It is loaded only by that option. For each test the report has what the NPU did in it: operators, those that fell back
to the CPU, rows of the table of behaviour that it met, whether it was skipped for hardware, and how it ended.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gpu2npu.support.behaviour import row

HARDWARE = "npu_hardware"
_WORKER_REPORTS = "gpu2npu_tests"  # where pytest-xdist's workers give theirs to the one that writes
_REFUSED = re.compile(r"\[([a-z0-9]+(?:-[a-z0-9]+)+)\]$", re.MULTILINE)
# Reasons of tests that skip themselves where an accelerator, or one of some kind or number, is missing.
_FOR_HARDWARE = re.compile(r"\b(?:cuda|gpus?|npus?|nccl|hccl|xpu|mps|accelerators?|devices?|hardware)\b", re.IGNORECASE)


@dataclass
class NpuTest:
    """The record of one test: its outcome (passed, failed, skipped), why it was skipped, calls of operators on the
    NPU, operators that fell back to the CPU, and rows of the table of behaviour, each with how often."""

    outcome: str = "passed"
    reason: str = ""
    needs_hardware: bool = False
    calls: int = 0
    fallbacks: dict[str, int] = field(default_factory=dict)
    behaviour: dict[str, int] = field(default_factory=dict)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --npu-report."""
    parser.getgroup("gpu2npu").addoption(
        "--npu-report", metavar="FILE", help="Write as JSON what each test did on the NPU, and a summary."
    )


def pytest_configure(config: pytest.Config) -> None:
    """Add the marker, and what records tests where this session runs some itself."""
    config.addinivalue_line("markers", f"{HARDWARE}: the test needs a real NPU, and is skipped on the emulated one.")
    config.pluginmanager.register(NpuTests(config), "gpu2npu-recorder")


class NpuTests:
    """Follows the tests of one session."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.tests: dict[str, NpuTest] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Skip tests for hardware on the emulated machine."""
        if "GPU2NPU_NPUS" not in os.environ:
            return
        for item in items:
            if item.get_closest_marker(HARDWARE) is not None:
                item.add_marker(pytest.mark.skip(reason="needs a real NPU, and this one is emulated"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Count what runs on the NPU from the setup of a test to its end."""
        before = _state()
        test = self.tests.setdefault(item.nodeid, NpuTest())
        test.needs_hardware = item.get_closest_marker(HARDWARE) is not None
        result = yield
        calls, fallbacks, behaviour = _state()
        test.calls += calls - before[0]
        for now, old, total in ((fallbacks, before[1], test.fallbacks), (behaviour, before[2], test.behaviour)):
            for name, number in now.items():
                if number > old.get(name, 0):
                    total[name] = total.get(name, 0) + number - old.get(name, 0)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the outcome of a test, the worst of its setup, call and end."""
        if report.nodeid not in self.tests:
            return  # of a worker, which gives its own
        test = self.tests[report.nodeid]
        if report.failed:
            test.outcome = "failed"
            named = _REFUSED.findall(report.longreprtext)  # a rank's or a child's error has no more than its text
            test.behaviour.update({each: 1 for each in named if each not in test.behaviour and row(each) is not None})
        elif report.skipped and test.outcome == "passed":
            test.outcome = "skipped"
            where = report.longrepr
            test.reason = str(where[2] if isinstance(where, tuple) else getattr(report, "wasxfail", "xfail"))
            test.needs_hardware = test.needs_hardware or _FOR_HARDWARE.search(test.reason) is not None

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take the tests of a worker of pytest-xdist."""
        for name, test in getattr(node, "workeroutput", {}).get(_WORKER_REPORTS, {}).items():
            self.tests[name] = NpuTest(**test)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Write the report, or give it to the session that this is a worker of."""
        tests = {name: asdict(test) for name, test in sorted(self.tests.items())}
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput[_WORKER_REPORTS] = tests
            return
        file = self.config.getoption("--npu-report")
        if file:
            Path(file).parent.mkdir(parents=True, exist_ok=True)
            temporary = Path(f"{file}.part")
            temporary.write_text(json.dumps({"summary": self.summary(), "tests": tests}, indent=1) + "\n", "utf-8")
            temporary.replace(file)

    def summary(self) -> dict[str, int]:
        """Numbers of tests: all, those that ran on the NPU, that needed hardware, fell back, or met a known limit."""
        tests = self.tests.values()
        return {
            "tests": len(tests),
            "passed": sum(test.outcome == "passed" for test in tests),
            "failed": sum(test.outcome == "failed" for test in tests),
            "skipped": sum(test.outcome == "skipped" for test in tests),
            "on_npu": sum(test.calls > 0 for test in tests),
            "skipped_for_hardware": sum(test.outcome == "skipped" and test.needs_hardware for test in tests),
            "fell_back": sum(bool(test.fallbacks) for test in tests),
            "met_behaviour": sum(bool(test.behaviour) for test in tests),
        }

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the summary at the end of the session."""
        numbers = self.summary()
        terminalreporter.section("NPU")
        terminalreporter.write_line(
            f"{numbers['on_npu']} of {numbers['tests']} tests ran on the NPU; {numbers['skipped_for_hardware']} skipped"
            f" for hardware; {numbers['fell_back']} fell back to the CPU; {numbers['met_behaviour']} met a known limit"
        )


def _state() -> tuple[int, dict[str, int], dict[str, int]]:
    """The calls of operators so far, those that fell back by operator, and the rows of behaviour that were met.

    Nothing is imported: before a test imports torch_npu, nothing has run on the NPU.
    """
    tally = sys.modules.get("gpu2npu.emulator.device.dispatch.tally")
    limits = sys.modules.get("gpu2npu.emulator.device.dispatch.limits")
    counts = tally.counts() if tally is not None else {}
    fallbacks: dict[str, int] = {}
    for (operator, kind), (calls, _) in counts.items():
        if kind.value == "fallback":
            fallbacks[operator] = fallbacks.get(operator, 0) + calls
    return sum(calls for calls, _ in counts.values()), fallbacks, dict(limits.met) if limits is not None else {}
