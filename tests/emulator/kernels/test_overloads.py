"""Overloads that PyTorch's tables of samples never call: with a number for a tensor, of integers alone, in place."""

import pytest
import torch

aten = torch.ops.aten
X = torch.tensor([[-2.5, -1.0, -0.25], [0.0, 0.75, 3.0]])
POSITIVE = torch.tensor([0.25, 1.0, 2.5, 4.0])
NUMBERS = torch.tensor([-13, -4, -1, 0, 3, 12, 100])
OTHERS = torch.tensor([5, 2, 7, 3, 0, 18, 64])


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_bits(name, check):
    operator = getattr(aten, name)
    for a, b in ((NUMBERS, OTHERS), (NUMBERS.short(), OTHERS.int()), (NUMBERS > 0, OTHERS > 4), (NUMBERS > 0, OTHERS)):
        check(operator.Tensor, a, b)
    check(operator.Scalar, NUMBERS, 6)
    check(operator.Scalar, NUMBERS > 0, True)
    check(operator.Scalar_Tensor, 6, NUMBERS.byte())


@pytest.mark.parametrize("name", ["left_shift", "right_shift"])
def test_shifts(name, check):
    by = OTHERS % 6
    operator = getattr(aten, f"bitwise_{name}")
    for a in (NUMBERS, NUMBERS.int(), NUMBERS.abs().byte()):
        check(operator.Tensor, a, by.to(a.dtype))
        check(operator.Tensor_Scalar, a, 3)
        check(operator.Scalar_Tensor, 5, by.to(a.dtype))
        check(getattr(aten, f"__{name[0]}shift__").Tensor, a, by.to(a.dtype))
        check(getattr(aten, f"__{name[0]}shift__").Scalar, a, 2)


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_floating_numbers_have_no_bits(name):
    for x in (X, X.npu()):
        with pytest.raises((RuntimeError, NotImplementedError), match="not implemented for"):
            getattr(torch, name)(x, 2)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8], ids=str)
def test_common_factors(dtype, check):
    check(aten.gcd.default, NUMBERS[:-1].to(dtype), OTHERS[:-1].to(dtype))


def test_a_logarithm_times_a_number_and_of_one(check):
    for number in (0, 1.5, 3):
        check(aten.xlogy.Scalar_Self, number, POSITIVE)
        check(aten.xlogy.Scalar_Other, POSITIVE + 1.5, number + 0.5)


def test_division_by_a_number_and_of_one(check):
    for divisor in (3, -3, 2.5):
        for x in (X, X.half(), NUMBERS):
            check(aten.fmod.Scalar, x, divisor)
            check(aten.remainder.Scalar_Tensor, divisor, x.abs() + 1)
            check(aten.floor_divide.Scalar, x, divisor)
            for mode in (None, "floor", "trunc"):
                check(aten.div.Scalar_mode, x, divisor, rounding_mode=mode)


def test_extremes_and_norms_under_their_old_names(check):
    check(aten._aminmax.default, X)
    check(aten._aminmax.dim, X, 1)
    check(aten._aminmax.dim, X, 0, True)
    for p in (None, 0, 1, 2, 3.5, float("inf")):
        check(aten.norm.ScalarOpt_dtype, X, p, dtype=torch.float64)
        check(aten.norm.ScalarOpt_dim_dtype, X, p, [1], True, dtype=torch.float32)
    check(aten.norm.Scalar, X)
    check(aten.norm.Scalar, X, 1)
    check(aten.logcumsumexp.default, X, 1)
    check(aten.logcumsumexp.default, X, 0)


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("out_int32", [True, False])
def test_the_place_of_a_number_in_sorted_ones(right, out_int32, check):
    edges = torch.tensor([-1.0, 0.0, 0.5, 0.5, 2.0])
    for number in (-3, -1, 0.5, 7):
        check(aten.searchsorted.Scalar, edges, number, right=right, out_int32=out_int32)
        check(aten.bucketize.Scalar, number, edges, right=right, out_int32=out_int32)


@pytest.mark.parametrize("invert", [True, False])
def test_membership_of_a_number_and_in_one(invert, check):
    check(aten.isin.Tensor_Scalar, NUMBERS, 3, invert=invert)
    for number in (3, 4):
        check(aten.isin.Scalar_Tensor, number, NUMBERS, invert=invert)


def test_writing_one_value(check):
    index = torch.tensor([[0, 1, 0], [1, 1, 0]])
    check(aten.fill.Tensor, X, torch.tensor(2))
    check(aten._unsafe_index.Tensor, X, [None, index[0]])
    check(aten._unsafe_index_put.default, X, [index[:, 0]], torch.ones(2, 3))
    check(aten._unsafe_index_put.default, X, [torch.tensor([1, 1])], torch.ones(2, 3), True)
    check(aten.conj_physical_.default, torch.complex(X, X))


