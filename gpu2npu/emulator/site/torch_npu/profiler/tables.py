"""The CSV files: kernels, operators, their statistics, steps, and memory.

Names of files and columns (`columns.json`) are those of torch_npu 2.13.0 (`torch_npu/profiler/analysis`). Times are
microseconds, those of the emulation. The counters of the AI cores book a kernel's time on the unit that computes it.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from . import communication, intervals
from .kernels import AI_CORE, AI_VECTOR, core, kernel_name, kernel_type
from .recording import BlockEvent, HostEvent, OperatorEvent, Recording
from .timeline import microseconds, timeline

NOT_KNOWN = "N/A"

COLUMNS: dict[str, list[str]] = json.loads(Path(__file__).with_name("columns.json").read_text(encoding="utf-8"))

Row = Sequence[object]

_STREAM = 2
_NO_MODEL = 4294967295
_MIB = 1 << 20


def write(path: Path, headers: Sequence[str], rows: Iterable[Row]) -> None:
    """Write a table."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(headers)
        writer.writerows(rows)


def _moment(time: int) -> str:
    """A time of day in microseconds, with the tab that torch_npu puts behind it, lest spreadsheets round it."""
    return f"{microseconds(time)}\t"


def _joined(values: Sequence[str]) -> str:
    return ";".join(values) or NOT_KNOWN


def _quoted(shapes: Sequence[str]) -> str:
    """Shapes as torch_npu writes them: in double quotes of their own."""
    return f'"{";".join(shapes)}"' if shapes else NOT_KNOWN


def kernels(recording: Recording, shapes: bool, counters: bool) -> list[Row]:
    """kernel_details.csv, in order of time: operators, and collectives as HCCL's kernels."""
    timed: list[tuple[int, int, list[object]]] = []
    dynamic = changing(recording)
    for task, event in enumerate(recording.operators):
        where = core(event.name, event.on_cpu)
        row: list[object] = ["" if event.step is None else event.step, event.device, _NO_MODEL, task, _STREAM]
        row += [
            kernel_name(event.name),
            kernel_type(event.name),
            "dynamic" if event.name in dynamic else "static",
            where,
            _moment(event.start),
        ]
        row += [microseconds(event.end - event.start), 0]
        if shapes:
            row += [_quoted(event.input_shapes), _joined(event.input_types), formats(event.input_shapes)]
            row += [_quoted(event.output_shapes), _joined(event.output_types), formats(event.output_shapes)]
        if counters:
            row += _counters(event, where)
        timed.append((event.start, event.end, row))
    names = communication.kernel_names(recording)
    for task, (collective, name) in enumerate(zip(recording.collectives, names, strict=True), len(timed)):
        row = ["" if collective.step is None else collective.step, collective.device, _NO_MODEL, task, NOT_KNOWN, name]
        row += [f"hcom_{communication.hccl_name(collective)}_", NOT_KNOWN, "COMMUNICATION"]
        row += [_moment(collective.start), microseconds(collective.end - collective.start), 0]
        row += [NOT_KNOWN] * len(COLUMNS["shape"]) * shapes
        row += [0] * len(COLUMNS["counter"]) * counters
        timed.append((collective.start, collective.end, row))
    timed.sort(key=lambda each: each[0])
    wait = COLUMNS["kernel"].index("Wait Time(us)")
    over = 0
    for start, end, row in timed:
        row[wait] = microseconds(max(start - over, 0)) if over else 0
        over = max(over, end)
    return [row for _, _, row in timed]


def changing(recording: Recording) -> set[str]:
    """The operators that are only ever called with shapes that they had not before: those of dynamic shape."""
    calls: dict[str, int] = defaultdict(int)
    shapes: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for event in recording.operators:
        calls[event.name] += 1
        shapes[event.name].add(event.input_shapes)
    return {name for name, count in calls.items() if 1 < count == len(shapes[name])}


def formats(shapes: Sequence[str]) -> str:
    """The formats of tensors: always ND."""
    return _joined(["ND"] * len(shapes))


def _counters(event: OperatorEvent, where: str) -> list[object]:
    """The duration as that of the multipliers of the cube unit, or of the vector unit; nothing else takes time here."""
    time = microseconds(event.end - event.start)
    cube, vector = (time if where == unit else "0" for unit in (AI_CORE, AI_VECTOR))
    return [cube, cube, cube, 0, 0, vector, vector, 0, 0]


def operators(recording: Recording) -> Iterator[Row]:
    """operator_details.csv: the host's operators with the kernels below them; kernels alone where none was seen."""
    host = [event for event in recording.host if event.kind == "cpu_op"]
    if not host:
        for kernel in recording.operators:
            time = microseconds(kernel.end - kernel.start)
            aicore = time if core(kernel.name, kernel.on_cpu) == AI_CORE else "0"
            yield (kernel.name, _quoted(kernel.input_shapes), "", time, time, time, time, aicore, aicore)
        return
    for event, *times in _nested(host, recording.operators):
        stack = ";\r\n".join(event.stack)
        yield (event.name, _quoted(event.shapes), stack, *map(microseconds, times))


