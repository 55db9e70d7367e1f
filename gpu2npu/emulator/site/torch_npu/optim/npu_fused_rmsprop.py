"""NpuFusedRMSprop, the update of `torch.optim.RMSprop`, and NpuFusedRMSpropTF, TensorFlow's (as timm's RMSpropTF)."""

from __future__ import annotations

from typing import Any

from .npu_fused_optim_base import Block, NpuFusedOptimizerBase, check_range

__all__ = ["NpuFusedRMSprop", "NpuFusedRMSpropTF"]


class NpuFusedRMSprop(NpuFusedOptimizerBase):
    """RMSprop."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        **more: Any,
    ) -> None:
        values = {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum}
        for name, value in values.items():
            check_range(name, value)
        super().__init__(params, {**values, "centered": centered, **more})

    def _names(self, group: dict[str, Any]) -> tuple[str, ...]:
        names = ["square_avg"]
        if group["momentum"] > 0:
            names.append("momentum_buffer")
        if group["centered"]:
            names.append("grad_avg")
        return tuple(names)

    def _update(self, group: dict[str, Any], block: Block, step: int) -> None:
        alpha, square, grad = group["alpha"], block.states["square_avg"], block.grad
        if group["weight_decay"]:
            grad = grad.add(block.param, alpha=group["weight_decay"])
        square.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        spread = square
        if group["centered"]:
            mean = block.states["grad_avg"].mul_(alpha).add_(grad, alpha=1 - alpha)
            spread = square.addcmul(mean, mean, value=-1)
        root = spread.sqrt().add_(group["eps"])
        if group["momentum"] > 0:
            buffer = block.states["momentum_buffer"].mul_(group["momentum"]).addcdiv_(grad, root)
            block.param.add_(buffer, alpha=-group["lr"])
        else:
            block.param.addcdiv_(grad, root, value=-group["lr"])


class NpuFusedRMSpropTF(NpuFusedRMSprop):
    """RMSprop with epsilon within the root, squares that begin at 1, and the rate within the momentum."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        alpha: float = 0.9,
        eps: float = 1e-10,
        weight_decay: float = 0,
        momentum: float = 0.0,
        centered: bool = False,
        decoupled_decay: bool = False,
        lr_in_momentum: bool = True,
    ) -> None:
        super().__init__(
            params,
            lr,
            alpha,
            eps,
            weight_decay,
            momentum,
            centered,
            decoupled_decay=decoupled_decay,
            lr_in_momentum=lr_in_momentum,
        )

    def _update(self, group: dict[str, Any], block: Block, step: int) -> None:
        rate, square, grad = 1 - group["alpha"], block.states["square_avg"], block.grad
        if step == 1:
            square.fill_(1)
        if group["weight_decay"]:
            if group["decoupled_decay"]:
                block.param.mul_(1 - group["weight_decay"])
            else:
                grad = grad.add(block.param, alpha=group["weight_decay"])
        square.add_(grad.pow(2) - square, alpha=rate)
        spread = square
        if group["centered"]:
            mean = block.states["grad_avg"]
            mean.add_(grad - mean, alpha=rate)
            spread = square.addcmul(mean, mean, value=-1)
        root = spread.add(group["eps"]).sqrt_()
        if group["momentum"] <= 0:
            block.param.addcdiv_(grad, root, value=-group["lr"])
            return
        buffer = block.states["momentum_buffer"].mul_(group["momentum"])
        if group["lr_in_momentum"]:
            block.param.sub_(buffer.addcdiv_(grad, root, value=group["lr"]))
        else:
            block.param.add_(buffer.addcdiv_(grad, root), alpha=-group["lr"])
