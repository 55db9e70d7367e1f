"""`torch.compile` for NPUs: PyTorch traces the program as on any device, and each graph runs operator by operator.

torch_npu's back ends compile graphs for the chip. Here PyTorch's `aot_eager` runs them, so that a program that compiles
can be run as it is: its graph breaks and recompilations are those of any back end, its speed is not.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._higher_order_ops.flex_attention import flex_attention as attend
from torch._higher_order_ops.flex_attention import flex_attention_backward
from torch.nn.attention import flex_attention

from gpu2npu.emulator.device.dispatch import support_table

# The first torch_npu wheels with `_inductor`, `utils/_graph_tree.py`, `dynamo/npugraph_ex` and
# `utils/patch_flexattention.py`.
FIRST_RELEASE = {"inductor": (2, 6), "npugraphs": (2, 6), "npugraph_ex": (2, 7), "flex_attention": (2, 13)}
_AUTOCAST = torch._C.DispatchKey.__members__["AutocastPrivateUse1"]


def install() -> None:
    """Give the default back end of `torch.compile` what it needs for graphs on an NPU."""
    compiler = torch._TorchCompileInductorWrapper
    compiler.__call__ = _following_npus(compiler.__call__)  # type: ignore[method-assign]
    if _has("flex_attention"):
        flex_attention._validate_device = _check_devices  # type: ignore[assignment]
        attend.py_impl(_AUTOCAST)(_attend)
        flex_attention_backward.py_impl(_AUTOCAST)(functools.partial(_without_autocast, flex_attention_backward))


def _attend(*args: Any, **kwargs: Any) -> Any:
    """flex_attention under autocast: query, key and value, the first arguments, are cast."""
    dtype = torch.get_autocast_dtype("npu")
    return _without_autocast(attend, *(each.to(dtype) for each in args[:3]), *args[3:], **kwargs)


def _without_autocast(operator: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(_AUTOCAST)):
        return operator(*args, **kwargs)


def run_graph(backend: str, graph: torch.fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """Make a graph of `torch.compile` callable, for the back end of that name.

    Counted in `torch._dynamo.utils.counters["npu"]`; the first graph of each back end warns how it is run.

    Raises:
        NotImplementedError: The imitated release of torch_npu has no such back end.
    """
    from torch._dynamo.backends.debugging import aot_eager
    from torch._dynamo.utils import counters

    _require(backend)
    counters["npu"][backend] += 1
    _warn_once(backend)
    return aot_eager(graph, list(inputs))  # type: ignore[no-any-return]


def _has(name: str) -> bool:
    release = support_table.release()
    if release is None or name not in FIRST_RELEASE:
        return True
    major, minor = release.split(".")[:2]
    return (int(major), int(minor)) >= FIRST_RELEASE[name]


def _require(backend: str) -> None:
    if not _has(backend):
        first = ".".join(map(str, FIRST_RELEASE[backend]))
        raise NotImplementedError(
            f"torch.compile: torch_npu {support_table.release()} has no backend {backend!r} for NPUs, torch_npu "
            f'{first} has it; run with TORCH_COMPILE_DISABLE=1, or give backend="eager"'
        )


def _check_devices(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
    """Check the devices of attention: torch_npu accepts NPUs and asks only that they be the same."""
    if query.device.type == "npu" and not query.device == key.device == value.device:
        raise ValueError(
            "Expected query, key, and value to have the same device, but got query.device: "
            f"{query.device}, key.device: {key.device}, and value.device: {value.device} instead."
        )


@functools.cache
def _warn_once(backend: str) -> None:
    warnings.warn(
        f"torch.compile: the emulated NPU runs the graphs of backend {backend!r} operator by operator (aot_eager)",
        stacklevel=2,
    )


def _following_npus(compile_graph: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(compile_graph)
    def call(self: Any, graph: Any, inputs: Any) -> Any:
        return run_graph("inductor", graph, inputs) if _on_npu(graph, inputs) else compile_graph(self, graph, inputs)

    return call


def _on_npu(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> bool:
    """Return whether a graph takes or makes a tensor on an NPU."""
    values = [*inputs, *(node.meta.get("example_value") for node in graph.graph.nodes)]
    return any(isinstance(each, torch.Tensor) and each.device.type == "npu" for each in values)
