"""Fused optimizer steps against torch's fused CPU steps."""

import pytest
import torch

aten = torch.ops.aten
DTYPES = [torch.float32, torch.bfloat16]


def tensors(dtype):
    return [torch.randn(4, 3).to(dtype), torch.randn(5).to(dtype)]


def moments(dtype):
    return [each.abs() for each in tensors(dtype)]


def steps(count):
    return [torch.tensor(float(count)) for _ in range(2)]


@pytest.mark.parametrize("name", ["_fused_adam_", "_fused_adamw_"])
@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_adam(name, amsgrad, dtype, check):
    rates = {"beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1, "eps": 1e-8}
    state = (tensors(dtype), tensors(dtype), tensors(dtype), moments(dtype), moments(dtype) if amsgrad else [])
    check(getattr(aten, name).default, *state, steps(3), lr=0.01, amsgrad=amsgrad, maximize=False, **rates)


def test_adam_with_tensor_rate_and_gradient_scale(check):
    f32 = torch.float32
    state = (tensors(f32), tensors(f32), tensors(f32), moments(f32), [], steps(1))
    options = {"beta1": 0.9, "beta2": 0.99, "weight_decay": 0.0, "eps": 1e-8, "amsgrad": False, "maximize": True}
    scale = {"grad_scale": torch.tensor(128.0), "found_inf": torch.tensor(0.0)}
    check(aten._fused_adamw_.tensor_lr, *state, lr=torch.tensor(0.01), **options, **scale)


def test_nothing_happens_after_an_overflow(check):
    f32 = torch.float32
    state = (tensors(f32), tensors(f32), tensors(f32), moments(f32), [], steps(1))
    options = {"beta1": 0.9, "beta2": 0.99, "weight_decay": 0.0, "eps": 1e-8, "amsgrad": False, "maximize": False}
    check(aten._fused_adam_.default, *state, lr=0.1, **options, found_inf=torch.tensor(1.0))


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_sgd(momentum, nesterov, first, check):
    f32 = torch.float32
    options = {"weight_decay": 0.01, "lr": 0.1, "dampening": 0.0, "maximize": False, "is_first_step": first}
    buffers = tensors(f32) if momentum else []
    check(
        aten._fused_sgd_.default,
        *(tensors(f32), tensors(f32), buffers),
        momentum=momentum,
        nesterov=nesterov and momentum > 0,
        **options,
    )


def test_adagrad(check):
    f32 = torch.float32
    options = {"lr": 0.1, "lr_decay": 0.01, "weight_decay": 0.1, "eps": 1e-10, "maximize": False}
    check(aten._fused_adagrad_.default, tensors(f32), tensors(f32), moments(f32), steps(4), **options)


SCALES = {
    "no scale": {},
    "a scale": {"grad_scale": torch.tensor(128.0), "found_inf": torch.tensor(0.0)},
    "an overflow": {"grad_scale": torch.tensor(128.0), "found_inf": torch.tensor(1.0)},
}


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("as_tensor", [False, True])
def test_steps_up_or_down_with_decay_and_gradients_that_are_scaled(scale, maximize, decay, as_tensor, check):
    f32, overload = torch.float32, "tensor_lr" if as_tensor else "default"
    options = {"lr": torch.tensor(0.05) if as_tensor else 0.05, "weight_decay": decay, "maximize": maximize}
    options |= {name: number.clone() for name, number in SCALES[scale].items()}
    rates = {"beta1": 0.9, "beta2": 0.99, "eps": 1e-3, "amsgrad": False}
    for name in ("_fused_adam_", "_fused_adamw_"):
        state = (tensors(f32), tensors(f32), tensors(f32), moments(f32), [], steps(1))
        check(getattr(getattr(aten, name), overload), *state, **rates, **options)
    for dampening in (0.0, 0.4):
        rates = {"momentum": 0.9, "dampening": dampening, "nesterov": False, "is_first_step": False}
        check(getattr(aten._fused_sgd_, overload), tensors(f32), tensors(f32), tensors(f32), **rates, **options)
    rates = {"lr_decay": 0.2, "eps": 1e-3}
    check(
        getattr(aten._fused_adagrad_, overload), tensors(f32), tensors(f32), moments(f32), steps(3), **rates, **options
    )
