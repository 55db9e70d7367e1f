"""torch_npu's optimizer steps, `npu_apply_adam`, `npu_apply_adam_w` and `npu_bert_apply_adam`, in place in `out=`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from gpu2npu.emulator.device.tensor import Array, array

OWN: dict[str, Callable[..., Any]] = {}

State = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def _moments(grad: Array, m: Array, v: Array, beta1: float, beta2: float) -> None:
    """Update both moments in place."""
    np.copyto(m, m * np.float32(beta1) + grad * np.float32(1 - beta1), casting="unsafe")
    np.copyto(v, v * np.float32(beta2) + grad * grad * np.float32(1 - beta2), casting="unsafe")


def _wide(tensor: torch.Tensor) -> Array:
    return array(tensor).astype(np.float32)


def npu_apply_adam(
    beta1_power: float,
    beta2_power: float,
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    grad: torch.Tensor,
    use_locking: bool | None,
    use_nesterov: bool | None,
    *,
    var: torch.Tensor,
    m: torch.Tensor,
    v: torch.Tensor,
) -> State:
    """TensorFlow's ApplyAdam: epsilon is added to the uncorrected root of v."""
    g, first, second, weights = _wide(grad), array(m), array(v), array(var)
    _moments(g, first, second, beta1, beta2)
    rate = lr * (1 - beta2_power) ** 0.5 / (1 - beta1_power)
    step = first * np.float32(beta1) + g * np.float32(1 - beta1) if use_nesterov else first
    change = np.float32(rate) * step / (np.sqrt(second.astype(np.float32)) + np.float32(epsilon))
    np.copyto(weights, weights - change, casting="unsafe")
    return var, m, v


def npu_apply_adam_w(
    beta1_power: float,
    beta2_power: float,
    lr: float,
    weight_decay: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    grad: torch.Tensor,
    max_grad_norm: torch.Tensor | None,
    amsgrad: bool | None,
    maximize: bool | None,
    *,
    var: torch.Tensor,
    m: torch.Tensor,
    v: torch.Tensor,
) -> State:
    """A step of AdamW; `max_grad_norm` holds AMSGrad's largest second moment."""
    g, first, second, weights = _wide(grad), array(m), array(v), array(var)
    if maximize:
        g = -g
    decayed = weights.astype(np.float32) * np.float32(1 - lr * weight_decay)
    _moments(g, first, second, beta1, beta2)
    spread = second.astype(np.float32)
    if amsgrad and max_grad_norm is not None:
        largest = array(max_grad_norm)
        np.copyto(largest, np.maximum(largest, second), casting="unsafe")
        spread = largest.astype(np.float32)
    root = np.sqrt(spread / np.float32(1 - beta2_power)) + np.float32(epsilon)
    change = np.float32(lr / (1 - beta1_power)) * first.astype(np.float32) / root
    np.copyto(weights, decayed - change, casting="unsafe")
    return var, m, v


def npu_bert_apply_adam(
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    grad: torch.Tensor,
    max_grad_norm: float,
    global_grad_norm: float,
    weight_decay: float,
    step_size: float | None = None,
    adam_mode: int = 0,
    *,
    var: torch.Tensor,
    m: torch.Tensor,
    v: torch.Tensor,
) -> State:
    """A step of BERT's Adam: no bias correction, decoupled weight decay; the gradient is clipped by its global norm.

    A `max_grad_norm` of 0 or less clips nothing. `adam_mode` 0 is BERT's, others are not computed.
    """
    if adam_mode != 0:
        raise NotImplementedError(f"torch_npu.npu_bert_apply_adam: the emulated NPU does not compute mode {adam_mode}")
    g, first, second, weights = _wide(grad), array(m), array(v), array(var)
    if max_grad_norm > 0 and global_grad_norm > max_grad_norm:
        g = g * np.float32(max_grad_norm / global_grad_norm)
    _moments(g, first, second, beta1, beta2)
    update = first.astype(np.float32) / (np.sqrt(second.astype(np.float32)) + np.float32(epsilon))
    update += np.float32(weight_decay) * weights.astype(np.float32)
    rate = lr * (1 if step_size is None else step_size)
    np.copyto(weights, weights - np.float32(rate) * update, casting="unsafe")
    return var, m, v


OWN["npu_apply_adam.out"] = npu_apply_adam
OWN["npu_apply_adam_w.out"] = npu_apply_adam_w
OWN["npu_bert_apply_adam.out"] = npu_bert_apply_adam
