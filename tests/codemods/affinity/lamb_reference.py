"""torch_optimizer's Lamb, to compare with, without the package: that of You et al. 2019 without correction of bias."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch


class Lamb(torch.optim.Optimizer):
    """Adam's step of each parameter, by the ratio of the parameter's norm, at most 10, to that of the step."""

    def __init__(self, params: Any, lr: float, betas: Any = (0.9, 0.999), eps: float = 1e-6, **more: Any) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0, "adam": False} | more)

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """One update."""
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                m, v = (state.setdefault(name, torch.zeros_like(p)) for name in ("exp_avg", "exp_avg_sq"))
                m.lerp_(p.grad, 1 - group["betas"][0])
                v.lerp_(p.grad * p.grad, 1 - group["betas"][1])
                change = m / (v.sqrt() + group["eps"]) + group["weight_decay"] * p
                norm, size = p.norm().clamp(max=10), change.norm()
                ratio = float(norm / size) if norm and size and not group["adam"] else 1.0
                p.sub_(change, alpha=group["lr"] * ratio)


def modules() -> dict[str, ModuleType]:
    """The module that holds it, by name."""
    found = ModuleType("torch_optimizer")
    vars(found)["Lamb"] = Lamb
    return {found.__name__: found}
