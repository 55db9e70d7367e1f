"""torch_npu's TestCase: unittest's, with comparisons of tensors that lie on the host or on the NPU."""

from __future__ import annotations

import contextlib
import os
import random
import sys
import unittest
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Number
from typing import Any

import numpy as np
import torch

from .common_utils import set_npu_device

_SMALLEST = {np.dtype(np.float16): 6e-8}  # what is added to a divisor, for other dtypes 1e-9
_HALVES = (torch.float16, torch.bfloat16)


def run_tests() -> None:
    """Run the tests of the calling script."""
    unittest.main(argv=sys.argv)


def _array(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        host = value.detach().cpu()
        return (host.float() if host.dtype == torch.bfloat16 else host).numpy()
    return np.asarray(value) if isinstance(value, Number) else value


class TestCase(unittest.TestCase):
    """Compares numbers and tensors within `precision`, 1e-5 unless set."""

    _precision = 1e-5
    maxDiff = None
    exact_dtype = False

    @property
    def precision(self) -> float:
        """The absolute difference that `assertEqual` allows."""
        return self._precision

    @precision.setter
    def precision(self, prec: float) -> None:
        self._precision = prec

    @classmethod
    def setUpClass(cls) -> None:
        """Make the NPU of SET_NPU_DEVICE the current one."""
        set_npu_device()

    def setUp(self) -> None:
        """Begin with the random numbers that the seed of SEED gives, 666 unless set."""
        seed = int(os.getenv("SEED", "666"))
        torch.manual_seed(seed)
        random.seed(seed)

    def assertRtolEqual(  # noqa: N802
        self,
        x: Any,
        y: Any,
        prec: float = 1e-4,
        prec16: float = 1e-3,
        auto_trans_dtype: bool = False,
        message: str | None = None,
    ) -> None:
        """Compare relatively: at most a part `prec` of the elements may differ by more than `prec`.

        Args:
            x: A number, an array, a tensor, or a sequence of them.
            y: The same.
            prec: The limit.
            prec16: The limit for float16 and bfloat16.
            auto_trans_dtype: Convert x to the dtype of y.
            message: Said where NaNs differ.
        """
        if isinstance(x, Sequence) and isinstance(y, Sequence):
            for one, other in zip(x, y, strict=False):
                self.assertRtolEqual(one, other, prec, prec16, auto_trans_dtype, message)
            return
        if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor):
            x = x.to(y.dtype) if auto_trans_dtype else x
            if x.dtype != y.dtype:
                self.fail("dtype error")
        limit = prec16 if getattr(x, "dtype", None) in (*_HALVES, np.dtype(np.float16)) else prec
        self._compare_relatively(_array(x), _array(y), limit, message)

    def _compare_relatively(self, x: Any, y: Any, limit: float, message: str | None) -> None:
        if x.shape != y.shape:
            self.fail("shape error")
        if x.dtype != y.dtype:
            self.fail("dtype error")
        if x.dtype == np.bool_:
            self.assertTrue(np.array_equal(x, y), "result error")
            return
        missing = np.isnan(x)
        if not np.array_equal(missing, np.isnan(y)):
            self.fail(message or "NaNs are in other places")
        with np.errstate(invalid="ignore"):
            difference = np.abs(np.where(missing, 0, y - x))
            size = np.maximum(np.abs(x), np.abs(y)) + _SMALLEST.get(x.dtype, 1e-9)
            absolute, relative = difference > limit, difference / size > limit
        if min(int(absolute.sum()), int(relative.sum())) > x.size * limit:
            self.fail("result error")

    def assertEqual(  # noqa: N802
        self,
        first: Any,
        second: Any,
        prec: float | str | None = None,
        message: str = "",
        allow_inf: bool = False,
        exact_dtype: bool | None = None,
    ) -> None:
        """Compare tensors and numbers within `prec`, and what holds them, by element; all else exactly."""
        if isinstance(prec, str):
            message, prec = prec, None
        limit = self.precision if prec is None else prec
        first, second = (
            each.item() if isinstance(each, np.ndarray) and not each.ndim else each for each in (first, second)
        )
        if isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor):
            self._compare_tensors(
                first, second, limit, message, self.exact_dtype if exact_dtype is None else exact_dtype
            )
        elif isinstance(first, (str, bytes, set)) or isinstance(second, (str, bytes, set)):
            super().assertEqual(first, second, message or None)
        elif isinstance(first, Mapping) and isinstance(second, Mapping):
            super().assertEqual(set(first), set(second), message or None)
            for key in first:
                self.assertEqual(first[key], second[key], limit, message, allow_inf, exact_dtype)
        elif isinstance(first, Iterable) and isinstance(second, Iterable) and not isinstance(first, torch.Tensor):
            ones, others = list(first), list(second)
            super().assertEqual(len(ones), len(others), message or None)
            for one, other in zip(ones, others, strict=True):
                self.assertEqual(one, other, limit, message, allow_inf, exact_dtype)
        else:
            self._compare_numbers(first, second, limit, message, allow_inf)

    def _compare_numbers(self, x: Any, y: Any, limit: float, message: str, allow_inf: bool) -> None:
        x, y = (each.item() if isinstance(each, torch.Tensor) else each for each in (x, y))
        if (
            not (isinstance(x, (int, float, complex)) and isinstance(y, (int, float, complex)))
            or isinstance(x, bool)
            or isinstance(y, bool)
        ):
            super().assertEqual(x, y, message or None)
        elif np.isinf(x) or np.isinf(y):
            self.assertTrue(allow_inf and x == y, message or f"Expected finite numeric values - x={x}, y={y}")
        else:
            self.assertLessEqual(abs(x - y), limit, message or None)

    def _compare_tensors(self, x: torch.Tensor, y: torch.Tensor, limit: float, message: str, exact_dtype: bool) -> None:
        super().assertEqual(x.size(), y.size(), message or None)
        if exact_dtype:
            super().assertEqual(x.dtype, y.dtype, message or None)
        x, y = x.detach().cpu(), y.detach().cpu()
        wide = torch.complex128 if x.is_complex() or y.is_complex() else torch.float64
        near = torch.isclose(x.to(wide), y.to(wide), rtol=0, atol=limit, equal_nan=True)
        self.assertTrue(bool(near.all()), message or f"{int((~near).sum())} of {near.numel()} elements differ")

    def assertAlmostEqual(  # type: ignore[override]  # noqa: N802
        self, x: Any, y: Any, places: int | None = None, msg: str = "", delta: float | None = None
    ) -> None:
        """Compare as `assertEqual` does, within `delta` or a number of decimal places."""
        self.assertEqual(x, y, 10**-places if places else delta, msg)

    def assertTensorsSlowEqual(  # noqa: N802
        self, x: torch.Tensor, y: torch.Tensor, prec: float | None = None, message: str = ""
    ) -> None:
        """Compare tensors of one shape and dtype, which may be on several devices, within `prec`."""
        self._compare_tensors(x, y, 0 if prec is None else prec, message, exact_dtype=True)

    def assertNotEqual(self, first: Any, second: Any, prec: float | str | None = None, message: str = "") -> None:  # noqa: N802
        """Fail where `assertEqual` would not."""
        try:
            self.assertEqual(first, second, prec, message)
        except AssertionError:
            return
        self.fail(message or f"{first} == {second}")

    def assertObjectIn(self, obj: Any, iterable: Iterable[Any]) -> None:  # noqa: N802
        """Look for the object itself."""
        self.assertTrue(any(each is obj for each in iterable), "object not found in iterable")

    def assertExpectedInline(self, actual: Any, expect: str, skip: int = 0) -> None:  # noqa: N802
        """Compare the text of an object with one that stands in the test."""
        super().assertEqual(str(actual), expect)

    @contextlib.contextmanager
    def _warnings(self) -> Iterator[list[warnings.WarningMessage]]:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            yield seen

    def assertNotWarn(self, call_fn: Callable[[], Any], msg: str = "") -> None:  # noqa: N802
        """Call a function that must not warn."""
        with self._warnings() as seen:
            call_fn()
        self.assertFalse(seen, msg or None)
