"""The databases of `ExportType.Db`: ascend_pytorch_profiler_RANK.db, and analysis.db with sums over steps and links.

Their tables are in profiler.sql and analysis.sql. A kernel has a number, by which PYTORCH_API (through CONNECTION_IDS),
CANN_API and TASK are joined.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import torch

from . import communication, tables
from .kernels import AI_CORE, AI_CPU, AI_VECTOR, core, kernel_name, kernel_type
from .recording import (
    Callers,
    CollectiveEvent,
    CopyEvent,
    HostEvent,
    OperatorEvent,
    Recording,
    forward_and_backward,
)
from .timeline import LAUNCH

Row = Sequence[object]
Rows = Mapping[str, Iterable[Row]]

_NONE = 4294967295  # torch_npu's and CANN's number for what is not there
_NOT_KNOWN = 65534  # of enumerations
_NODE, _RUNTIME = 10000, 5000  # levels of CANN's calls, by ENUM_API_TYPE
_OPERATOR, _TRACE = 50001, 50003
_TO_DEVICE, _TO_HOST = 1, 2  # ENUM_MEMCPY_OPERATION
_SDMA, _HCCS = 0, 1  # ENUM_HCCL_TRANSPORT_TYPE, ENUM_HCCL_LINK_TYPE
_MARK, _RANGE = 0, 2
_STREAM = 2
_TASK_TYPES = {AI_CORE: "KERNEL_AICORE", AI_VECTOR: "KERNEL_AIVEC", AI_CPU: "KERNEL_AICPU"}
_FIRST_FORWARD = 5 << 28  # torch_npu numbers pairs of forward and backward from here on


class _Strings:
    """Numbers strings: a row refers to them by number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        """Return the number of a string, that of nothing for an empty one."""
        return self._numbers.setdefault(text, len(self._numbers)) if text else _NONE

    def rows(self) -> list[Row]:
        """STRING_IDS."""
        return [(number, text) for text, number in self._numbers.items()]


def write_all(output: Path, recording: Recording, rank: int, metadata: Mapping[str, Any], *, memory: bool) -> None:
    """Write both databases into a folder; `rank` is -1 outside of a distributed run."""
    name = "ascend_pytorch_profiler.db" if rank < 0 else f"ascend_pytorch_profiler_{rank}.db"
    strings = _Strings()
    rows = {**_session(recording, rank, metadata), **_host(recording, strings), **_device(recording, strings)}
    if memory:
        rows |= _memory(recording, strings)
    rows["MSTX_EVENTS"] = list(_marks(recording, strings))
    _write(output / name, "profiler.sql", {**rows, "STRING_IDS": strings.rows()})
    _write(output / "analysis.db", "analysis.sql", _analysis(recording))


def _write(path: Path, script: str, rows: Rows) -> None:
    """Make a database by an SQL script and fill its tables; those that stay empty are left out, as torch_npu does."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(Path(__file__).with_name(script).read_text(encoding="utf-8"))
        for table, found in rows.items():
            values = [tuple(row) for row in found]
            if values:
                connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values[0]))})", values)
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            if not connection.execute(f"SELECT EXISTS (SELECT 1 FROM {table})").fetchone()[0]:
                connection.execute(f"DROP TABLE {table}")


def _thread(number: int) -> int:
    """A thread's number among all processes: the process in the upper 32 bits."""
    return os.getpid() << 32 | number


def _session(recording: Recording, rank: int, metadata: Mapping[str, Any]) -> dict[str, list[Row]]:
    devices = recording.devices or [0]
    name = torch.npu.get_device_name()  # type: ignore[attr-defined]
    host = socket.gethostname()
    described = {"SCHEMA_VERSION": "1.2.0", **{key: json.dumps(value) for key, value in metadata.items()}}
    return {
        "META_DATA": list(described.items()),
        "HOST_INFO": [(host, host)],
        "NPU_INFO": [(device, name) for device in devices],
        "RANK_DEVICE_MAP": [(rank, device) for device in devices],
        "SESSION_TIME_INFO": [recording.window],
        "STEP_TIME": list(recording.steps),
    }


