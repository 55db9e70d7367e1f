"""The operators that a call reaches, seen by a dispatch mode on the emulated NPU.

In inference mode nothing is decomposed for autograd's sake, so the mode sees composite operators too, and runs each as
a device without a kernel for it does: by PyTorch's own composition, whose parts it sees in turn. The result is a tree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tools.api_map.releases import EXPLICIT, IMPLICIT

MAX_DEPTH = 12


@dataclass(frozen=True)
class Node:
    """An operator that was reached, and the operators that its composition reached; each once, in order of name."""

    operator: str
    parts: tuple[Node, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.operator}({','.join(part.key for part in self.parts)})"


@dataclass
class _Open:
    """A node while its parts are found."""

    found: list[Node] = field(default_factory=list)


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the operators that calls reach; `kinds` are releases.operator_kinds of the torch that runs."""

    def __init__(self, kinds: Mapping[str, str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._kinds = kinds
        self._open = [_Open()]

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name, given = str(func.name()), kwargs or {}  # type: ignore[no-untyped-call]
        run = self._composition(func) if len(self._open) <= MAX_DEPTH else None
        if not _concerns_npu(args, given):
            return func(*args, **given)
        if run is None:
            self._open[-1].found.append(Node(name))
            return func(*args, **given)
        self._open.append(_Open())
        try:
            with self:
                return run(*args, **given)
        except Exception:  # a composition may end in an operator that only a device's own kernel stands for
            return func(*args, **given)
        finally:
            parts = distinct(self._open.pop().found)
            self._open[-1].found.append(Node(name, parts))

    def _composition(self, func: OpOverload) -> Callable[..., Any] | None:
        """PyTorch's composition of an operator, if it has one that is not only the step to its out= overload."""
        name = str(func.name())  # type: ignore[no-untyped-call]
        kind = self._kinds.get(name)
        has = torch._C._dispatch_has_kernel_for_dispatch_key
        keys = torch._C.DispatchKey
        if kind == IMPLICIT and has(name, "CompositeImplicitAutograd"):
            return lambda *args, **kwargs: func._op_dk(keys.CompositeImplicitAutograd, *args, **kwargs)
        if kind == EXPLICIT:
            for key in ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional"):
                if has(name, key):
                    return lambda *args, **kwargs: func._op_dk(getattr(keys, key), *args, **kwargs)
        return None

    def reached(self) -> tuple[Node, ...]:
        """Return what was reached since the start."""
        return distinct(self._open[0].found)


def _concerns_npu(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a call is about a tensor on the NPU: optimizers count their steps on the CPU."""
    device = kwargs.get("device")
    if device is not None and torch.device(device).type == "npu":
        return True
    return any(isinstance(leaf, torch.Tensor) and leaf.device.type == "npu" for leaf in tree_leaves((args, kwargs)))


def distinct(nodes: list[Node]) -> tuple[Node, ...]:
    """Each node once, in order of its key."""
    return tuple(node for _, node in sorted({node.key: node for node in nodes}.items()))


def trace(call: Callable[[], Any], kinds: Mapping[str, str]) -> tuple[Node, ...]:
    """Return what a call reaches in inference mode. Raises whatever it raises."""
    recorder = Recorder(kinds)
    with torch.inference_mode(), recorder:
        call()
    return recorder.reached()


def trace_as_is(call: Callable[[], Any], kinds: Mapping[str, str]) -> tuple[Node, ...]:
    """Return what a call reaches in its own mode: gradients and optimizers need tensors that autograd knows."""
    recorder = Recorder(kinds)
    with recorder:
        call()
    return recorder.reached()
