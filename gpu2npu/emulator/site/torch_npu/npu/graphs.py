"""torch.npu.graphs: capture operators once and run them again on the same tensors.

As on a real NPU, what is captured has no lasting effect: tensors that existed before and are written during the capture
get their values back at its end, and the generators their states, so that only replays count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from gpu2npu.emulator.device import randomness
from gpu2npu.emulator.device.lifecycle import init
from gpu2npu.emulator.device.randomness import NpuGenerator
from gpu2npu.emulator.device.streams import Stream, synchronize

from .graph_capture import Capture, TaskGroup, flat, replay
from .graph_updates import Record, change, check_options

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

_capturing: list[Capture] = []
_updates: list[tuple[Capture, TaskGroup]] = []
_pools = iter(range(1, 1 << 62))


def is_current_stream_capturing() -> bool:
    """Return whether a graph is being captured."""
    return bool(_capturing)


def graph_pool_handle() -> tuple[int, int]:
    """A new memory pool's name; graphs here share nothing."""
    return (0, next(_pools))


class NPUGraph:
    """A captured sequence of operators."""

    def __init__(self) -> None:
        self._whole = TaskGroup()
        self._capture: Capture | None = None
        self._pool = graph_pool_handle()
        self._generators: list[NpuGenerator] = []
        self._drawing: list[NpuGenerator] = []
        self._records: list[Record] = []
        self.auto_dispatch_capture = False

    def register_generator_state(self, generator: NpuGenerator) -> None:
        """Let replays draw from a generator that is not the device's own, and the capture leave it as it was."""
        self._generators.append(generator)

    def capture_begin(self, pool: tuple[int, int] | None = None, capture_error_mode: str = "global") -> None:
        """Begin to note operators.

        Raises:
            RuntimeError: A graph is being captured already, or this one was.
        """
        if _capturing:
            raise RuntimeError("a graph is being captured already; graphs cannot be nested")
        if self._whole.calls:
            raise RuntimeError("this NPUGraph holds a capture already; call reset() first")
        init()
        self._pool = pool or self._pool
        self._records = []
        self._capture = Capture(self._records if self.auto_dispatch_capture else None, self._generators)
        _capturing.append(self._capture)
        randomness.on_state_set = self._capture.note_state
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
        randomness.on_state_set = None
        with torch.no_grad():
            self._capture.undo()
        self._drawing = [generator for generator, _ in self._capture.random]
        self._whole, self._capture = self._capture.whole, None

    def replay(self) -> None:
        """Run the captured operators again, into the tensors that the capture made."""
        with torch.no_grad():
            replay(self._whole, {id(each): each.get_offset() for each in self._drawing})

    def reset(self) -> None:
        """Forget the capture and free its tensors."""
        self._whole = TaskGroup()

    def pool(self) -> tuple[int, int]:
        """The memory pool's name."""
        return self._pool

    def debug_dump(self, debug_path: str) -> None:
        """Write the captured operators to a file, one a line."""
        with open(debug_path, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.writelines(f"{func.name()}\n" for func, *_ in flat(self._whole))

    def update(self, cpu_update_input: Sequence[Mapping[str, Any]]) -> None:
        """Change the arguments of captured operators, as lengths of sequences.

        Raises:
            RuntimeError: The capture did not note them, or there are more or fewer.
        """
        if not self.auto_dispatch_capture:
            raise RuntimeError(
                "The current graph configuration does not support update,"
                "Try to capture by setting auto_dispatch_capture=True during capture"
            )
        change(self._records, cpu_update_input)

    def super_kernel_optimize(self, optimize_options: Any = None, debug_options: Any = None) -> None:
        """Accepted where torch_npu takes the options; operators are never fused into one here."""
        check_options("optimize_options", optimize_options)
        check_options("debug_options", debug_options)


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
        npu_graph.auto_dispatch_capture = auto_dispatch_capture
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


def graph_task_group_begin(stream: Stream) -> None:
    """Let an update replace the operators that follow in a capture. Raises RuntimeError outside of one."""
    capture = _of_capture("graph_task_group_begin")
    capture.group = TaskGroup()
    capture.whole.calls.append(capture.group)


def graph_task_group_end(stream: Stream) -> TaskGroup:
    """The operators since `graph_task_group_begin`, by which an update names them. Raises RuntimeError."""
    capture = _of_capture("graph_task_group_end")
    group, capture.group = capture.group, capture.whole
    return group


def _of_capture(name: str) -> Capture:
    if not _capturing:
        raise RuntimeError(f"{name} is for a graph that is being captured")
    return _capturing[-1]


def graph_task_update_begin(stream: Stream, handle: TaskGroup) -> None:
    """Let the operators that follow replace those of a group, from the next replay on."""
    update = Capture()
    _updates.append((update, handle))
    update.__enter__()


def graph_task_update_end(stream: Stream) -> None:
    """End the update; what its operators wrote is as it was. Raises RuntimeError where none was begun."""
    if not _updates:
        raise RuntimeError("graph_task_update_end() without graph_task_update_begin()")
    update, handle = _updates.pop()
    update.__exit__(None, None, None)
    with torch.no_grad():
        update.undo()
    handle.calls = update.whole.calls


def super_kernel_scope_begin(scope_name: str | None = None) -> None:
    """Accepted; operators are never fused into one here. Raises RuntimeError for an empty name."""
    if scope_name is not None and not scope_name.strip():
        raise RuntimeError("scope_name should be None or a non-empty string.")


super_kernel_scope_end = super_kernel_scope_begin
