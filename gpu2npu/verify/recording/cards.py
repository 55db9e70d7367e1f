"""DataParallel, recorded: a copy of a module on each card, which is what a rank of the migrated program has, and which
module is one of several."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import comm

Tensors = Sequence[torch.Tensor]
Replicated = Callable[[nn.Module, Sequence[nn.Module]], None]


def install(replicated: Replicated, is_dealt: bool) -> None:
    """Let DataParallel run its copies one after the other, and call `replicated` with a module and its copies.

    With `is_dealt`, the samples of a batch are dealt out to the cards in turn, as DistributedSampler deals them out to
    ranks: rank 1 of two has the second, fourth, ... sample. DataParallel itself cuts a batch into consecutive parts.
    """
    data_parallel: Any = sys.modules["torch.nn.parallel.data_parallel"]
    data_parallel.replicate = _watched(data_parallel.replicate, replicated)
    data_parallel.parallel_apply = _in_turn(data_parallel.parallel_apply)
    if is_dealt:
        module: Any = comm
        module.scatter, module.gather = _dealing(module.scatter), _collecting(module.gather)


def is_one_of_several(module: nn.Module) -> bool:
    """Return whether a module is one of several alike: on a rank of several, or a copy on one of several cards."""
    if getattr(module, "_is_replica", False):
        return True
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def card_of(module: nn.Module) -> int | None:
    """The number of the card that holds a module's first parameter; None without one, or on the CPU."""
    held = (*getattr(module, "_former_parameters", {}).values(), *module.parameters())
    for inner in module.modules():
        held = held or tuple(getattr(inner, "_former_parameters", {}).values())
    first = next(iter(held), None)
    return None if not isinstance(first, torch.Tensor) or first.device.type == "cpu" else first.get_device()


def _watched(replicate: Callable[..., Any], replicated: Replicated) -> Callable[..., Any]:
    @functools.wraps(replicate)
    def call(network: nn.Module, *args: Any, **kwargs: Any) -> Any:
        copies = replicate(network, *args, **kwargs)
        replicated(network, copies)
        return copies

    return call


def _in_turn(apply: Callable[..., Any]) -> Callable[..., Any]:
    """The copies in threads would write one record at once, in any order."""

    @functools.wraps(apply)
    def call(modules: Any, inputs: Any, kwargs_tup: Any = None, devices: Any = None) -> list[Any]:
        outputs = []
        for number, module in enumerate(modules):
            device = devices[number] if devices is not None else None
            named = None if kwargs_tup is None else [kwargs_tup[number]]
            with torch.cuda.device(device):
                outputs += apply([module], [inputs[number]], named, None if device is None else [device])
        return outputs

    return call


def _shares(size: int, cards: int) -> list[int]:
    """The samples of each card, when they are dealt out in turn; cards without any are left out."""
    return [len(range(card, size, cards)) for card in range(min(cards, size))]


def _dealt(sizes: Sequence[int]) -> list[int] | None:
    """The samples of a batch in the order in which cards have them; None for sizes that were not dealt out."""
    total = sum(sizes)
    if list(sizes) != _shares(total, len(sizes)):
        return None
    return [sample for card in range(len(sizes)) for sample in range(card, total, len(sizes))]


def _dealing(scatter: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(scatter)
    def call(
        tensor: torch.Tensor,
        devices: Any = None,
        chunk_sizes: Sequence[int] | None = None,
        dim: int = 0,
        streams: Any = None,
        **kwargs: Any,
    ) -> Any:
        sizes = chunk_sizes or _shares(tensor.size(dim), len(devices or ()))
        order = _dealt(sizes) if devices is not None else None
        if order is None:
            return scatter(tensor, devices, chunk_sizes, dim, streams, **kwargs)
        dealt = tensor.index_select(dim, torch.tensor(order, device=tensor.device))
        return scatter(dealt, devices[: len(sizes)], sizes, dim, streams, **kwargs)

    return call


def _collecting(gather: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(gather)
    def call(tensors: Tensors, dim: int = 0, *args: Any, **kwargs: Any) -> Any:
        joined = gather(tensors, dim, *args, **kwargs)
        order = _dealt([tensor.size(dim) for tensor in tensors])
        if order is None or kwargs.get("out") is not None:
            return joined
        places = torch.tensor(sorted(range(len(order)), key=order.__getitem__), device=joined.device)
        return joined.index_select(dim, places)

    return call
