"""Writes a recording in torch_npu's file layout: CSV files, a chrome trace, and a description of the profile.

Names of files and columns are those of torch_npu 2.13.0 (`torch_npu/profiler/analysis`). Times are microseconds, those
of the emulation. What only hardware knows is left out.
"""

from __future__ import annotations

import csv
import json
import os
import socket
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from .recording import OperatorEvent, Recording

OUTPUT = "ASCEND_PROFILER_OUTPUT"
NOT_KNOWN = "N/A"

KERNEL_HEADERS = ["Device_id", "Name", "Type", "Accelerator Core", "Start Time(us)", "Duration(us)", "Wait Time(us)"]
SHAPE_HEADERS = [
    "Input Shapes",
    "Input Data Types",
    "Input Formats",
    "Output Shapes",
    "Output Data Types",
    "Output Formats",
]
OPERATOR_HEADERS = [
    "Name",
    "Input Shapes",
    "Call Stack",
    "Host Self Duration(us)",
    "Host Total Duration(us)",
    "Device Self Duration(us)",
    "Device Total Duration(us)",
    "Device Self Duration With AICore(us)",
    "Device Total Duration With AICore(us)",
]
STATISTIC_HEADERS = [
    "Device_id",
    "OP Type",
    "Core Type",
    "Count",
    "Total Time(us)",
    "Min Time(us)",
    "Avg Time(us)",
    "Max Time(us)",
    "Ratio(%)",
]
STEP_HEADERS = [
    "Device_id",
    "Step",
    "Computing",
    "Communication(Not Overlapped)",
    "Overlapped",
    "Communication",
    "Free",
    "Stage",
    "Bubble",
    "Communication(Not Overlapped and Exclude Receive)",
    "Preparing",
]
MEMORY_HEADERS = ["Component", "Timestamp(us)", "Total Allocated(MB)", "Total Reserved(MB)", "Device Type"]

_CUBE = ("mm", "matmul", "bmm", "linear", "convolution", "attention")
_MICRO = 1000  # nanoseconds


def new_folder(folder: str | None, worker: str | None) -> Path:
    """Make `<worker>_<process>_<time>_ascend_pt` in a folder, the current one unless given."""
    name = f"{worker or socket.gethostname()}_{os.getpid()}"
    time = datetime.now().astimezone().strftime("%Y%m%d%H%M%S%f")[:-3]
    path = Path(folder or os.environ.get("ASCEND_WORK_PATH", ".")) / f"{name}_{time}_ascend_pt"
    path.mkdir(parents=True)
    return path


def write_all(path: Path, recording: Recording, info: dict[str, Any], shapes: bool, memory: bool) -> None:
    """Write every file of one profile below its folder."""
    output = path / OUTPUT
    output.mkdir(exist_ok=True)
    (path / "profiler_info.json").write_text(json.dumps(info, indent=4), encoding="utf-8")
    (path / "profiler_metadata.json").write_text(json.dumps(info["metadata"], indent=4), encoding="utf-8")
    (output / "trace_view.json").write_text(json.dumps(chrome_trace(recording)), encoding="utf-8")
    _write(
        output / "kernel_details.csv",
        (*KERNEL_HEADERS, *(SHAPE_HEADERS if shapes else ())),
        _kernels(recording, shapes),
    )
    _write(output / "operator_details.csv", OPERATOR_HEADERS, _operators(recording))
    _write(output / "op_statistic.csv", STATISTIC_HEADERS, _statistic(recording))
    _write(output / "step_trace_time.csv", STEP_HEADERS, _steps(recording))
    if memory:
        _write(output / "memory_record.csv", MEMORY_HEADERS, _memory(recording))


