"""Fused optimizer steps: Adam, AdamW, SGD and Adagrad, in place over lists of parameters; and GradScaler's operators.

Arithmetic is float32 for halves. With a gradient scale, gradients are unscaled first and stored so; with found_inf set,
nothing happens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gpu2npu.emulator.kernels.promotion import Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel

List = Sequence[Array]


def _store(target: Array, value: Array) -> None:
    np.copyto(target, value, casting="unsafe")


def _gradients(grads: List, maximize: bool, grad_scale: Array | None) -> Iterator[Array]:
    for grad in grads:
        g = wide(grad)
        if grad_scale is not None:
            g = g / g.dtype.type(float(grad_scale.reshape(())))
            _store(grad, g)
        yield -g if maximize else g


def _overflowed(found_inf: Array | None) -> bool:
    return found_inf is not None and bool(found_inf.any())


def _adam_step(
    grads: List,
    states: tuple[List, List, List, List, List],
    rates: tuple[float, float, float, float, float],
    flags: tuple[bool, bool, bool],
    grad_scale: Array | None,
) -> None:
    params, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps = states
    lr, beta1, beta2, weight_decay, eps = rates
    amsgrad, maximize, decoupled = flags
    for i, g in enumerate(_gradients(grads, maximize, grad_scale)):
        kind = g.dtype.type
        step = float(steps[i].reshape(()))
        p = wide(params[i])
        if weight_decay:
            if decoupled:
                p = p * kind(1 - lr * weight_decay)
            else:
                g = g + p * kind(weight_decay)
        m = wide(exp_avgs[i])
        m = m + (g - m) * kind(1 - beta1)
        v = wide(exp_avg_sqs[i]) * kind(beta2)
        v += g * g * kind(1 - beta2)
        _store(exp_avgs[i], m)
        _store(exp_avg_sqs[i], v)
        if amsgrad:
            v = np.maximum(wide(max_exp_avg_sqs[i]), v)
            _store(max_exp_avg_sqs[i], v)
        denominator = np.asarray(np.sqrt(v))
        denominator /= kind(np.sqrt(1 - beta2**step))
        denominator += kind(eps)
        _store(params[i], p - m / denominator * kind(lr / (1 - beta1**step)))


def _adam(name: str, decoupled: bool) -> None:
    @kernel(f"aten::{name}", f"aten::{name}.tensor_lr")
    def step(
        self: List,
        grads: List,
        exp_avgs: List,
        exp_avg_sqs: List,
        max_exp_avg_sqs: List,
        state_steps: List,
        *,
        lr: float | Array,
        beta1: float,
        beta2: float,
        weight_decay: float,
        eps: float,
        amsgrad: bool,
        maximize: bool,
        grad_scale: Array | None = None,
        found_inf: Array | None = None,
    ) -> None:
        """One step of Adam, or of AdamW, whose weight decay bypasses the moments; state_steps count from 1."""
        if _overflowed(found_inf):
            return
        _adam_step(
            grads,
            (self, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps),
            (float(lr), beta1, beta2, weight_decay, eps),
            (amsgrad, maximize, decoupled),
            grad_scale,
        )


_adam("_fused_adam_", False)
_adam("_fused_adamw_", True)


@kernel("aten::_fused_sgd_", "aten::_fused_sgd_.tensor_lr")
def sgd(
    self: List,
    grads: List,
    momentum_buffer_list: List,
    *,
    weight_decay: float,
    momentum: float,
    lr: float | Array,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
    grad_scale: Array | None = None,
    found_inf: Array | None = None,
) -> None:
    """One step of stochastic gradient descent, with momentum where it is not 0."""
    if _overflowed(found_inf):
        return
    for i, g in enumerate(_gradients(grads, maximize, grad_scale)):
        kind = g.dtype.type
        p = wide(self[i])
        if weight_decay:
            g = g + p * kind(weight_decay)
        if momentum:
            buffer = g if is_first_step else wide(momentum_buffer_list[i]) * kind(momentum) + g * kind(1 - dampening)
            _store(momentum_buffer_list[i], buffer)
            g = g + buffer * kind(momentum) if nesterov else buffer
        _store(self[i], p - g * kind(float(lr)))


@kernel("aten::_fused_adagrad_", "aten::_fused_adagrad_.tensor_lr")
def adagrad(
    self: List,
    grads: List,
    state_sums: List,
    state_steps: List,
    *,
    lr: float | Array,
    lr_decay: float,
    weight_decay: float,
    eps: float,
    maximize: bool,
    grad_scale: Array | None = None,
    found_inf: Array | None = None,
) -> None:
    """One step of Adagrad; state_steps count from 1."""
    if _overflowed(found_inf):
        return
    for i, g in enumerate(_gradients(grads, maximize, grad_scale)):
        kind = g.dtype.type
        p = wide(self[i])
        if weight_decay:
            g = g + p * kind(weight_decay)
        rate = float(lr) / (1 + (float(state_steps[i].reshape(())) - 1) * lr_decay)
        total = wide(state_sums[i]) + g * g
        _store(state_sums[i], total)
        _store(self[i], p - g / (np.sqrt(total) + kind(eps)) * kind(rate))


@kernel("aten::_amp_foreach_non_finite_check_and_unscale_")
def unscale(self: Sequence[Array], found_inf: Array, inv_scale: Array) -> None:
    """Gradients times inv_scale, in place; found_inf becomes 1 where one is infinite or NaN."""
    factor = np.float32(inv_scale)
    for gradient in self:
        x = wide(gradient)
        if not np.all(np.isfinite(x)):
            found_inf[...] = 1
        np.copyto(gradient, rounded(np.asarray(x * factor), gradient.dtype))


@kernel("aten::_amp_update_scale_")
def update_scale(
    self: Array,
    growth_tracker: Array,
    found_inf: Array,
    scale_growth_factor: float,
    scale_backoff_factor: float,
    growth_interval: int,
) -> None:
    """The loss scale backs off after an overflow and grows after `growth_interval` steps without one, in place."""
    if found_inf.any():
        self *= self.dtype.type(scale_backoff_factor)
        growth_tracker[...] = 0
        return
    steps = int(growth_tracker.reshape(())) + 1
    if steps == growth_interval:
        grown = self * self.dtype.type(scale_growth_factor)
        # A scale that would overflow stays.
        if np.all(np.isfinite(grown)):
            self[...] = grown
        steps = 0
    growth_tracker[...] = steps
