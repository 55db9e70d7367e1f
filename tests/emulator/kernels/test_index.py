"""Indexing, scattering, sorting and joining at the corners."""

import numpy as np
import pytest
import torch

aten = torch.ops.aten
X = torch.arange(60.0).reshape(3, 4, 5)
ROW, COLUMN = torch.tensor([2, 0, -1]), torch.tensor([[1], [3]])
NAN = float("nan")


@pytest.mark.parametrize(
    "indices",
    [
        [ROW],
        [None, COLUMN],
        [ROW, None, ROW],
        [None, COLUMN, torch.tensor([0, 4])],
        [torch.tensor(1)],
        [torch.tensor(1), None, torch.tensor([0, 2])],
        [X > 30],
        [torch.tensor([True, False, True])],
        [None, torch.tensor([True, False, True, True]), torch.tensor([0, 1, 2])],
        [torch.tensor([], dtype=torch.int64)],
        [torch.tensor([[0, 1]], dtype=torch.int32), torch.tensor([[2], [3]])],
    ],
    ids=range(11),
)
def test_index_and_index_put(indices, check):
    check(aten.index.Tensor, X, indices)
    check(aten.index.Tensor, X.transpose(0, 2).transpose(0, 2), indices)
    found = aten.index(X, indices)
    for values in (torch.randn_like(found), torch.tensor(7.0)):
        check(aten.index_put.default, X, indices, values)
        check(aten.index_put.default, X, indices, values, True)
        check(aten._index_put_impl_.default, X.clone(), indices, values, True)


def test_index_out_of_range(kernels_of):
    with pytest.raises(IndexError, match="out of bounds"):
        kernels_of["aten::index.Tensor"](X.numpy(), [np.array([3])])
    with pytest.raises(IndexError, match="out of range"):
        kernels_of["aten::embedding"](X[0].numpy(), np.array([4]))
    for index in (4, 9, -1):
        with pytest.raises(RuntimeError, match=f"index {index} is out of bounds for dimension 0 with size 4"):
            kernels_of["aten::scatter_add"](X[0].numpy(), 0, np.array([[0, index]]), X[0].numpy())


def test_a_zero_dim_index_gives_a_copy(kernels_of):
    x = X.numpy().copy()
    assert not np.shares_memory(kernels_of["aten::index.Tensor"](x, [np.array(1)]), x)


def test_accumulating_repeated_places(check):
    places = torch.tensor([1, 1, 1, 0])
    check(aten.index_put.default, torch.zeros(3), [places], torch.ones(4), True)
    check(aten.index_put.default, torch.zeros(3).half(), [places], torch.full((4,), 0.1).half(), True)
    check(aten.index_add.default, torch.zeros(3, 2), 0, places, torch.ones(4, 2), alpha=0.5)
    check(aten.index_add.default, torch.zeros(3, dtype=torch.int32), 0, places, torch.ones(4, dtype=torch.int32))
    check(aten.put.default, torch.zeros(3), places, torch.ones(4), True)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_gather_and_scatter(dim, check):
    torch.manual_seed(0)
    x, index = torch.randn(4, 5), torch.randint(0, 3, (3, 2))
    src = torch.randn(4, 4)
    check(aten.gather.default, x, dim, index)
    check(aten.gather.default, x, dim, torch.randint(0, 4, (4, 5) if dim else (2, 5)))
    check(aten.scatter_add.default, x, dim, index, src)
    check(aten.scatter_add.default, x.bfloat16(), dim, index, src.bfloat16())
    check(aten.scatter.value, x, dim, index, 2.0)
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        for include_self in (False, True):
            check(aten.scatter_reduce.two, x, dim, index, src, reduce, include_self=include_self)
            check(aten.scatter_reduce.two, x.long(), dim, index, src.long() + 3, reduce, include_self=include_self)


