"""NpuFusedBertAdam: BERT's Adam, without bias correction, with a warm-up schedule of its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .npu_fused_optim_base import Block, NpuFusedOptimizerBase, check_range

__all__ = ["NpuFusedBertAdam"]


def _cosine(x: float, warmup: float) -> float:
    return x / warmup if x < warmup else 0.5 * (1 + math.cos(math.pi * x))


def _constant(x: float, warmup: float) -> float:
    return x / warmup if x < warmup else 1.0


def _linear(x: float, warmup: float) -> float:
    return x / warmup if x < warmup else max((x - 1) / (warmup - 1), 0)


def _poly(x: float, warmup: float) -> float:
    return x / warmup if x < warmup else (1 - x) ** 0.5


SCHEDULES: dict[str, Callable[[float, float], float]] = {
    "warmup_cosine": _cosine,
    "warmup_constant": _constant,
    "warmup_linear": _linear,
    "warmup_poly": _poly,
}


class NpuFusedBertAdam(NpuFusedOptimizerBase):
    """Adam with decoupled weight decay; each group's gradients are clipped together to `max_grad_norm`."""

    state_names = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: Any,
        lr: float,
        warmup: float = -1,
        t_total: int = -1,
        schedule: str = "warmup_linear",
        b1: float = 0.9,
        b2: float = 0.999,
        e: float = 1e-6,
        weight_decay: float = 0.01,
        max_grad_norm: float = 1.0,
    ) -> None:
        check_range("learning rate", lr)
        if warmup != -1:
            check_range("warmup", warmup, high=1.0)
        if schedule not in SCHEDULES:
            raise ValueError(f"Invalid schedule parameter: {schedule}")
        check_range("b1", b1, high=1.0)
        check_range("b2", b2, high=1.0)
        check_range("epsilon", e)
        self.max_grad_norm = max_grad_norm
        defaults = {"lr": lr, "schedule": schedule, "warmup": warmup, "t_total": t_total, "b1": b1, "b2": b2, "e": e}
        super().__init__(params, {**defaults, "weight_decay": weight_decay, "max_grad_norm": max_grad_norm})

    def _update(self, group: dict[str, Any], block: Block, step: int) -> None:
        grad, m, v = block.grad, block.states["exp_avg"], block.states["exp_avg_sq"]
        if self.max_grad_norm > 0:
            scale = self.max_grad_norm / (grad.float().norm() + 1e-6)
            if scale < 1:
                grad.mul_(scale)
        m.mul_(group["b1"]).add_(grad, alpha=1 - group["b1"])
        v.mul_(group["b2"]).addcmul_(grad, grad, value=1 - group["b2"])
        change = m / (v.sqrt() + group["e"])
        if group["weight_decay"] > 0:
            change.add_(block.param, alpha=group["weight_decay"])
        rate = group["lr"]
        if group["t_total"] != -1:
            rate *= SCHEDULES[group["schedule"]]((step - 1) / group["t_total"], group["warmup"])
        block.param.add_(change, alpha=-rate)
