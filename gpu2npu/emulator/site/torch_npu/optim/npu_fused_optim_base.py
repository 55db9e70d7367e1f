"""The base of torch_npu's fused optimizers: parameters, gradients and states lie end to end and are updated at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from ..utils.combine_tensors import get_part_combined_tensor, is_combined_tensor_valid, npu_combine_tensors

__all__ = ["NpuFusedOptimizerBase"]

_DTYPES = (torch.float32, torch.float16)


@dataclass
class Block:
    """The parameters of one group and dtype, flat; `states` are flat too, by name."""

    params: list[torch.Tensor]
    param: torch.Tensor
    grad: torch.Tensor
    states: dict[str, torch.Tensor] = field(default_factory=dict)

    def pieces(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """A flat tensor as views in the shapes of the parameters."""
        parts = flat.split([p.numel() for p in self.params])
        return [part.view(p.shape) for part, p in zip(parts, self.params, strict=True)]


class NpuFusedOptimizerBase(torch.optim.Optimizer):
    """A subclass names its state tensors and updates one block.

    The first `step`, `zero_grad` or `clip_grad_norm_fused_` with gradients moves parameters and gradients into shared
    memory; from then on gradients must stay there, so `zero_grad` cannot set them to None.
    """

    state_names: tuple[str, ...] = ()

    def __init__(self, params: Any, default: dict[str, Any]) -> None:
        self.is_fused_optimizer = True
        self.is_params_grads_combined = False
        self.params_all_group_combined: list[torch.Tensor | None] = [None, None]
        self.grads_all_group_combined: list[torch.Tensor | None] = [None, None]
        self._blocks: list[list[Block]] = []
        self._states_combined = False
        super().__init__(params, default)

    def _names(self, group: dict[str, Any]) -> tuple[str, ...]:
        """The state tensors of a group."""
        return self.state_names

    def _update(self, group: dict[str, Any], block: Block, step: int) -> None:
        """Update one block; steps count from 1."""
        raise NotImplementedError

    def _combine(self) -> None:
        if self.is_params_grads_combined:
            return
        lists: list[list[list[torch.Tensor]]] = []
        for group in self.param_groups:
            with_grad = [p for p in group["params"] if p.grad is not None]
            for p in with_grad:
                if p.dtype not in _DTYPES:
                    raise TypeError(
                        f"Fused optimizer's parameters must be either float32 or float16, but received {p.dtype}"
                    )
                if p.grad.is_sparse:
                    raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")
            lists.append([[p for p in with_grad if p.dtype is dtype] for dtype in _DTYPES])
        for i in range(len(_DTYPES)):
            every = [p for group_lists in lists for p in group_lists[i]]
            self.params_all_group_combined[i] = npu_combine_tensors(every)
            self.grads_all_group_combined[i] = npu_combine_tensors([p.grad for p in every if p.grad is not None])
        self._blocks, starts = [], [0] * len(_DTYPES)
        for group_lists in lists:
            blocks = []
            for i, params in enumerate(group_lists):
                size = sum(p.numel() for p in params)
                param = get_part_combined_tensor(self.params_all_group_combined[i], starts[i], size)
                grad = get_part_combined_tensor(self.grads_all_group_combined[i], starts[i], size)
                starts[i] += size
                if param is not None and grad is not None:
                    blocks.append(Block(params, param, grad))
            self._blocks.append(blocks)
        self.is_params_grads_combined = any(self._blocks)

    def _combine_states(self) -> None:
        if self._states_combined:
            return
        for group, blocks in zip(self.param_groups, self._blocks, strict=True):
            for block in blocks:
                for p in block.params:
                    self.state[p].setdefault("step", 0)
                for name in self._names(group):
                    for p in block.params:
                        if name not in self.state[p]:
                            self.state[p][name] = torch.zeros_like(p)
                    combined = npu_combine_tensors([self.state[p][name] for p in block.params])
                    assert combined is not None
                    block.states[name] = combined
        self._states_combined = True

    def _check_grads(self) -> None:
        for i, combined in enumerate(self.grads_all_group_combined):
            params = [p for blocks in self._blocks for b in blocks for p in b.params if p.dtype is _DTYPES[i]]
            grads = [p.grad for p in params if p.grad is not None]
            if len(grads) != len(params) or not is_combined_tensor_valid(combined, grads):
                raise RuntimeError(
                    f"{type(self).__name__}: a gradient left the combined memory (set to None, or replaced); zero "
                    "gradients with the optimizer's own zero_grad()"
                )

    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """One update of all parameters that had gradients at the first call; the closure's loss, if there is one."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            self._combine()
            if not self.is_params_grads_combined:
                return loss
            self._check_grads()
            self._combine_states()
            self._before_step()
            for group, blocks in zip(self.param_groups, self._blocks, strict=True):
                for block in blocks:
                    for p in block.params:
                        self.state[p]["step"] += 1
                    self._update(group, block, int(self.state[block.params[0]]["step"]))
        return loss

    def _before_step(self) -> None:
        """Do what needs all gradients at once, before the step."""

    @torch.no_grad()
    def zero_grad(self, set_to_none: bool = False) -> None:
        """Fill the gradients with 0.

        Raises:
            ValueError: They should be set to None, which would take them out of the shared memory.
        """
        if set_to_none:
            raise ValueError("set_to_none is not supported in fused optimizers")
        self._combine()
        if not self.is_params_grads_combined:
            super().zero_grad(set_to_none=False)
            return
        for combined in self.grads_all_group_combined:
            if combined is not None:
                combined.zero_()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As every optimizer; the states move into shared memory at the next step."""
        super().load_state_dict(state_dict)
        self._states_combined = False

    def get_combined_params(self) -> list[torch.Tensor | None]:
        """All float32 and all float16 parameters, flat; None where there are none."""
        return self.params_all_group_combined

    def get_combined_grads(self) -> list[torch.Tensor | None]:
        """The gradients of `get_combined_params`."""
        return self.grads_all_group_combined

    @torch.no_grad()
    def clip_grad_norm_fused_(self, max_norm: float, norm_type: float = 2) -> torch.Tensor:
        """`torch.nn.utils.clip_grad_norm_` of all gradients at once: scales them in place, returns their norm."""
        self._combine()
        grads = [grad for grad in self.grads_all_group_combined if grad is not None]
        if not grads:
            return torch.tensor(0.0)
        norms = torch.stack([torch.linalg.vector_norm(grad.float(), norm_type) for grad in grads])
        total: torch.Tensor = torch.linalg.vector_norm(norms, norm_type)
        scale = float(max_norm) / (total + 1e-6)
        if scale < 1:
            for grad in grads:
                grad.mul_(scale)
        return total


def check_range(name: str, value: float, low: float = 0.0, high: float | None = None) -> None:
    """Raise ValueError when a hyperparameter is below `low`, or not below `high`."""
    if value < low or (high is not None and value >= high):
        raise ValueError(f"Invalid {name} value: {value}")


def check_betas(betas: tuple[float, float]) -> None:
    """Raise ValueError when a beta is not in [0, 1)."""
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
