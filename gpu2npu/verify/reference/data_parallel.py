"""The copies between GPUs that DataParallel makes: C++ in a CUDA build, and the same in Python here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.cuda import nccl
from torch.nn.parallel import _functions, comm

from gpu2npu.verify.reference import streams, visible_gpus

Tensors = Sequence[torch.Tensor]


def install() -> None:
    """Put these in the place of `torch.nn.parallel.comm`'s."""
    module: Any = comm
    module.broadcast, module.broadcast_coalesced = _broadcast, _broadcast_coalesced
    module.scatter, module.gather = _scatter, _gather
    nccl.is_available = lambda tensors: False
    functions: Any = _functions
    functions._get_stream = streams.Stream  # on which a batch is copied from the CPU


def _device(index: Any) -> torch.device:
    return torch.device("cuda", visible_gpus.index_of(index))


def _broadcast(tensor: torch.Tensor, devices: Any = None, *, out: Tensors | None = None) -> tuple[torch.Tensor, ...]:
    if out is not None:
        return tuple(target.copy_(tensor) for target in out)
    return tuple(tensor.to(_device(index)) for index in devices)


def _broadcast_coalesced(tensors: Tensors, devices: Any, buffer_size: int = 0) -> tuple[tuple[torch.Tensor, ...], ...]:
    return tuple(tuple(tensor.to(_device(index)) for tensor in tensors) for index in devices)


def _scatter(
    tensor: torch.Tensor,
    devices: Any = None,
    chunk_sizes: Sequence[int] | None = None,
    dim: int = 0,
    streams: Any = None,
    *,
    out: Tensors | None = None,
) -> tuple[torch.Tensor, ...]:
    if out is not None:
        chunks = tensor.split([target.size(dim) for target in out], dim)
        return tuple(target.copy_(chunk) for target, chunk in zip(out, chunks, strict=True))
    parts = tensor.split(list(chunk_sizes), dim) if chunk_sizes else tensor.chunk(len(devices), dim)
    return tuple(part.contiguous().to(_device(index)) for part, index in zip(parts, devices, strict=False))


def _gather(
    tensors: Tensors, dim: int = 0, destination: Any = None, *, out: torch.Tensor | None = None
) -> torch.Tensor:
    if out is None and destination == -1:
        target = torch.device("cpu")
    else:
        target = out.device if out is not None else _device(destination)
    joined = torch.cat([tensor.to(target) for tensor in tensors], dim)
    return joined if out is None else out.copy_(joined)
