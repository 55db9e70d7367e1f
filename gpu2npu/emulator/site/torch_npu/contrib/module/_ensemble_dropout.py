"""Dropout whose random numbers are drawn ahead, between steps. As in torch_npu, most of it drops in evaluation too."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from ...npu.streams import Stream

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
    droppath_stream: ClassVar[Any] = None

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
        cls.droppath_stream = cls.droppath_stream or Stream()
        model.register_forward_pre_hook(lambda module, inputs: cls.fill())


class _MaskedDropout(nn.Dropout):
    """Dropout by a mask. Of a list of shape, dtype and device in place of a tensor it gives the mask."""

    dropout_stream: ClassVar[Any] = None

    def __init__(self, p: float, module_name: str | None = None) -> None:
        super().__init__(p)
        self.module_name = module_name

    def forward(self, x: Any) -> Any:
        """x through the mask, or the mask; x, or None, where there is none. Raises RuntimeError for other types."""
        is_tensor = isinstance(x, torch.Tensor)
        if not is_tensor and not isinstance(x, list):
            raise RuntimeError(f"{type(self).__name__} takes a tensor, or a list of shape, dtype and device, not {x!r}")
        shape, dtype, device = (x.shape, x.dtype, x.device) if is_tensor else x
        mask = None if self.p == 0 else self.mask((tuple(shape), dtype, device, self.p))
        if not is_tensor:
            return mask
        return x if mask is None else npu.npu_dropout_do_mask(x, mask, self.p)[0]

    def mask(self, key: Any) -> torch.Tensor | None:
        """The mask for a shape, dtype, device and probability."""
        raise NotImplementedError

    @staticmethod
    def draw(key: Any) -> torch.Tensor:
        shape, dtype, device, p = key
        mask: torch.Tensor = npu.npu_dropout_gen_mask(shape, p, dtype=dtype, device=device)
        return mask


class NpuCachedDropout(_MaskedDropout, _DrawnAhead):
    """Dropout. Needs `enable_dropout_ensemble(model)` to drop anything."""

    wanted: ClassVar[dict[Any, int]] = defaultdict(int)
    drawn: ClassVar[dict[Any, list[torch.Tensor]]] = defaultdict(list)

    def mask(self, key: Any) -> torch.Tensor | None:
        """One that was drawn ahead."""
        return self.take(key)

    @classmethod
    def enable_dropout_ensemble(cls, model: nn.Module) -> None:
        """Draw masks after each forward pass of the model."""
        cls.dropout_stream = cls.dropout_stream or Stream()
        model.register_forward_hook(lambda module, inputs, outputs: cls.fill())


NpuFairseqDropout = NpuCachedDropout


@dataclass(frozen=True)
class _PreGenDropoutTask:
    device: str
    p: float


class NpuPreGenDropout(_MaskedDropout):
    """Dropout of a probability that was known when `enable_dropout_ensemble(model)` was called."""

    prob: ClassVar[set[float]] = set()
    task_dict: ClassVar[dict[float, _PreGenDropoutTask]] = {}

    def __init__(self, p: float, module_name: str | None = None) -> None:
        super().__init__(p, module_name)
        self.prob.add(p)

    def mask(self, key: Any) -> torch.Tensor | None:
        """A new one. Raises RuntimeError for a probability that is not registered."""
        if self.p not in self.task_dict:
            raise RuntimeError(f"NpuPreGenDropout: p={self.p} is not among those registered: {list(self.task_dict)}")
        return self.draw(key)

    @classmethod
    def enable_dropout_ensemble(cls, model: nn.Module) -> None:
        """Register the probabilities of all such layers that were made."""
        cls.dropout_stream = cls.dropout_stream or Stream()
        device = f"npu:{torch.npu.current_device()}"  # type: ignore[attr-defined]
        cls.task_dict.update({p: _PreGenDropoutTask(device, p) for p in cls.prob})


class DropoutWithByteMask(nn.Module):
    """Dropout by a mask of a byte an element."""

    def __init__(self, p: float = 0.5, inplace: bool = False, max_seed: int = 2**10 - 1) -> None:
        super().__init__()
        self.p, self.inplace = p, inplace

    def forward(self, input1: torch.Tensor) -> torch.Tensor:
        """input1, dropped in training."""
        from ..function.npu_functional import dropout_with_byte_mask

        return dropout_with_byte_mask(input1, self.p, self.training, self.inplace)
