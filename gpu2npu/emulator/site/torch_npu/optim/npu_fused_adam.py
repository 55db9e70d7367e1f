"""NpuFusedAdam and NpuFusedAdamW: the updates of `torch.optim.Adam` and `torch.optim.AdamW`."""

from __future__ import annotations

from typing import Any

from .npu_fused_optim_base import Block, NpuFusedOptimizerBase, check_betas, check_range

__all__ = ["NpuFusedAdam", "NpuFusedAdamW"]


class NpuFusedAdam(NpuFusedOptimizerBase):
    """Adam; weight decay is added to the gradient."""

    _decoupled = False

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
    ) -> None:
        check_range("lr", lr)
        check_range("eps", eps)
        check_betas(betas)
        check_range("weight_decay", weight_decay)
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad}
        )

    def _names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq", *(("max_exp_avg_sq",) if group["amsgrad"] else ()))

    def _update(self, group: dict[str, Any], block: Block, step: int) -> None:
        beta1, beta2 = group["betas"]
        grad, m, v = block.grad, block.states["exp_avg"], block.states["exp_avg_sq"]
        if self._decoupled:
            block.param.mul_(1 - group["lr"] * group["weight_decay"])
        elif group["weight_decay"]:
            grad = grad.add(block.param, alpha=group["weight_decay"])
        m.mul_(beta1).add_(grad, alpha=1 - beta1)
        v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        if group["amsgrad"]:
            v = block.states["max_exp_avg_sq"].copy_(block.states["max_exp_avg_sq"].maximum(v))
        denominator = (v.sqrt() / (1 - beta2**step) ** 0.5).add_(group["eps"])
        block.param.addcdiv_(m, denominator, value=-group["lr"] / (1 - beta1**step))


class NpuFusedAdamW(NpuFusedAdam):
    """AdamW; weight decay shrinks the parameter itself."""

    _decoupled = True

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad)