def _host(recording: Recording, strings: _Strings) -> dict[str, list[Row]]:
    """The operators of the host, the steps, call stacks, and what each operator is connected to."""
    connected: dict[int, list[int]] = {}
    callers = Callers(recording.host)
    for number, event in enumerate(_launches(recording)):
        place = callers.place(event.start)
        if place is not None:
            connected.setdefault(place, []).append(number)
    for number, pair in enumerate(forward_and_backward(recording.host), _FIRST_FORWARD):
        for place in pair:
            connected.setdefault(place, []).append(number)
    calls: list[Row] = []
    stacks: list[Row] = []
    for place, call in enumerate(recording.host):
        stacks += [(place, strings(line), depth) for depth, line in enumerate(call.stack)]
        calls.append(_call(place, call, place in connected, strings))
    thread = _thread(min((event.thread for event in recording.host), default=1))
    for number, start, end in recording.steps:
        name = strings(f"ProfilerStep#{number}")
        calls.append((start, end, thread, None, name, None, None, _NONE, _NONE, None, _OPERATOR))
    links: list[Row] = [(place, number) for place, numbers in connected.items() for number in numbers]
    return {"PYTORCH_API": calls, "CONNECTION_IDS": links, "PYTORCH_CALLCHAINS": stacks}


def _call(place: int, event: HostEvent, is_connected: bool, strings: _Strings) -> Row:
    shapes = ";".join(event.shapes)
    return (
        event.start,
        event.end,
        _thread(event.thread),
        place if is_connected else None,
        strings(event.name),
        event.sequence,
        event.forward_thread,
        strings(";".join(event.types)),
        strings(shapes),
        place if event.stack else None,
        _OPERATOR if event.kind == "cpu_op" else _TRACE,
    )


def _launches(recording: Recording) -> Iterator[OperatorEvent | CopyEvent | CollectiveEvent]:
    """The operators, copies and collectives, in the order of the numbers that join them to the calls of the host."""
    return itertools.chain(recording.operators, recording.copies, recording.collectives)


class _Tasks:
    """Numbers what is launched and the tasks that come of it: CANN_API and TASK."""

    def __init__(self, strings: _Strings) -> None:
        self.strings = strings
        self.calls: list[Row] = []
        self.tasks: list[Row] = []

    def launch(self, moment: int, name: str = "launch", level: int = _NODE) -> int:
        """Note a call of CANN's that ends at a moment; the number of what it launches."""
        number = len(self.calls)
        self.calls.append((moment - LAUNCH, moment, level, _thread(1), number, self.strings(name)))
        return number

    def add(self, times: tuple[int, int], device: int, number: int, kind: str) -> int:
        """Note a task of what was launched under `number`; the number of the task."""
        task = len(self.tasks)
        name = self.strings(kind)
        self.tasks.append((*times, device, number, task, os.getpid(), name, _NONE, _STREAM, task, _NONE))
        return task


def _device(recording: Recording, strings: _Strings) -> dict[str, list[Row]]:
    """CANN's calls, the tasks of the NPUs, and what is known of each; in the order of `_launches`."""
    tasks = _Tasks(strings)
    found: dict[str, list[Row]] = {"CANN_API": tasks.calls, "TASK": tasks.tasks}
    dynamic = tables.changing(recording)
    found["COMPUTE_TASK_INFO"] = [_computed(event, event.name in dynamic, tasks) for event in recording.operators]
    found["MEMCPY_INFO"] = [_copied(event, tasks) for event in recording.copies]
    found["COMMUNICATION_OP"], found["COMMUNICATION_TASK_INFO"] = [], []
    names = communication.kernel_names(recording)
    for operator, (event, name) in enumerate(zip(recording.collectives, names, strict=True)):
        number = tasks.launch(event.start)
        found["COMMUNICATION_OP"].append(_collective(event, name, number, operator, strings))
        found["COMMUNICATION_TASK_INFO"] += _exchanges(event, number, operator, tasks)
    return found


def _computed(event: OperatorEvent, is_dynamic: bool, tasks: _Tasks) -> Row:
    where = core(event.name, event.on_cpu)
    task = tasks.add((event.start, event.end), event.device, tasks.launch(event.start), _TASK_TYPES[where])
    state = "dynamic" if is_dynamic else "static"
    given = (tables.formats(event.input_shapes), ";".join(event.input_types), ";".join(event.input_shapes))
    made = (tables.formats(event.output_shapes), ";".join(event.output_types), ";".join(event.output_shapes))
    described = [text or tables.NOT_KNOWN for text in (*given, *made)]
    texts = [where, kernel_type(event.name), *described, tables.NOT_KNOWN, state, tables.NOT_KNOWN]
    return (tasks.strings(kernel_name(event.name)), task, 0, 0, *map(tasks.strings, texts))


def _copied(event: CopyEvent, tasks: _Tasks) -> Row:
    number = tasks.launch(event.start, "aclrtMemcpyAsync", _RUNTIME)
    task = tasks.add((event.start, event.end), event.device, number, "MEMCPY_ASYNC")
    return (task, event.size, _TO_DEVICE if event.to_device else _TO_HOST)


