"""Pinned host memory for DistributedDataParallel, which takes it in C++ where a Python backend has no say.

With `find_unused_parameters` or `static_graph` the reducer asks the CPU for pinned memory on the way to an NPU, and
PyTorch has no allocator to give. NPU memory is host memory here, so being pinned is a mark on an ordinary tensor
(as `Tensor.pin_memory` leaves it). The CPU's `empty_strided` is replaced only when such a reducer is
made, since tensors of other code then pass by here too.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from gpu2npu.emulator.device import pinning
from gpu2npu.emulator.registration import implement


def register() -> None:
    """Have DistributedDataParallel call `mark_pinned` before it makes a reducer that wants pinned memory."""
    c10d: Any = dist
    make = c10d.Reducer
    set_static_graph = DistributedDataParallel._set_static_graph

    @functools.wraps(make)
    def reducer(*args: Any, **kwargs: Any) -> Any:
        if len(args) > 6 and args[6]:  # find_unused_parameters
            mark_pinned()
        return make(*args, **kwargs)

    @functools.wraps(set_static_graph)
    def static_graph(self: DistributedDataParallel) -> None:
        mark_pinned()
        set_static_graph(self)

    c10d.Reducer = reducer
    DistributedDataParallel._set_static_graph = static_graph  # type: ignore[method-assign]


@functools.cache
def mark_pinned() -> torch.library.Library:
    """Replace the CPU's `empty_strided` by one that takes `pin_memory` for a mark, and `is_pinned` to read it."""
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a kernel is replaced is the intention
        implement(library, "empty_strided", _empty_strided, "CPU")
        implement(library, "is_pinned", lambda tensor, device=None: pinning.is_pinned(tensor), "CPU")
    return library


def _empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
) -> torch.Tensor:
    elements = 1 + sum((length - 1) * step for length, step in zip(size, stride, strict=True)) if all(size) else 0
    tensor = torch.empty(elements, dtype=dtype, device="cpu").as_strided(size, stride)
    if pin_memory:
        pinning.mark_pinned(tensor)
    return tensor