def _write(path: Path, headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(headers)
        writer.writerows(rows)


def _kind(event: OperatorEvent) -> str:
    """`aclnnAdd` for aten::add.Tensor: torch_npu's kernels bear the names of CANN's operators."""
    base = event.name.partition("::")[2].partition(".")[0].strip("_")
    return "".join(part.capitalize() for part in base.split("_"))


def _core(event: OperatorEvent) -> str:
    base = event.name.partition("::")[2]
    return "AI_CORE" if any(word in base for word in _CUBE) else "AI_VECTOR_CORE"


def _micro(event: OperatorEvent) -> float:
    return (event.end - event.start) / _MICRO


def _joined(values: Sequence[str]) -> str:
    return ";".join(values) or NOT_KNOWN


def _kernels(recording: Recording, shapes: bool) -> Iterable[Sequence[Any]]:
    for event in recording.operators:
        start, duration = f"{event.start / _MICRO:.3f}", f"{_micro(event):.3f}"
        row = [event.device, f"aclnn{_kind(event)}", _kind(event), _core(event), start, duration, 0]
        if shapes:
            formats = ";".join("ND" for _ in event.input_shapes) or NOT_KNOWN
            outputs = ";".join("ND" for _ in event.output_shapes) or NOT_KNOWN
            row += [_joined(event.input_shapes), _joined(event.input_types), formats]
            row += [_joined(event.output_shapes), _joined(event.output_types), outputs]
        yield row


def _operators(recording: Recording) -> Iterable[Sequence[Any]]:
    for event in recording.operators:
        time = f"{_micro(event):.3f}"
        core = time if _core(event) == "AI_CORE" else "0"
        yield (event.name, _joined(event.input_shapes), "", time, time, time, time, core, core)


def _statistic(recording: Recording) -> Iterable[Sequence[Any]]:
    times: dict[tuple[int, str, str], list[float]] = defaultdict(list)
    for event in recording.operators:
        times[event.device, _kind(event), _core(event)].append(_micro(event))
    total = sum(map(sum, times.values())) or 1.0
    for (device, kind, core), each in sorted(times.items(), key=lambda item: -sum(item[1])):
        numbers = (sum(each), min(each), sum(each) / len(each), max(each), 100 * sum(each) / total)
        rounded = [f"{number:.3f}" for number in numbers]
        yield (device, kind, core, len(each), *rounded)


def _steps(recording: Recording) -> Iterable[Sequence[Any]]:
    devices = sorted({event.device for event in recording.operators}) or [0]
    for device in devices:
        for number, start, end in recording.steps:
            computing = sum(_micro(e) for e in recording.operators if e.device == device and e.step == number)
            free = max((end - start) / _MICRO - computing, 0.0)
            yield (device, number, f"{computing:.3f}", 0, 0, 0, f"{free:.3f}", 0, 0, 0, 0)


def _memory(recording: Recording) -> Iterable[Sequence[Any]]:
    for event in recording.operators:
        size = f"{event.allocated / 2**20:.3f}"
        yield ("PTA", f"{event.end / _MICRO:.3f}", size, size, f"NPU:{event.device}")


def chrome_trace(recording: Recording) -> list[dict[str, Any]]:
    """The events of a chrome trace: operators of the host, kernels of each device, steps, marks and ranges."""
    process = os.getpid()
    trace: list[dict[str, Any]] = [_named(process, "Python")]
    devices = sorted({event.device for event in recording.operators})
    trace += [_named(_lane(device), f"Ascend Hardware {device}") for device in devices]
    for i, event in enumerate(recording.operators):
        times = {"ts": f"{event.start / _MICRO:.3f}", "dur": _micro(event), "ph": "X", "tid": process}
        arguments = {"Input Dims": list(event.input_shapes), "Input type": list(event.input_types)}
        trace.append({"name": event.name, "pid": process, "cat": "cpu_op", "args": arguments, **times})
        kernel = {"name": f"aclnn{_kind(event)}", "pid": _lane(event.device), "args": {"Task Type": _core(event)}}
        trace.append({**times, **kernel, "tid": 0})
        flow = {"name": "async_npu", "cat": "async_npu", "id": str(i), "ts": times["ts"]}
        trace.append({**flow, "ph": "s", "pid": process, "tid": process})
        trace.append({**flow, "ph": "f", "bp": "e", "pid": _lane(event.device), "tid": 0})
    for number, start, end in recording.steps:
        span = {"ts": f"{start / _MICRO:.3f}", "dur": (end - start) / _MICRO, "ph": "X", "pid": process, "tid": process}
        trace.append({"name": f"ProfilerStep#{number}", "cat": "user_annotation", "args": {}, **span})
    for mark in recording.ranges:
        span = {"ts": f"{mark.start / _MICRO:.3f}", "dur": (mark.end - mark.start) / _MICRO, "ph": "X", "pid": process}
        trace.append({"name": mark.message, "cat": "mstx", "tid": "MSTX", "args": {"domain": mark.domain}, **span})
    return trace


def _lane(device: int) -> int:
    return 1_000_000 + device


def _named(process: int, name: str) -> dict[str, Any]:
    return {"name": "process_name", "ph": "M", "pid": process, "tid": 0, "args": {"name": name}}
