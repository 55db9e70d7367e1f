"""Nothing here depends on a clock: properties have no deadline, and what is said to be linear is counted."""

import signal
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session", autouse=True)
def signals_that_end_what_tests_start() -> None:
    """What nohup and `&` in a script have ignored is ignored in children too; what has a handler is not."""
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.fixture
def until() -> Callable[[Callable[[], Any]], Any]:
    """`until(condition)`: waits for another process to do something, and gives what the condition found."""

    def wait(condition: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + 600  # the end of a test that would hang
        while not (found := condition()):
            assert time.monotonic() < deadline, "it did not come to pass"
            time.sleep(0.01)
        return found

    return wait


@pytest.fixture
def steps() -> Iterator[Callable[..., int]]:
    """`steps(function, *arguments)`: the lines and calls of Python that a call runs, the same on every machine."""
    tracing = sys.gettrace()

    def count(function: Callable[..., Any], *arguments: Any) -> int:
        steps = 0

        def trace(frame: FrameType, event: str, argument: object) -> Any:
            nonlocal steps
            steps += 1
            return trace

        sys.settrace(trace)
        try:
            function(*arguments)
        finally:
            sys.settrace(tracing)
        return steps

    yield count
