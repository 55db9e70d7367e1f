"""The names of modules and parameters: the class of the outermost module, and the path within it."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator, Sequence

import torch
from torch import nn

from gpu2npu.verify.recording.format import CARD

_WRAPPERS = (nn.DataParallel, nn.parallel.DistributedDataParallel)


def _wrapped(module: nn.Module) -> nn.Module | None:
    """Return the one module to which a module only hands calls on, which keeps the name that it has without it."""
    if isinstance(module, _WRAPPERS):
        return module.module
    if type(module) is nn.Sequential and [name for name, _ in module.named_children()] == ["module"]:
        return module[0]  # a migrated DataParallel on one card, which keeps the names of parameters
    if type(module).__name__ == "OptimizedModule":  # made by torch.compile; its class cannot be had without Dynamo
        inner = getattr(module, "_orig_mod", None)
        return inner if isinstance(inner, nn.Module) else None
    return None


class RecordedNames:
    """The names of one program's modules, learnt when an outermost module is called."""

    def __init__(self) -> None:
        self._modules: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()
        self._parameters: dict[int, tuple[weakref.ref[torch.Tensor], str]] = {}
        self._roots: list[tuple[weakref.ref[nn.Module], str]] = []
        self._used: Counter[str] = Counter()

    def learn(self, module: nn.Module) -> list[tuple[str, torch.Tensor]]:
        """Name an outermost module and all within it, unless they have names; its weights and buffers, if new."""
        while (inner := _wrapped(module)) is not None:
            self._modules.setdefault(module, "")
            module = inner
        if module in self._modules:
            return []
        number = self._used[type(module).__name__]
        self._used[type(module).__name__] += 1
        root = type(module).__name__ + (f"#{number}" if number else "")
        self._roots.append((weakref.ref(module), root))
        for path, inner in module.named_modules():
            self._modules.setdefault(inner, self._joined(root, path))
        new: list[tuple[str, torch.Tensor]] = []
        for path, parameter in module.named_parameters():
            if self.parameter(parameter) is None:
                name = self._joined(root, path)
                self._parameters[id(parameter)] = (weakref.ref(parameter), name)
                new.append((name, parameter))
        if not getattr(module, "_is_replica", False):
            new += [(self._joined(root, path), buffer) for path, buffer in module.named_buffers()]
        return new

    @staticmethod
    def _joined(root: str, path: str) -> str:
        return f"{root}.{path}" if path else root

    def replicated(self, module: nn.Module, replicas: Sequence[nn.Module]) -> None:
        """Name the copies of a module that DataParallel made: its names, with the number of the card at the root."""
        for card, replica in enumerate(replicas):
            for (_, inner), (_, copy) in zip(module.named_modules(), replica.named_modules(), strict=True):
                root, dot, path = self.of(inner).partition(".")
                self._modules[copy] = f"{root}{CARD}{card}{dot}{path}" if root else ""

    def of(self, module: nn.Module) -> str:
        """The name of a module; empty for one that only hands calls on."""
        name = self._modules.get(module)
        if name is None:  # made after its outermost module was first called
            name = "" if _wrapped(module) is not None else type(module).__name__
            self._modules[module] = name
        return name

    def is_part(self, module: nn.Module) -> bool:
        """Return whether a module is within an outermost one that was named."""
        return "." in self._modules.get(module, "")

    def parameter(self, parameter: torch.Tensor) -> str | None:
        """The name of a parameter of a module that was called."""
        found = self._parameters.get(id(parameter))
        return found[1] if found is not None and found[0]() is parameter else None

    def state(self, module: nn.Module, is_called: bool) -> Iterator[tuple[str, torch.Tensor]]:
        """The parameters of an outermost module that was named, and buffers unless a call in training changes them."""
        inner = module
        while (within := _wrapped(inner)) is not None:
            inner = within
        root = self._modules.get(inner, "")
        for path, tensor in (
            *inner.named_parameters(),
            *(() if is_called and module.training else inner.named_buffers()),
        ):
            yield self._joined(root, path), tensor

    def buffers(self) -> Iterator[tuple[str, torch.Tensor]]:
        """All buffers of the outermost modules."""
        for reference, root in self._roots:
            module = reference()
            if module is not None:
                for path, buffer in module.named_buffers():
                    yield f"{root}.{path}", buffer
