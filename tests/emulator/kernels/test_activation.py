"""Activations and their gradients where they bend, against PyTorch's CPU code."""

import numpy as np
import pytest
import torch

aten = torch.ops.aten
INF, NAN = float("inf"), float("nan")
# Every bound that the tests below give, and both sides of it.
POINTS = torch.tensor([-6, -3.5, -3, -2, -1, -0.75, -0.5, -0.25, -0.0, 0, 0.25, 0.5, 0.75, 1, 2, 3, 3.5, 6, INF, -INF])
FUNCTIONS = [
    (aten.relu.default,),
    (aten.threshold.default, 0.5, 7.0),
    (aten.leaky_relu.default, 0.25),
    (aten.leaky_relu.default, -2.0),
    (aten.leaky_relu.default, INF),
    (aten.elu.default, 0.5, 2.0, 3.0),
    (aten.elu.default, INF),
    (aten.hardtanh.default, -0.5, 2.0),
    (aten.hardsigmoid.default,),
    (aten.hardswish.default,),
    (aten.softplus.default, 2.0, 1.0),
    (aten.softshrink.default, 0.5),
    (aten.hardshrink.default, 0.5),
    (aten.logit.default, 0.25),
    (aten.logit.default,),
    (aten.log_sigmoid_forward.default,),
]
GRADIENTS = [
    (aten.threshold_backward.default, 0.5),
    (aten.leaky_relu_backward.default, 0.25, False),
    (aten.leaky_relu_backward.default, INF, False),
    (aten.hardtanh_backward.default, -0.5, 2.0),
    (aten.hardsigmoid_backward.default,),
    (aten.hardswish_backward.default,),
    (aten.softplus_backward.default, 2.0, 1.0),
    (aten.softshrink_backward.default, 0.5),
    (aten.hardshrink_backward.default, 0.5),
    (aten.logit_backward.default, 0.25),
    (aten.logit_backward.default,),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("operator", "options"), [(each[0], each[1:]) for each in FUNCTIONS], ids=str)
def test_values_at_the_bounds(operator, options, dtype, check):
    check(operator, POINTS.to(dtype), *options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("operator", "options"), [(each[0], each[1:]) for each in GRADIENTS], ids=str)
def test_gradients_at_the_bounds(operator, options, dtype, check):
    for grad in (torch.full_like(POINTS, 3.0), -POINTS.flip(0).nan_to_num(0, 1, 1)):
        check(operator, grad.to(dtype), POINTS.to(dtype), *options)


@pytest.mark.parametrize("from_result", [False, True])
def test_the_gradient_of_elu_at_its_bend(from_result, check):
    check(aten.elu_backward.default, torch.full_like(POINTS, 3.0), 0.5, 2.0, 3.0, from_result, POINTS)


@pytest.mark.parametrize("weight", [0.25, -2.0, INF])
def test_a_learned_slope_at_its_bend(weight, check):
    slope = torch.full((1,), weight)
    check(aten._prelu_kernel.default, POINTS, slope)
    check(aten._prelu_kernel_backward.default, torch.full_like(POINTS, 3.0), POINTS, slope)


@pytest.mark.parametrize("dim", [1, -1])
def test_a_dimension_that_cannot_be_halved_is_named(dim, kernels_of):
    for function, x in ((torch.nn.functional.glu, torch.ones(2, 3)), (kernels_of["aten::glu"], np.ones((2, 3)))):
        with pytest.raises(RuntimeError, match="must be even, but dimension 1 is size 3"):
            function(x, dim)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_the_gradient_of_gelu_of_one_number(approximate, check):
    x, grad = torch.tensor(0.3, dtype=torch.float64), torch.tensor(2.0, dtype=torch.float64)  # which NumPy computes
    check(aten.gelu_backward.default, grad, x, approximate=approximate)


@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax])
def test_softmax_of_one_number_has_one_dimension(function):
    one = torch.tensor(3.0, device="npu")
    assert function(one, -1).tolist() == function(one.cpu(), -1).tolist()
    with pytest.raises(IndexError, match=r"Dimension out of range \(expected to be in range of \[-1, 0\], but got 1\)"):
        function(one, 1)
