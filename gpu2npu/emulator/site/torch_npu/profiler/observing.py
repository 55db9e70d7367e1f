"""Fills a recording: operators and copies by a dispatch mode, collectives where hccl starts them, memory where blocks
are made and freed, and the host's events by PyTorch's own profiler.

Call stacks are taken where an operator reaches the NPU, not by PyTorch's profiler: that would record every Python
function within the emulator's kernels too.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gpu2npu.emulator.device.dispatch import signature, tally
from gpu2npu.emulator.device.memory import memory

from . import recording
from .recording import BlockEvent, Callers, CollectiveEvent, CopyEvent, HostEvent, OperatorEvent, Recording

# By the modules that define them: transfer_to_npu puts torch_npu's profiler in the place of torch.profiler.profile.
_HostProfile = torch.profiler.profiler.profile
_HostActivity = torch._C._profiler.ProfilerActivity
_NOT_KERNELS = ("c10d", "_c10d_functional", "profiler", "prim")
_COPIES = ("aten::_to_copy", "aten::copy_", "aten::_copy_from", "aten::_local_scalar_dense")
_DTYPES = {torch.float32: "FLOAT", torch.float16: "FLOAT16", torch.bfloat16: "DT_BF16", torch.float64: "DOUBLE"}
# Files between the script and the dispatch mode, which no call stack shows.
_MACHINERY = (str(Path(__file__).parents[3]), str(Path(torch.__file__).parent))
_MODE = "PythonDispatchMode"  # how PyTorch's profiler calls the time spent in ours
_USER = 7  # torch._C._profiler.RecordScope.USER_SCOPE
_BACKWARD = 1  # RecordScope.BACKWARD_FUNCTION


class Observer:
    """Records between `start` and `stop`.

    Args:
        into: What is noted.
        step: Gives the number of the current step, None outside of steps.
        shapes: Note shapes and dtypes.
        blocks: Note device memory.
        stacks: Note the call stacks of operators.
        flops: Note floating-point operations.
        host: Note the host's events.
    """

    def __init__(
        self,
        into: Recording,
        step: Callable[[], int | None],
        *,
        shapes: bool,
        blocks: bool,
        stacks: bool,
        flops: bool,
        host: bool,
    ) -> None:
        self._into, self._step = into, step
        self._operators = _Operators(into, step, shapes, stacks)
        self._blocks = _Blocks(into, step) if blocks else None
        self._restore: list[Callable[[], None]] = []
        self._host = (
            _HostProfile(
                activities=[_HostActivity.CPU],
                record_shapes=shapes,
                with_flops=flops,
            )
            if host and not torch._C._autograd._profiler_enabled()
            else None
        )

    def start(self) -> None:
        """Begin to record."""
        recording.activate(self._into)
        self._restore = _watch_collectives(self._into, self._step)
        if self._blocks is not None:
            memory.listen(self._blocks)
        if self._host is not None:
            self._host.__enter__()
        self._operators.__enter__()

    def stop(self) -> None:
        """Stop recording."""
        self._operators.__exit__(None, None, None)
        if self._host is not None:
            self._host.__exit__(None, None, None)
            self._into.host += _host_events(self._host, self._operators.calls, self._operators.stacks)
        if self._blocks is not None:
            memory.stop_listening(self._blocks)
        for restore in self._restore:
            restore()
        now = time.time_ns()
        for event in self._into.collectives:
            event.begun = event.begun or now
            event.end = max(event.end or now, event.begun)
        recording.deactivate(self._into)


class _Operators(TorchDispatchMode):
    """Notes each operator that takes or makes an NPU tensor, and each copy to or from one."""

    def __init__(self, into: Recording, step: Callable[[], int | None], shapes: bool, stacks: bool) -> None:
        super().__init__()
        self._into, self._step, self._shapes = into, step, shapes
        self._wants_stacks = stacks
        self.calls: list[tuple[int, int]] = []
        self.stacks: list[tuple[int, tuple[str, ...]]] = []  # when each began, and its call stack

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        kind = _kind(func)
        before = sum(entry[1] for entry in kind.tallies) if kind else 0.0
        start = time.time_ns()
        result = func(*args, **kwargs)
        end = time.time_ns()
        self.calls.append((start, end))
        if kind is None:
            return result
        inputs = _tensors((*args, *kwargs.values()))
        outputs = _tensors((result,))
        index = next((t.device.index for t in (*outputs, *inputs) if t.device.type == "npu"), None)
        if index is None:
            return result
        name = kind.name
        if self._wants_stacks:
            self.stacks.append((start, _call_stack()))
        copied = _copied(name, inputs, outputs)
        if copied is not None:
            self._into.copies.append(CopyEvent(start, end, index, self._step(), *copied))
            return result
        computed = round(1e9 * (sum(entry[1] for entry in kind.tallies) - before))
        start = max(end - computed, start) if computed else start  # what is before it is PyTorch's dispatcher
        shapes = self._shapes
        self._into.operators.append(
            OperatorEvent(
                name,
                start,
                end,
                index,
                self._step(),
                _shapes_of(inputs) if shapes else (),
                _types_of(inputs) if shapes else (),
                _shapes_of(outputs) if shapes else (),
                _types_of(outputs) if shapes else (),
                kind.on_cpu,
            )
        )
        return result


@dataclasses.dataclass(frozen=True)
class _Kind:
    """An operator that is a kernel: its name, whether the CPU computes it, and the counts of its time."""

    name: str
    on_cpu: bool
    tallies: tuple[tally.Tally, ...]


@functools.cache
def _kind(func: Any) -> _Kind | None:
    """Return what is recorded about an operator; None for views and messages, which are not kernels."""
    if func.namespace in _NOT_KERNELS:
        return None
    if not func._schema.is_mutable and any(value.alias_info is not None for value in func._schema.returns):
        return None
    read = signature.read(func)
    tallies = tuple(tally.tally(read.functional, kind) for kind in tally.ComputedBy)
    return _Kind(func.name(), func.namespace == "aten" and read.fallback is not None, tallies)


def _tensors(values: Iterable[Any]) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += [item for item in value if isinstance(item, torch.Tensor)]
    return found


def _copied(name: str, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> tuple[int, bool] | None:
    """The bytes of a copy between host and device and whether it goes to the device; None for what is none."""
    if not name.startswith(_COPIES) or not inputs:
        return None
    if name == "aten::_local_scalar_dense":
        return inputs[0].element_size(), False
    if name.startswith("aten::copy_"):
        target, source = inputs[0], inputs[1]
    else:
        source, target = inputs[0], (outputs or inputs[1:])[0]
    if source.device.type == target.device.type:
        return None
    return source.numel() * source.element_size(), target.device.type == "npu"


def _shapes_of(tensors: Iterable[torch.Tensor]) -> tuple[str, ...]:
    return tuple(",".join(map(str, t.shape)) for t in tensors)


def _types_of(tensors: Iterable[torch.Tensor]) -> tuple[str, ...]:
    return tuple(_DTYPES.get(t.dtype) or str(t.dtype).removeprefix("torch.").upper() for t in tensors)


class _Blocks:
    """Notes the life of each block of device memory (a `memory.Listener`)."""

    def __init__(self, into: Recording, step: Callable[[], int | None]) -> None:
        self._into, self._step = into, step
        self._live: dict[int, BlockEvent] = {}

    def allocated(self, address: int, size: int, index: int, total: int, reserved: int) -> None:
        """A block was made."""
        event = BlockEvent(size, index, self._step(), time.time_ns(), 0, total, reserved)
        self._live[address] = event
        self._into.blocks.append(event)

    def freed(self, address: int, size: int, index: int, total: int, reserved: int) -> None:
        """A block was freed, perhaps one from before the profile."""
        event = self._live.pop(address, None)
        if event is None:
            event = BlockEvent(size, index, self._step())
            self._into.blocks.append(event)
        event.freed, event.total_after, event.reserved_after = time.time_ns(), total, reserved

    def refused(self, size: int, index: int) -> None:
        """There was no room, which a profile does not hold."""


def _watch_collectives(into: Recording, step: Callable[[], int | None]) -> list[Callable[[], None]]:
    """Let hccl's groups note their collectives; returns what ends that."""
    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return []
    from gpu2npu.emulator.distributed.hccl import ProcessGroupHCCL

    run, send, receive = ProcessGroupHCCL._run, ProcessGroupHCCL.send, ProcessGroupHCCL.recv

    def noted(group: Any, name: str, sent: tuple[int, ...]) -> CollectiveEvent:
        ranks = tuple(group._peers.global_ranks)
        device = torch.npu.current_device()  # type: ignore[attr-defined]
        communicator = group.get_hccl_comm_name(0)
        event = CollectiveEvent(name, communicator, group.rank(), ranks, sent, device, step(), time.time_ns())
        into.collectives.append(event)
        return event

    def collective(self: Any, call: Any, start: Callable[[], Any], *args: Any, **kwargs: Any) -> Any:
        counts = np.frombuffer(call.header.numpy().tobytes()[-16 * self.size() :], np.int64)
        event = noted(self, call.collective, tuple(counts[: self.size()].tolist()))

        def begin() -> Any:
            event.begun = time.time_ns()
            return start()

        return _until_done(run(self, call, begin, *args, **kwargs), event)

    def message(original: Callable[..., Any], name: str) -> Callable[..., Any]:
        def exchange(self: Any, tensors: Any, peer: int, tag: int) -> Any:
            size = sum(tensor.nbytes for tensor in tensors)
            event = noted(self, name, tuple(size if rank == peer else 0 for rank in range(self.size())))
            event.begun = event.start
            return _until_done(original(self, tensors, peer, tag), event)

        return exchange

    ProcessGroupHCCL._run = collective  # type: ignore[method-assign]
    ProcessGroupHCCL.send = message(send, "send")  # type: ignore[method-assign]
    ProcessGroupHCCL.recv = message(receive, "receive")  # type: ignore[method-assign]
    return [
        lambda: setattr(ProcessGroupHCCL, "_run", run),
        lambda: setattr(ProcessGroupHCCL, "send", send),
        lambda: setattr(ProcessGroupHCCL, "recv", receive),
    ]


