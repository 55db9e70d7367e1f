"""NpuFusedLamb (You et al. 2019, without bias correction) and NpuFusedAdamP (Heo et al. 2020)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from .npu_fused_optim_base import Block, NpuFusedOptimizerBase, check_betas, check_range

__all__ = ["NpuFusedAdamP", "NpuFusedLamb"]


class NpuFusedLamb(NpuFusedOptimizerBase):
    """Adam's step of each parameter scaled by the ratio of their norms, the parameter's at most 10."""

    state_names = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0,
        adam: bool = False,
        use_global_grad_norm: bool = False,
    ) -> None:
        check_range("learning rate", lr)
        check_range("epsilon", eps)
        check_betas(betas)
        self.adam, self.use_global_grad_norm = adam, use_global_grad_norm
        self.global_grad_norm = 1.0
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def _before_step(self) -> None:
        if self.use_global_grad_norm:
            norms = [grad.float().norm() for grad in self.grads_all_group_combined if grad is not None]
            self.global_grad_norm = float(torch.stack(norms).norm())

    def _update(self, group: dict[str, Any], block: Block, step: int) -> None:
        beta1, beta2 = group["betas"]
        grad, m, v = block.grad, block.states["exp_avg"], block.states["exp_avg_sq"]
        if self.global_grad_norm > 1:
            grad = grad / self.global_grad_norm
        m.mul_(beta1).add_(grad, alpha=1 - beta1)
        v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        change = m / v.sqrt().add(group["eps"])
        if group["weight_decay"]:
            change.add_(block.param, alpha=group["weight_decay"])
        if not self.adam:
            for p, piece in zip(block.pieces(block.param), block.pieces(change), strict=True):
                weight_norm, change_norm = p.norm().clamp(0, 10), piece.norm()
                if weight_norm != 0 and change_norm != 0:
                    piece.mul_(weight_norm / change_norm)
        block.param.add_(change, alpha=-group["lr"])


class NpuFusedAdamP(NpuFusedOptimizerBase):
    """Adam whose step loses its part along the parameter where gradient and parameter are nearly orthogonal."""

    state_names = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        delta: float = 0.1,
        wd_ratio: float = 0.1,
        nesterov: bool = False,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**defaults, "delta": delta, "wd_ratio": wd_ratio, "nesterov": nesterov})

    def _update(self, group: dict[str, Any], block: Block, step: int) -> None:
        beta1, beta2 = group["betas"]
        grad, m, v = block.grad, block.states["exp_avg"], block.states["exp_avg_sq"]
        m.mul_(beta1).add_(grad, alpha=1 - beta1)
        v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        denominator = (v.sqrt() / math.sqrt(1 - beta2**step)).add_(group["eps"])
        perturb = (m * beta1 + grad * (1 - beta1) if group["nesterov"] else m) / denominator
        pieces = zip(*(block.pieces(each) for each in (block.param, grad, perturb)), strict=True)
        for p, g, change in pieces:
            decay = 1.0
            if p.dim() > 1:
                decay = _project(p, g, change, group["delta"], group["wd_ratio"], group["eps"])
            if group["weight_decay"] > 0:
                p.mul_(1 - group["lr"] * group["weight_decay"] * decay)
        block.param.add_(perturb, alpha=-group["lr"] / (1 - beta1**step))


def _project(
    p: torch.Tensor, grad: torch.Tensor, change: torch.Tensor, delta: float, ratio: float, eps: float
) -> float:
    """Take the part along p out of `change`, in place, by channel or by layer; the factor of the weight decay."""
    views: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
        lambda t: t.reshape(t.shape[0], -1),
        lambda t: t.reshape(1, -1),
    )
    for view in views:
        a, b = view(grad), view(p)
        cosine = (a * b).sum(1).abs() / (a.norm(dim=1) + eps) / (b.norm(dim=1) + eps)
        if cosine.max() < delta / math.sqrt(b.shape[1]):
            unit = b / (b.norm(dim=1, keepdim=True) + eps)
            along = (unit * view(change)).sum(1, keepdim=True)
            change.sub_((unit * along).reshape(p.shape))
            return ratio
    return 1.0
