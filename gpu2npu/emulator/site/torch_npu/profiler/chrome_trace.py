"""The trace: lanes for Python, CANN, each NPU, HCCL, and what of their times overlaps; arrows between them.

Names of lanes, threads, categories and arguments are those of torch_npu's `trace_view.json`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from . import communication
from .intervals import Interval
from .kernels import core, kernel_name
from .recording import Callers, HostEvent, Recording, forward_and_backward
from .timeline import LAUNCH, microseconds, timeline

Event = dict[str, Any]

_STREAM = 2  # the number of an NPU's default stream, as torch_npu shows it
_LANES = ("Python", "CANN", "Ascend Hardware", "HCCL", "Overlap Analysis")
_SYNCHRONIZE = "AscendCL@aclrtSynchronizeStreamWithTimeout"


def trace_events(recording: Recording) -> list[Event]:
    """All events of the trace; lanes of the NPU with most work come last, where tools look for one NPU alone."""
    devices = recording.devices or [0]
    work = [sum(event.device == device for event in recording.operators) for device in devices]
    ordered = [device for _, device in sorted(zip(work, devices, strict=True))]
    events = list(_python_lane(recording))
    for device in ordered:
        events += _device_lanes(recording, device)
    events += _ranges(recording)
    return events


def _lane(kind: str, device: int = 0) -> int:
    """The number of a lane's process; Python's is the process's own."""
    if kind == "Python":
        return os.getpid()
    return (os.getpid() * 10 + _LANES.index(kind)) * 1000 + device


def _lane_names(kind: str, device: int, label: str, threads: Iterable[tuple[int, str]]) -> Iterator[Event]:
    lane, order = _lane(kind, device), _LANES.index(kind)
    for name, arguments in (
        ("process_name", {"name": kind}),
        ("process_labels", {"labels": label}),
        ("process_sort_index", {"sort_index": order}),
    ):
        yield {"name": name, "ph": "M", "pid": lane, "tid": 0, "args": arguments}
    for order_of_thread, (thread, name) in enumerate(threads):
        yield {"name": "thread_name", "ph": "M", "pid": lane, "tid": thread, "args": {"name": name}}
        index = {"sort_index": order_of_thread}
        yield {"name": "thread_sort_index", "ph": "M", "pid": lane, "tid": thread, "args": index}


def _span(name: str, lane: int, thread: int, interval: Interval, **more: Any) -> Event:
    start, end = interval
    times = {"ts": microseconds(start), "dur": (end - start) / 1000}
    return {"name": name, "ph": "X", "pid": lane, "tid": thread, **times, **more}


def _arrow(
    name: str, category: str, number: str, begin: tuple[int, int, int], end: tuple[int, int, int]
) -> list[Event]:
    """An arrow between two places: lane, thread and time of each."""
    shared = {"name": name, "cat": category, "id": number}
    places = [{"pid": lane, "tid": thread, "ts": microseconds(time)} for lane, thread, time in (begin, end)]
    return [{**shared, "ph": "s", **places[0]}, {**shared, "ph": "f", "bp": "e", **places[1]}]


def _python_lane(recording: Recording) -> Iterator[Event]:
    lane = _lane("Python")
    threads = sorted({event.thread for event in recording.host}) or [1]
    yield from _lane_names("Python", 0, "CPU", [(thread, f"Thread {thread}") for thread in threads])
    for number, start, end in recording.steps:
        yield _span(f"ProfilerStep#{number}", lane, threads[0], (start, end), cat="cpu_op", args={})
    for event in recording.host:
        yield _span(event.name, lane, event.thread, (event.start, event.end), cat=event.kind, args=_arguments(event))
    for places in forward_and_backward(recording.host):
        begun, ended = (recording.host[place] for place in places)
        ends = (lane, begun.thread, begun.start), (lane, ended.thread, ended.start)
        yield from _arrow("fwdbwd", "fwdbwd", str(ended.sequence), *ends)


def _arguments(event: HostEvent) -> Event:
    arguments: Event = {"Sequence number": event.sequence, "Fwd thread id": event.forward_thread}
    if event.shapes:
        arguments |= {"Input Dims": ";".join(event.shapes), "Input type": ";".join(event.types)}
    if event.flops:
        arguments["flops"] = event.flops
    if event.stack:
        arguments["Call stack"] = ";\r\n".join(event.stack)
    return arguments


