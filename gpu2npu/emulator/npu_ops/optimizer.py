"""torch_npu's optimizer steps, `npu_apply_adam`, `npu_apply_adam_w` and `npu_bert_apply_adam`, in place in `out=`."""

from __future__ import annotations

import numpy as np
import torch

from gpu2npu.emulator.device.tensor import Array, array
from gpu2npu.emulator.npu_ops.arguments import Arguments, by_schema
from gpu2npu.emulator.registration import Function, registering

OWN: dict[str, Function] = {}
_own = registering(OWN)

State = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def _moments(grad: Array, m: Array, v: Array, beta1: float, beta2: float) -> None:
    """Update both moments in place."""
    np.copyto(m, m * np.float32(beta1) + grad * np.float32(1 - beta1), casting="unsafe")
    np.copyto(v, v * np.float32(beta2) + grad * grad * np.float32(1 - beta2), casting="unsafe")


def _wide(tensor: torch.Tensor) -> Array:
    return array(tensor).astype(np.float32)


@by_schema(_own, "npu_apply_adam.out")
def npu_apply_adam(a: Arguments) -> State:
    """TensorFlow's ApplyAdam: epsilon is added to the uncorrected root of v."""
    g, first, second, weights = _wide(a.grad), array(a.m), array(a.v), array(a.var)
    _moments(g, first, second, a.beta1, a.beta2)
    rate = a.lr * (1 - a.beta2_power) ** 0.5 / (1 - a.beta1_power)
    step = first * np.float32(a.beta1) + g * np.float32(1 - a.beta1) if a.use_nesterov else first
    change = np.float32(rate) * step / (np.sqrt(second.astype(np.float32)) + np.float32(a.epsilon))
    np.copyto(weights, weights - change, casting="unsafe")
    return a.var, a.m, a.v


@by_schema(_own, "npu_apply_adam_w.out")
def npu_apply_adam_w(a: Arguments) -> State:
    """A step of AdamW; `max_grad_norm` holds AMSGrad's largest second moment."""
    g, first, second, weights = _wide(a.grad), array(a.m), array(a.v), array(a.var)
    if a.maximize:
        g = -g
    decayed = weights.astype(np.float32) * np.float32(1 - a.lr * a.weight_decay)
    _moments(g, first, second, a.beta1, a.beta2)
    spread = second.astype(np.float32)
    if a.amsgrad and a.max_grad_norm is not None:
        largest = array(a.max_grad_norm)
        np.copyto(largest, np.maximum(largest, second), casting="unsafe")
        spread = largest.astype(np.float32)
    root = np.sqrt(spread / np.float32(1 - a.beta2_power)) + np.float32(a.epsilon)
    change = np.float32(a.lr / (1 - a.beta1_power)) * first.astype(np.float32) / root
    np.copyto(weights, decayed - change, casting="unsafe")
    return a.var, a.m, a.v


@by_schema(_own, "npu_bert_apply_adam.out")
def npu_bert_apply_adam(a: Arguments) -> State:
    """A step of BERT's Adam: no bias correction, decoupled weight decay; the gradient is clipped by its global norm.

    A `max_grad_norm` of 0 or less clips nothing. `adam_mode` 0 is BERT's, others are not computed.
    """
    if a.adam_mode != 0:
        raise NotImplementedError(
            f"torch_npu.npu_bert_apply_adam: the emulated NPU does not compute mode {a.adam_mode}"
        )
    g, first, second, weights = _wide(a.grad), array(a.m), array(a.v), array(a.var)
    if a.max_grad_norm > 0 and a.global_grad_norm > a.max_grad_norm:
        g = g * np.float32(a.max_grad_norm / a.global_grad_norm)
    _moments(g, first, second, a.beta1, a.beta2)
    update = first.astype(np.float32) / (np.sqrt(second.astype(np.float32)) + np.float32(a.epsilon))
    update += np.float32(a.weight_decay) * weights.astype(np.float32)
    rate = a.lr * (1 if a.step_size is None else a.step_size)
    np.copyto(weights, weights - np.float32(rate) * update, casting="unsafe")
    return a.var, a.m, a.v
