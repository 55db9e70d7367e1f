"""The checkpoints that a program writes: the tensors that it gives to torch.save, by the keys that lead to them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import nn


def watch(report: Callable[[Any], None]) -> None:
    """Call `report` with what a program saves, before it is written."""
    library: Any = torch
    original = library.save

    @functools.wraps(original)
    def save(obj: Any, *args: Any, **kwargs: Any) -> None:
        report(obj)
        original(obj, *args, **kwargs)

    library.save = library.serialization.save = save


def tensors_of(saved: Any, path: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors in a checkpoint, each with its keys joined by dots; without bytes, which are states of generators."""
    if isinstance(saved, torch.Tensor):
        if saved.layout is torch.strided and not saved.is_nested and saved.dtype is not torch.uint8:
            yield path or "tensor", saved
        return
    if isinstance(saved, nn.Module):
        saved = saved.state_dict()
    if isinstance(saved, Mapping):
        items: Iterable[tuple[Any, Any]] = saved.items()
    elif isinstance(saved, (list, tuple)):
        items = enumerate(saved)
    else:
        return
    for key, value in items:
        yield from tensors_of(value, f"{path}.{key}" if path else str(key))
