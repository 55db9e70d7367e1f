"""Weights that no optimizer trains, such as those of averaged copies and teachers, and which of them changed."""

from __future__ import annotations

import functools
import gc
import sys
import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import nn

_CONTAINERS = (dict, OrderedDict, list)
_REFERENCES = 3  # to a container that nobody else has: `Averages`, its local name and the argument of getrefcount
_PROBED = 8  # elements of a tensor that are looked at: `.data` lets them change without a new version of the tensor


class Untrained:
    """Knows the parameters of optimizers that have made a step, and a few elements of all other tensors."""

    def __init__(self, on_host: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self._on_host = on_host
        self._trained: dict[int, weakref.ref[torch.Tensor]] = {}
        self._seen: dict[str, tuple[float, ...]] = {}

    def trained_by(self, parameters: Iterable[torch.Tensor]) -> None:
        """Learn that an optimizer has these."""
        self._trained.update((id(each), weakref.ref(each)) for each in parameters)

    def holds(self, module: nn.Module) -> bool:
        """Return whether a module that is being called is one of these: it computes no gradients of its parameters."""
        if getattr(module, "_is_replica", False):
            return False
        differentiated = torch.is_grad_enabled() and any(each.requires_grad for each in module.parameters())
        return not differentiated and not self.trains(module)

    def trains(self, module: nn.Module) -> bool:
        """Return whether an optimizer that has made a step has one of a module's parameters."""
        found = ((each, self._trained.get(id(each))) for each in module.parameters())
        return any(known is not None and known() is each for each, known in found)

    def has_changed(self, name: str, tensor: torch.Tensor) -> bool:
        """Return whether elements of a tensor are others than at the last call; False at the first call."""
        few = self._on_host(_few(tensor))
        values = tuple(few.tolist()) if not few.is_complex() else tuple(torch.view_as_real(few).reshape(-1).tolist())
        before = self._seen.get(name)
        self._seen[name] = values
        return before is not None and before != values


class Copies:
    """The outermost modules that were copied: averages that follow each step, and may be called only at the end."""

    def __init__(self) -> None:
        self._found: list[weakref.ref[nn.Module]] = []

    def watch(self) -> None:
        """See what `copy.deepcopy` makes: of each module, after those within it, by its `__setstate__`."""
        module: Any = nn.Module
        restore = module.__setstate__

        @functools.wraps(restore)
        def restored(copy: nn.Module, state: Any) -> None:
            restore(copy, state)
            within = set(map(id, copy.modules()))
            self._found = [each for each in self._found if id(each()) not in within] + [weakref.ref(copy)]

        module.__setstate__ = restored

    def choose(self, is_wanted: Callable[[nn.Module], bool]) -> Iterator[nn.Module]:
        """The copies that live and are wanted; the others are forgotten."""
        alive = [(each, module) for each in self._found if (module := each()) is not None and is_wanted(module)]
        self._found = [each for each, _ in alive]
        return (module for _, module in alive)


def _is_plain(value: object) -> bool:
    return type(value) in (torch.Tensor, nn.Parameter) and value.layout is torch.strided  # type: ignore[attr-defined]


def _few(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.detach().reshape(-1)
    return flat[:: max(1, flat.numel() // _PROBED)]


class Averages:
    """Dictionaries and lists that hold a copy of each weight, as a program's own class keeps the averages of them."""

    def __init__(self, on_host: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self._on_host = on_host
        self._found: list[Any] = []

    def search(self, weights: Sequence[torch.Tensor]) -> None:
        """Find those that hold, of each of these weights, a tensor of its shape, and of the largest its values."""
        if len(weights) < 2 or not all(map(_is_plain, weights)):
            return
        shapes = Counter(each.shape for each in weights)
        largest = max(weights, key=torch.Tensor.numel)
        values = self._on_host(_few(largest)).float()
        for each in gc.get_objects():
            if type(each) not in _CONTAINERS or not len(weights) <= len(each) <= 4 * len(weights):
                continue
            held = list(each.values() if isinstance(each, dict) else each)
            if not all(_is_plain(one) and not one.requires_grad for one in held):
                continue
            like = [one for one in held if one.shape == largest.shape]
            is_itself = any(one.data_ptr() == largest.data_ptr() for one in like)
            if is_itself or not shapes <= Counter(one.shape for one in held) or any(each is one for one in self._found):
                continue
            if any(torch.equal(self._on_host(_few(one)).float(), values) for one in like):
                self._found.append(each)

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """The tensors that they hold now, by names; what the program has dropped is forgotten."""
        for number in range(len(self._found)):
            each = self._found[number]
            if each is not None and sys.getrefcount(each) <= _REFERENCES:
                self._found[number] = None
                continue
            held = each.items() if isinstance(each, dict) else enumerate(each or ())
            for key, tensor in held:
                if isinstance(tensor, torch.Tensor):
                    yield f"copy {number + 1} of {str(key).removeprefix('module.')}", tensor
