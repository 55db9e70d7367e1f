"""Choosing by bits against np.where."""

import ml_dtypes
import numpy as np
import pytest

from gpu2npu.emulator.kernels.indexing.select import chosen, retained

DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16, np.float64, np.int64, np.int32, np.uint8, bool, np.complex64]


@pytest.mark.parametrize("dtype", DTYPES)
def test_both_choose_as_where_does(dtype):
    generator = np.random.default_rng(0)
    a, b = (generator.integers(-3, 3, (2, 5)).astype(dtype) for _ in range(2))
    for condition in (a > b, np.array([[True], [False]]), np.array(True)):
        assert np.array_equal(chosen(condition, a, b), np.where(condition, a, b))
        assert np.array_equal(retained(condition, a), np.where(condition, a, np.zeros((), dtype)))


def test_infinities_and_nan_survive_and_vanish():
    x = np.array([np.inf, np.nan, -np.inf, 1], np.float32)
    assert np.array_equal(retained(np.array([False, False, True, True]), x), np.array([0, 0, -np.inf, 1], np.float32))
    assert np.isnan(retained(np.array(True), x)[1])


def test_views_and_scalars():
    x = np.arange(12, dtype=np.float32).reshape(3, 4).T[::2]
    assert np.array_equal(chosen(x > 5, np.float32(-1), x), np.where(x > 5, np.float32(-1), x))
