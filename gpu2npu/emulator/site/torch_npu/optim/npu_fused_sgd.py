"""NpuFusedSGD and NpuFusedAdadelta: the updates of `torch.optim.SGD` and `torch.optim.Adadelta`."""

from __future__ import annotations

from typing import Any

from .npu_fused_optim_base import Block, NpuFusedOptimizerBase, check_range

__all__ = ["NpuFusedAdadelta", "NpuFusedSGD"]


class NpuFusedSGD(NpuFusedOptimizerBase):
    """Stochastic gradient descent with momentum."""

    def __init__(
        self,
        params: Any,
        lr: float,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        check_range("learning rate", lr)
        check_range("momentum", momentum)
        check_range("weight_decay", weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {"lr": lr, "momentum": momentum, "dampening": dampening}
        super().__init__(params, {**defaults, "weight_decay": weight_decay, "nesterov": nesterov})

    def _names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("momentum_buffer",) if group["momentum"] else ()

    def _update(self, group: dict[str, Any], block: Block, step: int) -> None:
        grad = block.grad
        if group["weight_decay"]:
            grad = grad.add(block.param, alpha=group["weight_decay"])
        if group["momentum"]:
            buffer = block.states["momentum_buffer"]
            if step == 1:
                buffer.copy_(grad)
            else:
                buffer.mul_(group["momentum"]).add_(grad, alpha=1 - group["dampening"])
            grad = grad.add(buffer, alpha=group["momentum"]) if group["nesterov"] else buffer
        block.param.add_(grad, alpha=-group["lr"])


class NpuFusedAdadelta(NpuFusedOptimizerBase):
    """Adadelta."""

    state_names = ("square_avg", "acc_delta")

    def __init__(
        self, params: Any, lr: float = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0
    ) -> None:
        check_range("learning rate", lr)
        check_range("rho", rho)
        check_range("epsilon", eps)
        check_range("weight_decay", weight_decay)
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay})

    def _update(self, group: dict[str, Any], block: Block, step: int) -> None:
        rho, eps = group["rho"], group["eps"]
        square, change, grad = block.states["square_avg"], block.states["acc_delta"], block.grad
        if group["weight_decay"]:
            grad = grad.add(block.param, alpha=group["weight_decay"])
        square.mul_(rho).addcmul_(grad, grad, value=1 - rho)
        delta = change.add(eps).sqrt_().div_(square.add(eps).sqrt_()).mul_(grad)
        change.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        block.param.add_(delta, alpha=-group["lr"])