def _nested(
    host: Sequence[HostEvent], kernels: Sequence[OperatorEvent]
) -> Iterator[tuple[HostEvent, int, int, int, int, int, int]]:
    """Each operator of the host; its own time and all its time; the time of the kernels that no operator within it
    called, and of all below it; the same of those on the AI cores.
    """
    own = [event.end - event.start for event in host]
    sums = [[0, 0, 0, 0] for _ in host]  # device, aicore, own device, own aicore
    moments: list[tuple[int, int, int]] = [(event.start, -event.end, i) for i, event in enumerate(host)]
    moments += [(kernel.start, -kernel.end, len(host) + i) for i, kernel in enumerate(kernels)]
    open_events: list[int] = []
    for start, _, number in sorted(moments):
        while open_events and host[open_events[-1]].end <= start:
            open_events.pop()
        if number < len(host):
            if open_events:
                own[open_events[-1]] -= host[number].end - host[number].start
            open_events.append(number)
            continue
        kernel = kernels[number - len(host)]
        time = kernel.end - kernel.start
        aicore = time if core(kernel.name, kernel.on_cpu) == AI_CORE else 0
        for place in open_events:
            sums[place][0] += time
            sums[place][1] += aicore
        if open_events:
            sums[open_events[-1]][2] += time
            sums[open_events[-1]][3] += aicore
    for i, event in enumerate(host):
        device, aicore, own_device, own_aicore = sums[i]
        yield event, max(own[i], 0), event.end - event.start, own_device, device, own_aicore, aicore


def statistic(recording: Recording) -> Iterator[Row]:
    """op_statistic.csv: the kernels by type."""
    times: dict[tuple[int, str, str], list[float]] = defaultdict(list)
    for event in recording.operators:
        key = (event.device, kernel_type(event.name), core(event.name, event.on_cpu))
        times[key].append((event.end - event.start) / 1000)
    total = sum(map(sum, times.values())) or 1.0
    for (device, kind, where), each in sorted(times.items(), key=lambda item: -sum(item[1])):
        numbers = (sum(each), min(each), sum(each) / len(each), max(each), 100 * sum(each) / total)
        rounded = [f"{number:.3f}" for number in numbers]
        yield (device, kind, where, len(each), *rounded)


def steps(recording: Recording) -> Iterator[Row]:
    """step_trace_time.csv: what each NPU did in each step; the whole profile is one step where there is none."""
    for device in recording.devices or [0]:
        windows: list[tuple[int | str, int, int]] = [*recording.steps] or [("", *recording.window)]
        for number, start, end in windows:
            line = timeline(recording, device, (start, end))
            uncovered = intervals.total(line.uncovered)
            received = intervals.clipped(
                [(e.start, e.end) for e in recording.collectives if e.name == "receive" and e.device == device],
                start,
                end,
            )
            busy = intervals.union((*line.computing, *line.communication))
            preparing = busy[0][0] - start if busy else 0
            numbers = (
                intervals.total(line.computing),
                uncovered,
                line.overlapped,
                intervals.total(line.communication),
                intervals.total(line.free),
            )
            without = uncovered - (intervals.total(received) - _both(received, line.computing))
            times = [microseconds(each) for each in numbers]
            stage = microseconds(end - start - intervals.total(received))
            yield (device, number, *times, stage, microseconds(intervals.total(received)), microseconds(without),
                   microseconds(preparing))  # fmt: skip


def _both(ours: list[intervals.Interval], others: list[intervals.Interval]) -> int:
    return intervals.total(ours) - intervals.total(intervals.difference(ours, others))


def memory_totals(recording: Recording) -> list[tuple[int, int, int, int]]:
    """The time, the bytes allocated and reserved, and the NPU after each block that was made or freed, in order."""
    moments = []
    for event in recording.blocks:
        if event.allocated:
            moments.append((event.allocated, event.total_then, event.reserved_then, event.device))
        if event.freed:
            moments.append((event.freed, event.total_after, event.reserved_after, event.device))
    return sorted(moments)


def memory_record(recording: Recording) -> Iterator[Row]:
    """memory_record.csv: the totals of each NPU after each block that was made or freed."""
    for time, total, reserved, device in memory_totals(recording):
        sizes = (_mib(total), _mib(reserved), _mib(total))
        yield ("PTA", _moment(time), *sizes, 0, f"NPU:{device}")


def makers(recording: Recording) -> Iterator[tuple[BlockEvent, str]]:
    """Each block in order of allocation, with the name of the operator that made it."""
    operators = sorted((event.start, event.end, event.name) for event in recording.operators)
    place = 0
    for event in sorted(recording.blocks, key=lambda event: event.allocated):
        while place < len(operators) and operators[place][1] < event.allocated:
            place += 1
        made = place < len(operators) and operators[place][0] <= event.allocated
        yield event, operators[place][2] if made else "aten::empty"


def blocks(recording: Recording) -> Iterator[Row]:
    """operator_memory.csv: each block, under the name of the operator that made it."""
    return (_block(event, name) for event, name in makers(recording))


def _block(event: BlockEvent, name: str) -> Row:
    duration = microseconds(event.freed - event.allocated) if event.freed and event.allocated else ""
    allocated = _moment(event.allocated) if event.allocated else ""
    freed = _moment(event.freed) if event.freed else ""
    then = [_mib(event.total_then), _mib(event.reserved_then), _mib(event.total_then)] if event.allocated else [""] * 3
    after = [_mib(event.total_after), _mib(event.reserved_after), _mib(event.total_after)] if event.freed else [""] * 3
    size = f"{event.size / 1024:.3f}"
    return (name, size, allocated, freed, freed, duration, duration, *then, *after, 0, f"NPU:{event.device}")


def _mib(size: int) -> str:
    return f"{size / _MIB:.3f}"
