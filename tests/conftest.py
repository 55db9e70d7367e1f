"""No test depends on a clock, on the tests before it, nor on the language of the machine.

Properties have no deadline, and what is said to be linear is counted. pytest-randomly shuffles the tests; the seed at
the end of a run, given as `--randomly-seed`, brings back its order and the examples of its properties.
"""

import compileall
import contextlib
import gc
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import PIPE
from types import FrameType
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, seed, settings

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# Where PYTHONDONTWRITEBYTECODE is set, each worker of each run would rewrite the asserts of all tests anew.
sys.dont_write_bytecode = False
# A library in a cache would decide which code makes tensors. test_native.py has both; `make test-native` all with it.
os.environ["GPU2NPU_NATIVE"] = os.environ.get("GPU2NPU_TEST_NATIVE", "0")
os.environ["LC_ALL"] = "C.UTF-8"  # messages in English, in the commands that tests start too
PACKAGE = Path(__file__).parents[1] / "gpu2npu"


def pytest_xdist_auto_num_workers() -> int | None:
    """The workers of `-n auto`: three for two cores, since many tests wait for processes that they start."""
    return None if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ else 3 * (os.cpu_count() or 2) // 2


def pytest_configure(config: pytest.Config) -> None:
    config.option.randomly_reset_seed = False  # random numbers are those of each test, not of each run
    gc.set_threshold(50_000)  # trees and items are many: collections took a sixth of the time
    if not hasattr(config, "workerinput"):
        # Where PYTHONDONTWRITEBYTECODE is set, each of the hundreds of commands that tests start would compile it.
        compileall.compile_dir(PACKAGE, quiet=2)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: "long" not in item.keywords)  # at the end, the other workers would wait for it
    for item in items:
        if "torch_python" in getattr(item, "fixturenames", ()):
            item.add_marker("torch")
        if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj):
            seed(config.getoption("randomly_seed", 0))(item.obj)


def pytest_collection_finish() -> None:
    """Take torch and the tests out of every later collection, the many among them that a test asks for."""
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    terminalreporter.write_line(f"--randomly-seed={config.getoption('randomly_seed', 0)}")


@pytest.fixture(scope="session", autouse=True)
def signals_that_end_what_tests_start() -> None:
    """Let SIGINT and SIGHUP end what tests start: children inherit what nohup and `&` ignore, and no handlers."""
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.fixture(scope="module", autouse=True)
def parsed_files() -> Iterator[None]:
    """Free the trees of a module's tests: a test that collects garbage would look through all of them."""
    yield
    file = sys.modules.get("gpu2npu.python.tree.file")
    if file is not None:
        file.forget_files()


@pytest.fixture(autouse=True)
def signal_handlers() -> Iterator[None]:
    """Commands that run within a test's process leave theirs, which would meet whoever ends a later test."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


@pytest.fixture(scope="session", autouse=True)
def no_process_kills_the_tests() -> Iterator[None]:
    """Commands that run within a test's process would have one that kills it where it takes no signal."""
    with mock.patch("gpu2npu.cli.signals._kill_where_it_hangs"):
        yield


@pytest.fixture(scope="session")
def torch_python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str | Path]]:
    """A command that runs a script as `python` does, in a process that has imported torch already.

    For scripts whose start is not what is tested: importing torch takes longer than most of them.
    """
    server, client = (Path(__file__).with_name("torch_server") / f"{name}.py" for name in ("server", "client"))
    with tempfile.TemporaryDirectory() as folder:  # the name of a socket may have 107 characters
        address = Path(folder, "socket")
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
        command = [sys.executable, server, address]
        with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, env=environment) as process:
            assert process.stdin is not None and process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield [sys.executable, "-I", "-S", client, address]
            process.stdin.close()


@pytest.fixture(scope="session")
def training_python(torch_python: list[str | Path]) -> list[str | Path]:
    """The same for scripts whose end is not what is tested either: nothing but what is registered to run there runs."""
    return [*torch_python, "--brief-end"]


@pytest.fixture
def free_port() -> Iterator[Callable[[], int]]:
    """`free_port()`: a port of 127.0.0.1 to listen at, which the system gives to nobody else while the test runs.

    A socket that is bound and does not listen keeps it: SO_REUSEADDR, which PyTorch's stores set too, lets one more
    socket of that port listen.
    """
    with contextlib.ExitStack() as sockets:

        def call() -> int:
            keeper = sockets.enter_context(socket.socket())
            keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            keeper.bind(("127.0.0.1", 0))
            return int(keeper.getsockname()[1])

        yield call


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
