"""Helpers for tests: tensors on the host and the same on the NPU, random state, and reasons to skip."""

# mypy: disable-error-code="attr-defined"
# torch.npu exists where torch_npu has been imported.
from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import unittest
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import torch_npu

Pair = tuple[torch.Tensor, torch.Tensor]
Test = Callable[..., Any]

PERF_TEST_ENABLE = os.getenv("PERF_TEST_ENABLE", "").upper() in ("ON", "1", "YES", "TRUE", "Y")
PERF_BASELINE_FILE = os.path.realpath(os.getenv("PERF_BASELINE_FILE", "performance_baseline.json"))


@contextlib.contextmanager
def freeze_rng_state() -> Iterator[None]:
    """Leave the random state of the CPU as it was."""
    state = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(state)


def iter_indices(tensor: torch.Tensor) -> Iterable[Any]:
    """The indices of all elements; none for a 0-dim tensor."""
    if tensor.dim() <= 1:
        return range(tensor.size(0)) if tensor.dim() else range(0)
    return itertools.product(*(range(size) for size in tensor.size()))


def is_iterable(obj: Any) -> bool:
    """Return whether an object can be iterated over."""
    try:
        iter(obj)
    except TypeError:
        return False
    return True


def get_npu_device() -> str:
    """The device that SET_NPU_DEVICE names by its number, "npu:0" otherwise."""
    return f"npu:{os.environ.get('SET_NPU_DEVICE', '0')}"


def set_npu_device() -> str:
    """Make that device the current one."""
    device = get_npu_device()
    torch.npu.set_device(device)
    return device


def _on_both(values: Any, npu_format: int, device: str | None) -> Pair:
    host = torch.from_numpy(values)
    on_npu = host.to(device or get_npu_device())
    return host, on_npu if npu_format == -1 else torch_npu.npu_format_cast(on_npu, npu_format)


def create_common_tensor(item: Any, minValue: float, maxValue: float, device: str | None = None) -> Pair:  # noqa: N803
    """Evenly distributed numbers on the host and on the NPU.

    Args:
        item: NumPy dtype, format (-1: as it is made) and shape.
        minValue: The lower bound.
        maxValue: The upper bound.
        device: The NPU.
    """
    dtype, npu_format, shape = item[:3]
    return _on_both(np.asarray(np.random.uniform(minValue, maxValue, shape)).astype(dtype), npu_format, device)


def create_dtype_tensor(
    shape: Any,
    dtype: torch.dtype,
    npu_format: int = -1,
    min_value: float = -5,
    max_value: float = 5,
    no_zero: bool = False,
    device: str | None = None,
) -> Pair:
    """Random numbers of a dtype (bool, float16, float32, any other: int32), on the host and on the NPU."""
    floating = {torch.half: np.float16, torch.float: np.float32}
    if dtype in floating:
        values = np.random.uniform(min_value, max_value, shape).astype(floating[dtype])
    elif dtype == torch.bool:
        values = np.random.randint(0, 2, size=shape).astype(bool)
    else:
        values = np.random.randint(int(min_value), int(max_value) + 1, size=shape).astype(np.int32)
    if no_zero:
        values = np.where(values != 0, values, np.ones_like(values))
    return _on_both(values, npu_format if dtype in floating else -1, device)


def test_2args_broadcast(fn: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> list[list[Any]]:
    """Results of a function of two tensors that are broadcast, on the host and on the NPU."""
    found = []
    for shape in ((1, 1, 1), (4, 5)):
        x, y = (np.random.rand(*each).astype(np.float32) for each in ((2, 3, 4, 5), shape))
        pairs = [_on_both(each, -1, None) for each in (x, y)]
        found.append([fn(a, b).cpu().numpy() for a, b in zip(*pairs, strict=True)])
    return found


# Not a test, in spite of its name.
test_2args_broadcast.__test__ = False  # type: ignore[attr-defined]


def check_operators_in_prof(
    expected_operators: list[str], prof: Any, unexpected_operators: list[str] | None = None
) -> bool:
    """Return whether a profile of PyTorch has all the expected operators and none of the unexpected."""
    seen = {each.key.replace("cached_", "") for each in prof.key_averages()}
    return seen.issuperset(expected_operators) and not seen.intersection(unexpected_operators or ())


def _skipping(reason: Callable[[], str | None]) -> Callable[[Test], Test]:
    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def run(*args: Any, **kwargs: Any) -> Any:
            why = reason()
            if why is not None:
                raise unittest.SkipTest(why)
            return test(*args, **kwargs)

        return run

    return decorate


class SkipIfNoLapack:
    """Skips a test where torch was built without LAPACK."""

    def __call__(self, fn: Test) -> Test:
        """Decorate the test."""
        return _skipping(lambda: None if torch._C.has_lapack else "PyTorch compiled without Lapack")(fn)


class SkipIfNotRegistered:
    """Skips a test of an operator of Caffe2, which PyTorch has no longer."""

    def __call__(self, message: str) -> Callable[[Test], Test]:
        """A decorator for the test."""
        return unittest.skip("Cannot import `caffe2.python.core`")


class SupportedDevices:
    """Skips a test on all chips but those of some families, such as "Ascend910B"."""

    def __init__(self, supported_devices: list[str]) -> None:
        self.supported_devices = supported_devices

    def __call__(self, fn: Test) -> Test:
        """Decorate the test."""
        return _skipping(self._reason)(fn)

    def _reason(self) -> str | None:
        name = torch.npu.get_device_name(0)
        length = 12 if name.startswith("Ascend910_") else 9 if name.startswith("Ascend950") else 10
        if name[:length] in self.supported_devices:
            return None
        return f"Only run on {self.supported_devices!r}, current device is {name[:length]}."


class SkipIfNotGteCANNVersion:
    """Skips a test that needs a version of CANN: none is installed here."""

    def __init__(self, base_version: str, module: str = "CANN") -> None:
        self.base_version, self.module = base_version, module

    def __call__(self, fn: Test) -> Test:
        """Decorate the test."""
        reason = f"Only run on {self.base_version} or greater, the emulated NPU has no {self.module}."
        return _skipping(lambda: reason)(fn)


class Baseline:
    """Times of tests by name, kept in a JSON file."""

    def __init__(self, baselineFile: str) -> None:  # noqa: N803
        self._file = Path(baselineFile)
        self._times: dict[str, Any] = json.loads(self._file.read_text()) if self._file.exists() else {}

    def get_baseline(self, resourceId: str) -> Any:  # noqa: N803
        """The time of a test; None where there is none."""
        return self._times.get(resourceId)

    def set_baseline(self, resourceId: str, baseline: Any) -> None:  # noqa: N803
        """Set the time of a test."""
        self._times[resourceId] = baseline

    def save_baseline(self) -> None:
        """Write the file."""
        self._file.write_text(json.dumps(self._times))


PerfBaseline = Baseline(PERF_BASELINE_FILE)


def get_cycles_per_ms() -> float:
    """One: the emulated NPU has no clock to count."""
    return 1.0


def dump_baseline() -> None:
    """Write the times, where PERF_TEST_ENABLE asks for them."""
    if PERF_TEST_ENABLE:
        PerfBaseline.save_baseline()
