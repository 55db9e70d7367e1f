"""Dropout whose random numbers are drawn ahead, between steps."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, ClassVar

import torch
from torch import nn

__all__ = ["DropoutWithByteMask", "NpuCachedDropout", "NpuDropPath", "NpuFairseqDropout", "NpuPreGenDropout"]

npu = torch.ops.npu


class _DrawnAhead:
    """Draws before each step what shapes asked for; a shape that is new passes through unchanged, as on Ascend."""

    wanted: ClassVar[dict[Any, int]]
    drawn: ClassVar[dict[Any, list[torch.Tensor]]]

    @classmethod
    def take(cls, key: Any) -> torch.Tensor | None:
        if cls.drawn[key]:
            return cls.drawn[key].pop(0)
        cls.wanted[key] += 1
        return None

    @classmethod
    def fill(cls) -> None:
        for key, count in cls.wanted.items():
            while len(cls.drawn[key]) < count:
                cls.drawn[key].append(cls.draw(key))

    @staticmethod
    def draw(key: Any) -> torch.Tensor:
        raise NotImplementedError


class NpuDropPath(nn.Module, _DrawnAhead):
    """Stochastic depth: drops whole samples. Needs `NpuDropPath.enable_droppath_ensemble(model)` to drop any."""

    wanted: ClassVar[dict[Any, int]] = defaultdict(int)
    drawn: ClassVar[dict[Any, list[torch.Tensor]]] = defaultdict(list)

    def __init__(self, drop_prob: float = 0.0) -> None:
        super().__init__()
        self.drop_prob, self.keep_prob = drop_prob, 1 - drop_prob

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x with samples dropped, the others over the probability of staying."""
        if self.drop_prob == 0 or not self.training:
            return x
        random = self.take((tuple(x.shape), x.dtype, x.device))
        return x if random is None else x.div(self.keep_prob) * (random + self.keep_prob).floor()

    @staticmethod
    def draw(key: Any) -> torch.Tensor:
        shape, dtype, device = key
        return torch.rand((shape[0],) + (1,) * (len(shape) - 1), dtype=dtype, device=device)

    @classmethod
    def enable_droppath_ensemble(cls, model: nn.Module) -> None:
        """Draw random numbers before each forward pass of the model."""
        model.register_forward_pre_hook(lambda module, inputs: cls.fill())


class NpuCachedDropout(nn.Dropout, _DrawnAhead):
    """Dropout. Needs `enable_dropout_ensemble(model)` to drop anything."""

    wanted: ClassVar[dict[Any, int]] = defaultdict(int)
    drawn: ClassVar[dict[Any, list[torch.Tensor]]] = defaultdict(list)

    def __init__(self, p: float, module_name: str | None = None) -> None:
        super().__init__(p)
        self.module_name = module_name

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x through a mask that was drawn ahead."""
        if self.p == 0 or not self.training:
            return x
        mask = self.take((tuple(x.shape), x.dtype, x.device, self.p))
        return x if mask is None else npu.npu_dropout_do_mask(x, mask, self.p)[0]

    @staticmethod
    def draw(key: Any) -> torch.Tensor:
        shape, dtype, device, p = key
        mask: torch.Tensor = npu.npu_dropout_gen_mask(shape, p, dtype=dtype, device=device)
        return mask

    @classmethod
    def enable_dropout_ensemble(cls, model: nn.Module) -> None:
        """Draw masks after each forward pass of the model."""
        model.register_forward_hook(lambda module, inputs, outputs: cls.fill())


NpuFairseqDropout = NpuCachedDropout
NpuPreGenDropout = NpuCachedDropout


class DropoutWithByteMask(nn.Module):
    """Dropout by a mask of a byte an element."""

    def __init__(self, p: float = 0.5, inplace: bool = False, max_seed: int = 2**10 - 1) -> None:
        super().__init__()
        self.p, self.inplace = p, inplace

    def forward(self, input1: torch.Tensor) -> torch.Tensor:
        """input1, dropped in training."""
        from ..function.npu_functional import dropout_with_byte_mask

        return dropout_with_byte_mask(input1, self.p, self.training, self.inplace)
