"""Ranges of numbers, against PyTorch's CPU code."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

Check = Callable[..., None]
aten = torch.ops.aten
ENDS = [(0.1, 0.7), (-3.3, 1.9), (1e-3, 1e3), (5.0, -0.3), (2.5, 2.5)]


@pytest.mark.parametrize("steps", [2, 3, 7, 10, 101])
@pytest.mark.parametrize(("start", "end"), ENDS)
def test_ranges_are_exact_at_both_ends(start: float, end: float, steps: int) -> None:
    for dtype in (torch.float32, torch.float64, torch.float16):
        there = torch.linspace(start, end, steps, dtype=dtype, device="npu")
        back = torch.linspace(end, start, steps, dtype=dtype, device="npu")
        assert there[0] == torch.tensor(start, dtype=dtype)
        assert there[-1] == torch.tensor(end, dtype=dtype)
        different = there != back.flip(0)
        different[steps // 2] &= steps % 2 == 0  # the place in the middle is reckoned from the end
        assert not different.any()


@pytest.mark.parametrize("name", ["linspace", "logspace"])
def test_ranges_between_numbers_and_tensors(name: str, check: Check) -> None:
    operator = getattr(aten, name)
    start, end = torch.tensor(-1.5), torch.tensor(2)
    for steps in (0, 1, 2, 5):
        check(operator.default, -1.5, 2, steps)
        check(operator.default, -1, 2, steps)
        check(operator.default, -1, 3, steps, dtype=torch.int32)
        check(operator.Tensor_Tensor, start, end, steps)
        check(operator.Tensor_Scalar, start, 2, steps, dtype=torch.float64)
        check(operator.Scalar_Tensor, -1.5, end, steps, dtype=torch.float16)


@pytest.mark.parametrize("name", ["linspace", "logspace"])
@pytest.mark.parametrize(("start", "end"), [(1 + 2j, 3 - 1j), (0, 2j), (1j, 2.0)])
def test_ranges_of_complex_numbers(name: str, start: complex, end: complex, check: Check) -> None:
    check(getattr(aten, name).default, start, end, 4)
    check(getattr(aten, name).default, start, end, 5, dtype=torch.complex128)
    check(getattr(aten, name).Tensor_Scalar, torch.tensor(start), end, 3)


def test_powers_of_another_base(check: Check) -> None:
    for base in (2.0, 0.5, 1.0):
        check(aten.logspace.default, -2, 3, 6, base)


def test_ranges_by_steps(check: Check) -> None:
    for start, end, step in ((0, 5, 1), (2, 9, 3), (9, 2, -3), (0.5, 2.0, 0.25), (1, 1, 1), (2.0, 0.1, -0.7)):
        check(aten.arange.start_step, start, end, step)
        check(aten.arange.start_step, start, end, step, dtype=torch.float64)
    for end in (5, -5, 0):
        check(aten.arange.start_step, 0, end, -2 if end < 0 else 2, dtype=torch.int16)
    check(aten.arange.default, 4.2)


@pytest.mark.parametrize(("start", "end", "step"), [(0, 5, 0), (0, 5, -1), (5.0, 0.0, 0.5)])
def test_steps_that_lead_nowhere_are_refused(
    kernels_of: dict[str, Callable[..., np.ndarray]], start, end, step
) -> None:
    with pytest.raises(ValueError, match="step"):
        kernels_of["aten::arange.start_step"](start, end, step)
