"""Reductions at the corners: empty tensors, NaN, accuracy, dims, and the errors torch raises."""

import numpy as np
import pytest
import torch

aten = torch.ops.aten
NAN = float("nan")
X = torch.tensor([[1.0, NAN, 3.0], [-1.0, 5.0, 5.0]])


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool], ids=str
)
def test_sums_of_every_dtype(dtype, check):
    x = torch.ones(4, 5, 6).to(dtype).transpose(0, 2)
    for dims in ([0], [1, 2], [-1], [], [0, 1, 2]):
        check(aten.sum.dim_IntList, x, dims, True)
        check(aten.sum.dim_IntList, x, dims)
    check(aten.sum.default, x)
    check(aten.cumsum.default, x, 1)
    check(aten.amax.default, x, [1])
    check(aten.any.dim, x, 0)
    check(aten.all.default, x)
    check(aten.sum.dim_IntList, x, [0], dtype=torch.float32)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)], ids=str)
def test_empty_tensors(shape, check):
    x = torch.empty(shape)
    for operator in (aten.sum.default, aten.mean.default, aten.prod.default, aten.any.default, aten.all.default):
        check(operator, x)
    check(aten.sum.dim_IntList, x, [0])
    check(aten.var.correction, x, None, correction=1)
    check(aten.logsumexp.default, x, [0])
    check(aten.linalg_vector_norm.default, x)
    check(aten.median.default, x)
    check(aten.nanmedian.default, x)


def test_extremes_of_nothing_are_refused(kernels_of):
    empty = np.empty((0, 3), np.float32)
    with pytest.raises(RuntimeError, match="numel"):
        kernels_of["aten::max"](empty)
    with pytest.raises(IndexError, match="non-zero size"):
        kernels_of["aten::max.dim"](empty, 0)
    with pytest.raises(IndexError):
        kernels_of["aten::argmax"](empty)


def test_nan_wins_every_extreme(check):
    for name in ("max", "min"):
        check(getattr(aten, name).default, X)
        check(getattr(aten, name).dim, X, 1)
        check(getattr(aten, name).dim, X.bfloat16(), 0, True)
        check(getattr(aten, f"arg{name}").default, X, 1)
        check(getattr(aten, f"arg{name}").default, X)
        check(getattr(aten, f"a{name}").default, X, [0, 1])
    for operator in (aten.cummax.default, aten.cummin.default):
        check(operator, X, 1)
    check(aten.median.default, X)
    check(aten.nanmedian.default, X)
    for dim in (0, 1):
        check(aten.nanmedian.dim, X, dim)
        check(aten.median.dim, X, dim, True)
        for keepdim in (False, True):
            check(aten.aminmax.default, X, dim=dim, keepdim=keepdim)
            check(aten._aminmax.dim, X, dim, keepdim)
    check(aten.nansum.default, X, [1])


def test_zero_dim_tensors(check):
    x = torch.tensor(2.5)
    for operator, args in (
        (aten.sum.dim_IntList, ([0],)),
        (aten.max.dim, (0,)),
        (aten.argmax.default, (0,)),
        (aten.cumsum.default, (0,)),
        (aten._softmax.default, (0, False)),
        (aten._log_softmax.default, (-1, False)),
        (aten.var.correction, (None,)),
        (aten.sort.default, (0,)),
        (aten.topk.default, (1, 0)),
    ):
        check(operator, x, *args)


@pytest.mark.parametrize("correction", [None, 0, 1, 2, 0.5, 10])
def test_variances(correction, check):
    x = torch.randn(4, 5, 6) + 1000
    for operator in (aten.var.correction, aten.std.correction, aten.var_mean.correction, aten.std_mean.correction):
        check(operator, x, [0, 2], correction=correction, keepdim=True)
        check(operator, x.half(), None, correction=correction)


@pytest.mark.parametrize("order", [0, 1, 2, 3, 0.5, -1, float("inf"), float("-inf")])
def test_vector_norms(order, check):
    x = torch.randn(4, 5)
    check(aten.linalg_vector_norm.default, x, order, [1])
    check(aten.linalg_vector_norm.default, x.bfloat16(), order, None, True, dtype=torch.float32)


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_long_sums_do_not_lose_digits(columns, kernels_of):
    generator = np.random.default_rng(0)
    x = generator.random((200_000, columns), dtype=np.float32)
    exact = x.astype(np.float64).sum(axis=0)
    for layout in (x, np.asfortranarray(x)):
        ours = kernels_of["aten::sum.dim_IntList"](layout, [0])
        assert np.max(np.abs(ours - exact) / exact) < 1e-6
    running = kernels_of["aten::cumsum"](x, 0)
    assert np.max(np.abs(running[-1] - exact) / exact) < 1e-6


def test_dims_out_of_range_or_twice(kernels_of):
    x = np.ones((2, 3), np.float32)
    with pytest.raises(IndexError, match="Dimension out of range"):
        kernels_of["aten::sum.dim_IntList"](x, [2])
    with pytest.raises(RuntimeError, match="multiple times"):
        kernels_of["aten::sum.dim_IntList"](x, [1, -1])
    with pytest.raises(RuntimeError, match="floating point"):
        kernels_of["aten::mean"](np.arange(3))


def test_softmax_of_masked_rows(check):
    x = torch.randn(3, 4)
    x[0], x[1, 2] = float("-inf"), float("-inf")
    check(aten._softmax.default, x, 1, False)
    check(aten._log_softmax.default, x[1:], 0, False)
    for dtype in (torch.float16, torch.bfloat16):
        check(aten._softmax.default, x[1:].to(dtype), -1, False)
        check(aten._log_softmax.default, x[1:].to(dtype), 1, False)


@pytest.mark.parametrize("x", [X[1], torch.full((4,), 2.0), torch.zeros(0), torch.arange(-3.0, 4.0)], ids=str)
def test_histograms_over_the_range_of_the_data(x, check):
    check(aten.histc.default, x, 5)
    check(aten.histc.default, x)
    check(aten.histc.default, x, 4, -1, 2)


@pytest.mark.parametrize("correction", [0, 1])
def test_variances_of_complex_numbers(correction, check):
    x = torch.tensor([[1 + 2j, -1j, 3], [0.5, 2 - 2j, 1j]])
    for dim in (None, [0], [1], [0, 1]):
        for name in ("var", "std", "var_mean"):
            check(getattr(torch.ops.aten, name).correction, x, dim, correction=correction)


def test_the_place_of_an_extreme_among_all_keeps_dimensions(check):
    x = torch.tensor([[1.0, 5.0, 2.0], [7.0, 0.0, 3.0]])
    for name in ("argmax", "argmin"):
        for keepdim in (True, False):
            check(getattr(torch.ops.aten, name).default, x, None, keepdim)


def test_extremes_of_rows_where_there_are_none(check, kernels_of):
    check(aten.aminmax.default, torch.empty(0, 3), dim=1)
    check(aten._aminmax.dim, torch.empty(0, 3), 1, True)
    with pytest.raises(RuntimeError, match="aminmax"):
        kernels_of["aten::aminmax"](np.empty((0, 3)))
