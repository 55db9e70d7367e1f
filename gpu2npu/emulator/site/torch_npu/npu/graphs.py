"""torch.npu.graphs: capture operators once and run them again on the same tensors.

As on a real NPU, what is captured has no lasting effect: tensors that existed before and are written during the capture
get their values back at its end, and the generators their states, so that only replays count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from gpu2npu.emulator.device.lifecycle import init
from gpu2npu.emulator.device.randomness import get_rng_state_all, set_rng_state_all
from gpu2npu.emulator.device.streams import Stream, synchronize

from ._unsupported import unsupported

__all__ = [
    "NPUGraph",
    "graph",
    "graph_pool_handle",
    "graph_task_group_begin",
    "graph_task_group_end",
    "graph_task_update_begin",
    "graph_task_update_end",
    "is_current_stream_capturing",
    "make_graphed_callables",
    "super_kernel_scope_begin",
    "super_kernel_scope_end",
]

_capturing: list[_Capture] = []
_pools = iter(range(1, 1 << 62))

_ALLOCATING = frozenset({"aten::empty", "aten::empty_strided", "aten::empty_like", "aten::new_empty"})
_ESCAPING = frozenset({"aten::_local_scalar_dense", "aten::nonzero", "aten::unique_dim", "aten::_unique2"})

_Call = tuple[Any, tuple[Any, ...], dict[str, Any], Any]


class _Capture(TorchDispatchMode):
    """While active, notes every operator with its tensors, and what the written ones were before."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[_Call] = []
        self.made: set[int] = set()
        self.before: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self.random = get_rng_state_all()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name
        if name in _ESCAPING and any(t.device.type == "npu" for t in tree_flatten(args)[0] if _is_tensor(t)):
            raise RuntimeError(f"{name} waits for the NPU, which a graph cannot capture; move it out of the capture")
        self._keep_written(func, args, kwargs)
        result = func(*args, **kwargs)
        self.calls.append((func, args, kwargs, result))
        if not _aliases(func):
            self.made.update(t.untyped_storage()._cdata for t in tree_flatten(result)[0] if _is_tensor(t))
        return result

    def _keep_written(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for argument, value in _given(func, args, kwargs):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            for tensor in tree_flatten(value)[0]:
                storage = tensor.untyped_storage()._cdata if _is_tensor(tensor) else None
                if storage is not None and storage not in self.made and storage not in self.before:
                    with torch._C._DisableTorchDispatch():
                        whole = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(tensor.untyped_storage())
                        self.before[storage] = (whole, whole.clone())

    def undo(self) -> None:
        """Give the tensors that existed before the capture their values back, and the NPUs' generators their states."""
        set_rng_state_all(self.random)
        for whole, values in self.before.values():
            whole.copy_(values)
        self.before.clear()


def _is_tensor(value: object) -> bool:
    return isinstance(value, torch.Tensor)


def _given(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    arguments = func._schema.arguments
    yield from zip(arguments, args, strict=False)
    for argument in arguments:
        if argument.name in kwargs:
            yield argument, kwargs[argument.name]


def _aliases(func: Any) -> bool:
    return any(value.alias_info is not None for value in func._schema.returns)


def is_current_stream_capturing() -> bool:
    """Return whether a graph is being captured."""
    return bool(_capturing)


def graph_pool_handle() -> tuple[int, int]:
    """A new memory pool's name; graphs here share nothing."""
    return (0, next(_pools))


class NPUGraph:
    """A captured sequence of operators."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._capture: _Capture | None = None
        self._pool = graph_pool_handle()

    def capture_begin(self, pool: tuple[int, int] | None = None, capture_error_mode: str = "global") -> None:
        """Begin to note operators.

        Raises:
            RuntimeError: A graph is being captured already, or this one was.
        """
        if _capturing:
            raise RuntimeError("a graph is being captured already; graphs cannot be nested")
        if self._calls:
            raise RuntimeError("this NPUGraph holds a capture already; call reset() first")
        init()
        self._pool = pool or self._pool
        self._capture = _Capture()
        _capturing.append(self._capture)
        self._capture.__enter__()

    def capture_end(self) -> None:
        """End the capture.

        Raises:
            RuntimeError: None was begun.
        """
        if self._capture is None:
            raise RuntimeError("capture_end() without capture_begin()")
        self._capture.__exit__(None, None, None)
        _capturing.remove(self._capture)
        with torch.no_grad():
            self._capture.undo()
        self._calls, self._capture = self._capture.calls, None

    def replay(self) -> None:
        """Run the captured operators again, into the tensors that the capture made."""
        with torch.no_grad():
            for func, args, kwargs, captured in self._calls:
                if func._schema.name in _ALLOCATING or (_aliases(func) and not func._schema.is_mutable):
                    continue
                result = func(*args, **kwargs)
                if func._schema.is_mutable and _aliases(func):
                    continue
                for target, value in zip(tree_flatten(captured)[0], tree_flatten(result)[0], strict=True):
                    if _is_tensor(target) and target is not value:
                        target.copy_(value)

    def reset(self) -> None:
        """Forget the capture and free its tensors."""
        self._calls = []

    def pool(self) -> tuple[int, int]:
        """The memory pool's name."""
        return self._pool

    def debug_dump(self, debug_path: str) -> None:
        """Write the captured operators to a file, one a line."""
        with open(debug_path, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.writelines(f"{func.name()}\n" for func, *_ in self._calls)

    def update(self, cpu_update_input: Any) -> None:
        """Not done: updating the arguments of captured operators."""
        unsupported("torch.npu.NPUGraph.update")()


class graph:  # noqa: N801
    """Context manager that captures into an NPUGraph on a stream of its own."""

    def __init__(
        self,
        npu_graph: NPUGraph,
        pool: tuple[int, int] | None = None,
        stream: Stream | None = None,
        auto_dispatch_capture: bool = False,
        capture_error_mode: str = "global",
        report_shape: bool = True,
    ) -> None:
        self._graph, self._pool, self._mode = npu_graph, pool, capture_error_mode
        self._stream = stream or Stream()

    def __enter__(self) -> None:
        synchronize()
        self._stream.__enter__()
        self._graph.capture_begin(self._pool, self._mode)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._graph.capture_end()
        self._stream.__exit__(kind, error, trace)


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: tuple[int, int] | None = None,
) -> Any:
    """Callables whose forward and backward passes are replays of graphs captured on `sample_args`.

    Raises:
        RuntimeError: A module has hooks, or parameters of it are frozen differently in a tuple of callables.
    """
    if isinstance(callables, tuple):
        pairs = zip(callables, sample_args, strict=True)
        return tuple(_graphed(each, args, num_warmup_iters, allow_unused_input) for each, args in pairs)
    return _graphed(callables, sample_args, num_warmup_iters, allow_unused_input)


def _graphed(function: Any, sample_args: Sequence[Any], warmups: int, allow_unused: bool) -> Any:
    module = function if isinstance(function, torch.nn.Module) else None
    if module is not None and (module._backward_hooks or module._forward_hooks or module._forward_pre_hooks):
        raise RuntimeError("Modules must not have hooks registered at the time they are passed")
    parameters = tuple(module.parameters()) if module is not None else ()
    inputs = tuple(sample_args)
    sources = tuple(t for t in (*inputs, *parameters) if t.requires_grad)

    def differentiated(results: list[Any], flow: Sequence[Any]) -> tuple[Any, ...]:
        wanted = [y for y in results if y.requires_grad]
        return torch.autograd.grad(wanted, sources, flow, retain_graph=True, allow_unused=allow_unused)

    for _ in range(warmups):
        results = tree_flatten(function(*inputs))[0]
        if sources and any(y.requires_grad for y in results):
            differentiated(results, [torch.empty_like(y) for y in results if y.requires_grad])
    forward, backward = NPUGraph(), NPUGraph()
    with graph(forward):
        output = function(*inputs)
    results, shape = tree_flatten(output)
    flow = [torch.empty_like(y) if y.requires_grad else None for y in results]
    grads: tuple[Any, ...] = ()
    if sources and any(y.requires_grad for y in results):
        with graph(backward):
            grads = differentiated(results, [g for g in flow if g is not None])

    class Replay(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
            for static, value in zip(inputs, given, strict=False):
                if static.data_ptr() != value.data_ptr():
                    static.data.copy_(value)
            forward.replay()
            return tuple(y.detach() for y in results)

        @staticmethod
        def backward(ctx: Any, *given: Any) -> Any:
            for static, value in zip(flow, given, strict=True):
                if static is not None:
                    static.copy_(value)
            backward.replay()
            found = iter(grads)
            return tuple(
                (None if grad is None else grad.clone()) if t.requires_grad else None
                for t in (*inputs, *parameters)
                for grad in ((next(found) if t.requires_grad else None),)
            )

    def replayed(*given: Any) -> Any:
        return torch.utils._pytree.tree_unflatten(list(Replay.apply(*given, *parameters)), shape)

    if module is None:
        return replayed
    training, plain = module.training, module.forward

    def run(*given: Any, **named: Any) -> Any:
        return replayed(*given) if module.training == training and not named else plain(*given, **named)

    module.forward = run  # type: ignore[method-assign]
    return module


graph_task_group_begin = unsupported("torch.npu.graph_task_group_begin")
graph_task_group_end = unsupported("torch.npu.graph_task_group_end")
graph_task_update_begin = unsupported("torch.npu.graph_task_update_begin")
graph_task_update_end = unsupported("torch.npu.graph_task_update_end")


def super_kernel_scope_begin(scope_name: str | None = None) -> None:
    """Accepted; operators are never fused into one here."""


def super_kernel_scope_end(scope_name: str | None = None) -> None:
    """Accepted; operators are never fused into one here."""