def test_scattered_integers_are_added_exactly_and_wrap_on_overflow(check):
    index = torch.tensor([0, 0, 1])
    check(aten.scatter_add.default, torch.zeros(2, dtype=torch.int64), 0, index, torch.tensor([2**62, 1, 2**53 + 1]))
    check(aten.scatter_add.default, torch.zeros(2, dtype=torch.int8), 0, index, torch.full((3,), 100).to(torch.int8))
    check(aten.scatter_add.default, torch.zeros(2).cfloat(), 0, index, torch.tensor([1 + 2j, 3j, -1j]))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_many_scattered_numbers_lose_no_digits(dtype, kernels_of):
    """In the dtype itself the sum of halves would stay at 256, and that of singles be wrong in the fifth digit."""
    x = np.full(100_000 if dtype is np.float32 else 4000, 0.1, dtype)
    total = kernels_of["aten::scatter_add"](np.zeros(1, dtype), 0, np.zeros(x.size, np.int64), x)
    assert total[0] == dtype(x.astype(np.float64).sum())


@pytest.mark.parametrize("padding", [-1, 0, 2])
@pytest.mark.parametrize("by_frequency", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_embedding_gradient(padding, by_frequency, dtype, check):
    indices = torch.tensor([[0, 2, 2], [5, 0, 0]])
    grad = torch.randn(2, 3, 4).to(dtype)
    check(aten.embedding_dense_backward.default, grad, indices, 6, padding, by_frequency, scale=4)
    check(aten.embedding_dense_backward.default, grad[:0], indices[:0], 6, padding, by_frequency)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool], ids=str)
def test_stable_sort(descending, dtype, check):
    x = torch.tensor([[3.0, 1.0, 1.0, 0.0, 3.0], [0.0, 1.0, 0.0, 2.0, 2.0]]).to(dtype)
    for dim in (0, 1):
        check(aten.sort.stable, x, stable=True, dim=dim, descending=descending)


def test_nan_sorts_as_the_largest(check):
    x = torch.tensor([1.0, NAN, float("inf"), -2.0, NAN])
    for descending in (False, True):
        check(aten.sort.stable, x, stable=True, descending=descending)
        check(aten.topk.default, x, 3, 0, descending)
    check(aten.kthvalue.default, x, 4)


def test_the_largest_of_none_and_of_all(check, kernels_of):
    x = torch.tensor([[3.0, 1.0, 2.0], [5.0, 4.0, 6.0]])
    for largest in (False, True):
        for k in (0, 2):
            check(aten.topk.default, x, k, 0, largest)
    for k in (-1, 3):
        with pytest.raises(RuntimeError, match="out of range"):
            kernels_of["aten::topk"](x.numpy(), k, 0)


def test_unique_and_its_kin(check):
    x = torch.tensor([[3, 1, 3], [1, 1, 2]])
    check(aten._unique2.default, x, True, True, True)
    check(aten.unique_dim.default, torch.cat([x, x]), 0, True, True, True)
    check(aten.unique_consecutive.default, x.flatten(), True, True)
    check(aten.bincount.default, x.flatten())
    check(aten.bincount.default, x.flatten(), torch.rand(6), 7)
    check(aten.searchsorted.Tensor, torch.tensor([1, 2, 2, 5]), x, right=True)
    check(aten.bucketize.Tensor, torch.randn(5), torch.tensor([-1.0, 0.0, 1.0]), out_int32=True)


def test_no_slices_are_unique(check):
    check(aten.unique_dim.default, torch.empty(3, 0), 1, True, True, True)


@pytest.mark.parametrize("shape", [(6,), (2, 6), (3, 2, 6)], ids=str)
@pytest.mark.parametrize("side", ["left", "right"])
def test_each_row_is_searched_for_its_own_values(shape, side, check):
    numbers = torch.randint(0, 5, shape)
    sequence, sorter = numbers.sort(-1)
    wanted = torch.randint(-1, 6, (*shape[:-1], 4))
    for out_int32 in (False, True):
        check(aten.searchsorted.Tensor, sequence, wanted, out_int32=out_int32, side=side)
        check(aten.searchsorted.Tensor, numbers, wanted, out_int32=out_int32, right=side == "right", sorter=sorter)