def _collective(event: CollectiveEvent, name: str, number: int, operator: int, strings: _Strings) -> Row:
    kind = strings(f"hcom_{communication.hccl_name(event)}_")
    named, times = strings(name), (event.start, event.end)
    sent = (_NOT_KNOWN, strings("MESH"), sum(event.sent))
    return (named, *times, number, strings(event.group), operator, 0, 0, *sent, kind, event.device)


def _exchanges(event: CollectiveEvent, number: int, operator: int, tasks: _Tasks) -> Iterator[Row]:
    """The tasks of a collective: waiting for the other ranks, then copying to each."""
    group = tasks.strings(event.group)
    peers = [rank for rank in range(len(event.sent)) if rank != event.rank] or [event.rank]
    waiting = ("Notify_Wait", (event.start, event.begun), peers[0], 0)
    copying = [("Memcpy", (event.begun, event.end), peer, event.sent[peer]) for peer in peers]
    for title, (start, end), peer, size in (waiting, *copying):
        task = tasks.add((start, end), event.device, number, title)
        bandwidth = 1e9 * size / (end - start) if end > start else 0
        name = tasks.strings(title)
        transport = (_NOT_KNOWN, event.rank, peer, _SDMA, size, _NOT_KNOWN, _HCCS)
        yield (name, task, name, 0, group, 0, *transport, operator, 1, bandwidth)


def _marks(recording: Recording, strings: _Strings) -> Iterator[Row]:
    thread = _thread(1)
    for number, mark in enumerate(recording.ranges):
        kind = _MARK if mark.start == mark.end else _RANGE
        message, domain = strings(mark.message), strings(mark.domain)
        yield (mark.start, mark.end, kind, number, _NONE, message, thread, thread, domain, _NONE)


def _memory(recording: Recording, strings: _Strings) -> dict[str, list[Row]]:
    component = strings("PTA")
    totals: list[Row] = [
        (component, time, total, reserved, total, 0, device)
        for time, total, reserved, device in tables.memory_totals(recording)
    ]
    blocks: list[Row] = []
    for event, name in tables.makers(recording):
        begun, freed = event.allocated or None, event.freed or None
        duration = event.freed - event.allocated if begun and freed else None
        then = (event.total_then, event.reserved_then, event.total_then) if begun else (None,) * 3
        after = (event.total_after, event.reserved_after, event.total_after) if freed else (None,) * 3
        times = (begun, freed, freed, duration, duration)
        blocks.append((strings(name), event.size, *times, *then, *after, 0, event.device))
    return {"MEMORY_RECORD": totals, "OP_MEMORY": blocks}


def _analysis(recording: Recording) -> dict[str, list[Row]]:
    steps: list[Row] = []
    for device, number, *times in tables.steps(recording):
        steps.append((device, None if number == "" else str(number), *(float(str(time)) for time in times)))
    found: dict[str, list[Row]] = {"CommAnalyzerTime": [], "CommAnalyzerBandwidth": [], "CommAnalyzerMatrix": []}
    for step, sort, name, group, described in _by_collective(communication.times(recording)):
        times = described["Communication Time Info"]
        found["CommAnalyzerTime"].append((name, group, *(times[title] for title in _TIMES), step, sort))
        for transport, used in described["Communication Bandwidth Info"].items():
            shared = tuple(used[title] for title in _BANDWIDTH)
            for size, (count, duration) in used["Size Distribution"].items():
                row = (name, group, transport, *shared, float(size), count, duration, step, sort)
                found["CommAnalyzerBandwidth"].append(row)
    for step, sort, name, group, links in _by_collective(communication.matrix(recording)):
        for link, used in links.items():
            row = (name, group, *link.split("-"), *(used[title] for title in _LINK), step, sort, used["Op Name"])
            found["CommAnalyzerMatrix"].append(row)
    return {"StepTraceTime": steps, **found}


_TIMES = (
    "Start Timestamp(us)",
    "Elapse Time(ms)",
    "Transit Time(ms)",
    "Wait Time(ms)",
    "Synchronization Time(ms)",
    "Idle Time(ms)",
)
_BANDWIDTH = ("Transit Size(MB)", "Transit Time(ms)", "Bandwidth(GB/s)", "Large Packet Ratio")
_LINK = ("Transport Type", "Transit Size(MB)", "Transit Time(ms)", "Bandwidth(GB/s)")


def _by_collective(described: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str, Any]]:
    """The step, the sort, the name and the group of each entry of communication.json, and the entry; no totals."""
    for step, sorts in described.items():
        for sort, entries in sorts.items():
            for key, entry in entries.items():
                name, has_group, group = key.partition("@")
                if has_group:
                    yield step, sort, name, group, entry