def _device_lanes(recording: Recording, device: int) -> Iterator[Event]:
    cann, hardware = _lane("CANN", device), _lane("Ascend Hardware", device)
    yield from _lane_names("CANN", device, "CPU", [(1, "Thread 1")])
    yield from _lane_names("Ascend Hardware", device, f"NPU {device}", [(_STREAM, f"Stream {_STREAM}")])
    callers = Callers(recording.host)
    for task, event in enumerate(recording.operators):
        if event.device != device:
            continue
        interval, name = (event.start, event.end), kernel_name(event.name)
        arguments = {
            "Model Id": 4294967295,
            "Task Type": core(event.name, event.on_cpu),
            "Stream Id": _STREAM,
            "Task Id": task,
            "Batch Id": 0,
            "Subtask Id": 4294967295,
            "Aten": event.name,
        }
        yield _span(name, hardware, _STREAM, interval, args=arguments)
        place = callers.place(event.start)
        begun = max(event.start - LAUNCH, 0 if place is None else recording.host[place].start)
        yield _span("Node@launch", cann, 1, (begun, event.start), args={})
        yield from _arrows(recording, callers, begun, event.start, device)
    for number, copy in enumerate(recording.copies):
        if copy.device != device:
            continue
        arguments = {"Task Type": "PCIE_DMA_SQE", "Stream Id": _STREAM, "Task Id": number, "size(B)": copy.size}
        arguments["direction"] = "host to device" if copy.to_device else "device to host"
        yield _span("MEMCPY_ASYNC", hardware, _STREAM, (copy.start, copy.end), args=arguments)
        call = "AscendCL@aclrtMemcpyAsync" if copy.to_device else _SYNCHRONIZE  # the host waits for either
        yield _span(call, cann, 1, (copy.start, copy.end), args={})
        yield from _arrows(recording, callers, copy.start, copy.start, device)
    yield from _hccl_lane(recording, device)
    yield from _overlap_lane(recording, device)


def _arrows(recording: Recording, callers: Callers, call: int, start: int, device: int) -> Iterator[Event]:
    """Arrows to work that starts on the device, from the host's call of it and from the operator."""
    number = microseconds(start).replace(".", "")
    target = (_lane("Ascend Hardware", device), _STREAM, start)
    yield from _arrow("HostToDevice", "HostToDevice", f"{device}{number}", (_lane("CANN", device), 1, call), target)
    place = callers.place(start)
    if place is not None:
        caller = recording.host[place]
        source = (_lane("Python"), caller.thread, caller.start)
        yield from _arrow("async_npu", "async_npu", number, source, target)


def _hccl_lane(recording: Recording, device: int) -> Iterator[Event]:
    mine = [
        (event, name)
        for event, name in zip(recording.collectives, communication.kernel_names(recording), strict=True)
        if event.device == device
    ]
    if not mine:
        return
    lane = _lane("HCCL", device)
    groups = list(dict.fromkeys(event.group for event, _ in mine))
    threads = []
    for i, group in enumerate(groups):
        title = f"Group {communication.group_hash(group)} Communication"
        threads += [(2 * i, title), (2 * i + 1, "Plane 0")]
    yield from _lane_names("HCCL", device, f"NPU {device}", threads)
    for event, name in mine:
        thread = 2 * groups.index(event.group)
        size = sum(event.sent)
        arguments = {"connection_id": 0, "model id": 4294967295, "alg_type": "MESH", "count": size, "size(B)": size}
        yield _span(name, lane, thread, (event.start, event.end), args=arguments)
        yield _span("Notify_Wait", lane, thread + 1, (event.start, event.begun), args={"task type": "Notify_Wait"})
        task = {"task type": "SDMA", "transport type": "SDMA", "size(Byte)": size, "link type": "HCCS"}
        yield _span("Memcpy", lane, thread + 1, (event.begun, event.end), args=task)


def _overlap_lane(recording: Recording, device: int) -> Iterator[Event]:
    lane = _lane("Overlap Analysis", device)
    titles = ("Computing", "Communication", "Communication(Not Overlapped)", "Free")
    yield from _lane_names("Overlap Analysis", device, f"NPU {device}", list(enumerate(titles)))
    line = timeline(recording, device)
    for thread, found in enumerate((line.computing, line.communication, line.uncovered, line.free)):
        for interval in found:
            yield _span(titles[thread], lane, thread, interval, args={"analysis_type": titles[thread]})


def _ranges(recording: Recording) -> Iterator[Event]:
    for mark in recording.ranges:
        interval = (mark.start, mark.end)
        yield _span(mark.message, _lane("Python"), 0, interval, cat="mstx", args={"domain": mark.domain})