@pytest.mark.parametrize("use_gelu", [True, False])
def test_a_product_with_its_activation(use_gelu, check):
    check(aten._addmm_activation.default, torch.ones(3), X, X.T @ X, use_gelu=use_gelu)
    check(aten._addmm_activation.default, torch.ones(3), X, X.T @ X, beta=0.5, alpha=2, use_gelu=use_gelu)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("mode", ["reflection", "replication"])
def test_padding_and_its_gradient(mode, count, check):
    x, pads = torch.rand(2, 3, 4, 5, 6)[(0,) * (3 - count)], [1, 2, 0, 1, 2, 1][: 2 * count]
    padded = getattr(aten, f"{mode}_pad{count}d").default(x, pads)
    check(getattr(aten, f"{mode}_pad{count}d").default, x, pads)
    check(getattr(aten, f"{mode}_pad{count}d_backward").default, torch.rand_like(padded), x, pads)


@pytest.mark.parametrize("name", ["upsample_nearest3d", "_upsample_nearest_exact3d"])
@pytest.mark.parametrize("scales", [(), (1.5, 2.0, 0.5)], ids=str)
def test_nearest_volumes_and_their_gradient(name, scales, check):
    x, size = torch.rand(2, 2, 3, 4, 6), [4, 8, 3]
    check(getattr(aten, name).default, x, size, *scales)
    check(getattr(aten, f"{name}_backward").default, torch.rand(2, 2, *size), size, [*x.shape], *scales)


@pytest.mark.parametrize("name", ["upsample_linear1d", "upsample_nearest1d", "_upsample_nearest_exact1d"])
@pytest.mark.parametrize("scale", [None, 0.0, -1.0, 0.5, 1.7])
def test_scales_that_are_not_positive_do_not_count(name, scale, check):
    options = (True,) if name == "upsample_linear1d" else ()
    check(getattr(aten, name).default, torch.rand(2, 3, 6), [4], *options, scale)
    options = (False,) if options else ()
    check(getattr(aten, name).default, torch.rand(2, 3, 6), [9], *options, scale)


@pytest.mark.parametrize("shape", [[3], [2, 3]], ids=str)
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("eps", [None, 1e-3])
def test_rms_normalization_and_its_gradient(eps, weighted, shape):
    inputs = [torch.randn(4, 2, 3), *([torch.rand(shape)] if weighted else ())]
    _agree_on_npu(lambda x, *weight: torch.nn.functional.rms_norm(x, shape, *weight or (None,), eps), *inputs)


@pytest.mark.parametrize("keepdim", [True, False])
def test_the_gradient_of_a_selected_value(keepdim):
    for select in (torch.max, torch.min, torch.median, torch.mode):
        _agree_on_npu(lambda x, select=select: select(x, 1, keepdim)[0], X)


def _agree_on_npu(function, *inputs):
    """Compare a function and its gradients on the NPU with those on the CPU."""
    found = []
    for device in ("cpu", "npu"):
        leaves = [each.to(device).requires_grad_() for each in map(torch.clone, inputs)]
        result = function(*leaves)
        result.square().sum().backward()
        found.append([each.detach().cpu() for each in (result, *(leaf.grad for leaf in leaves))])
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_the_gradient_of_bags(mode, check):
    weight, indices, bags = torch.randn(5, 3), torch.tensor([0, 2, 2, 4]), torch.tensor([0, 1, 1, 2])
    result, *_, largest = aten._embedding_bag.default(weight, indices, torch.tensor([0, 1, 3]), False, mode)
    sizes = torch.tensor([1, 2, 1])
    options = (5, False, mode, None)
    check(aten._embedding_bag_dense_backward.default, result.exp(), indices, bags, sizes, largest, *options)


def test_embeddings_are_renormed(check):
    for norm in (1.0, 2.0, float("inf")):
        check(aten.embedding_renorm_.default, torch.randn(4, 3), torch.tensor([0, 2, 2]), 0.5, norm)


def test_the_largest_of_a_bag_may_be_the_first_row(check):
    weight = torch.tensor([[5.0, -1.0], [1.0, 2.0], [-3.0, 7.0]])
    indices, offsets = torch.tensor([0, 1, 2, 0, 1]), torch.tensor([0, 3, 5])
    check(aten._embedding_bag.default, weight, indices, offsets, False, 2)
    check(aten._embedding_bag.default, -weight, indices, offsets, False, 2)