def test_joining_promotes_and_skips_empty_vectors(check):
    check(aten.cat.default, [torch.ones(2, 3), torch.empty(0), torch.ones(2, 1, dtype=torch.float64)], 1)
    check(aten.cat.default, [torch.ones(2).half(), torch.ones(3).bfloat16()])
    check(aten.cat.default, [torch.ones(2, dtype=torch.bool), torch.ones(1, dtype=torch.int32)])
    check(aten.stack.default, [torch.ones(2, 3), torch.zeros(2, 3)], -1)


def test_joining_refuses_what_does_not_fit(kernels_of):
    with pytest.raises(RuntimeError, match="non-empty"):
        kernels_of["aten::cat"]([])
    with pytest.raises(RuntimeError, match="must match"):
        kernels_of["aten::cat"]([np.ones((2, 3)), np.ones((3, 4))], 0)


def test_padding_and_cropping(check):
    for pad in ([1, 2], [1, 0, 0, 3], [-1, 2], [0, 0, -1, -1], [1, 1, 1, 1, 1, 1]):
        check(aten.constant_pad_nd.default, X, pad, 2.5)
    for pad in ([1, 2, 2, 1], [0, 0, 3, 0]):
        check(aten.reflection_pad2d.default, X, pad)
        check(aten.replication_pad2d.default, X, pad)


@pytest.mark.parametrize("dtype", [None, torch.float32, torch.bfloat16, torch.int32], ids=str)
def test_ranges(dtype, check):
    check(aten.arange.default, 5, dtype=dtype)
    check(aten.arange.start_step, 1, 10, 3, dtype=dtype)
    check(aten.arange.start_step, 5, -5, -2, dtype=dtype)
    check(aten.arange.start, 0.5, 4, dtype=dtype)
    for steps in (0, 1, 2, 7):
        check(aten.linspace.default, -3, 8, steps, dtype=dtype)


def test_triangles(check):
    for offset in (-2, 0, 1, 5):
        check(aten.tril.default, X, offset)
        check(aten.triu.default, X.bool(), offset)
        check(aten.tril_indices.default, 3, 4, offset)
        check(aten.triu_indices.default, 3, 4, offset)


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_negative_log_likelihood(reduction, weighted, dtype, check):
    torch.manual_seed(0)
    weight = torch.rand(5).to(dtype) if weighted else None
    for shape, forward, backward in (
        ((6, 5), aten.nll_loss_forward.default, aten.nll_loss_backward.default),
        ((2, 5, 3, 4), aten.nll_loss2d_forward.default, aten.nll_loss2d_backward.default),
    ):
        x = torch.randn(shape).log_softmax(1).to(dtype)
        target = torch.randint(0, 5, (shape[0], *shape[2:]))
        target[0] = -100
        check(forward, x, target, weight, reduction, -100, scale=4)
        y, total = forward(x, target, weight, reduction, -100)
        check(backward, torch.ones_like(y), x, target, weight, reduction, -100, total, scale=4)


def test_only_longer_rows_are_renormed():
    table = torch.tensor([[3.0, 4.0], [6.0, 8.0], [0.6, 0.8], [30.0, 40.0]])
    index = torch.tensor([0, 1, 1, 2])
    expected, actual = (torch.embedding_renorm_(table.to(d), index.to(d), 5, 2).cpu() for d in ("cpu", "npu"))
    assert actual[0].tolist() == [3.0, 4.0]
    assert torch.equal(actual[2:], table[2:])
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("size", [3, 4, 7])
def test_a_reflection_reaches_less_than_the_length(size, kernels_of):
    for padding in ([size, 0], [0, size]):
        with pytest.raises(RuntimeError, match="less than the corresponding input dimension"):
            kernels_of["aten::reflection_pad1d"](np.ones((1, size)), padding)
        kernels_of["aten::reflection_pad1d"](np.ones((1, size + 1)), padding)


def test_each_nan_is_unique(check):
    x = torch.tensor([float("nan"), 1.0, float("nan"), 1.0])
    check(aten._unique2.default, x, True, True, True)


@pytest.mark.parametrize("dim", [None, 0, 1])
def test_runs_of_equal_elements_and_their_numbers(dim, check):
    x = torch.tensor([[1, 1, 2, 2], [1, 1, 2, 2], [3, 3, 3, 0]])
    check(aten.unique_consecutive.default, x, True, True, dim)