def _until_done(work: Any, event: CollectiveEvent) -> Any:
    """The work itself, which notes when it is first seen to be over."""
    if work is None:
        return None
    wait, future = work.wait, work.get_future

    def done(*_: Any) -> None:
        event.end = event.end or time.time_ns()

    def timed(*args: Any, **kwargs: Any) -> Any:
        try:
            return wait(*args, **kwargs)
        finally:
            done()

    def followed() -> Any:
        result = future()
        result.add_done_callback(done)
        return result

    work.wait, work.get_future = timed, followed
    return work


def _call_stack() -> tuple[str, ...]:
    """The script's functions that led to an operator, the innermost first, as `file(line): function`."""
    found, frame = [], sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_MACHINERY):
            found.append(f"{code.co_filename}({frame.f_lineno}): {code.co_name}")
        frame = frame.f_back  # type: ignore[assignment]
    return tuple(found)


def _host_events(
    profiled: Any, calls: list[tuple[int, int]], stacks: list[tuple[int, tuple[str, ...]]]
) -> list[HostEvent]:
    """PyTorch's events outside of the dispatch mode's calls, within which it sees the same operator again, and the
    emulator's work, which is the NPU's and not the host's.
    """
    calls = sorted(calls)
    starts = [start for start, _ in calls]

    def is_within(start: int, end: int) -> bool:
        place = bisect.bisect_right(starts, start) - 1
        return place >= 0 and end <= calls[place][1]

    events = []
    for each in profiled.profiler.kineto_results.events():
        start, end = each.start_ns(), each.start_ns() + each.duration_ns()
        if each.scope() in (0, _BACKWARD, _USER) and each.name() != _MODE and not is_within(start, end):
            events.append(_host_event(each))
    events = _without_repetition(sorted(events, key=lambda event: (event.start, -event.end)))
    callers = Callers(events)
    for start, stack in stacks:
        place = callers.place(start)
        if place is not None:
            events[place] = dataclasses.replace(events[place], stack=stack)
    return events


def _without_repetition(events: list[HostEvent]) -> list[HostEvent]:
    """Without operators within one of the same name: torch_npu's own are called again below their gradients."""
    kept: list[HostEvent] = []
    running: dict[int, list[HostEvent]] = {}
    for event in events:
        stack = running.setdefault(event.thread, [])
        while stack and stack[-1].end <= event.start:
            stack.pop()
        if event.kind == "cpu_op" and any(outer.name == event.name for outer in stack):
            continue
        stack.append(event)
        kept.append(event)
    return kept


def _host_event(each: Any) -> HostEvent:
    return HostEvent(
        each.name(),
        "user_annotation" if each.scope() == _USER else "cpu_op",
        each.start_ns(),
        each.start_ns() + each.duration_ns(),
        each.start_thread_id(),
        tuple(",".join(map(str, shape)) for shape in each.shapes()),
        tuple(map(str, each.dtypes())),
        each.sequence_nr(),
        each.fwd_thread_id(),
        each.flops(),
    )
