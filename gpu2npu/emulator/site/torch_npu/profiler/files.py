"""Writes a recording in torch_npu's file layout: CSV files and a chrome trace, or databases, and its description."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import Any

import torch

from . import communication, database, tables
from .chrome_trace import trace_events
from .experimental_config import ExportType
from .recording import Recording

OUTPUT = "ASCEND_PROFILER_OUTPUT"


def new_folder(folder: str | None, worker: str | None) -> Path:
    """Make `<worker>_<process>_<time>_ascend_pt` in a folder, the current one unless given."""
    name = f"{worker or socket.gethostname()}_{os.getpid()}"
    time = datetime.now().astimezone().strftime("%Y%m%d%H%M%S%f")[:-3]
    path = Path(folder or os.environ.get("ASCEND_WORK_PATH", ".")) / f"{name}_{time}_ascend_pt"
    path.mkdir(parents=True)
    return path


def rank() -> int:
    """This process's rank in a distributed run, -1 outside of one."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank()
    return -1


def write_all(
    path: Path,
    recording: Recording,
    info: dict[str, Any],
    kinds: Collection[str],
    *,
    shapes: bool,
    counters: bool,
    memory: bool,
) -> None:
    """Write one profile below its folder, as each kind of `ExportType` that is named."""
    output = path / OUTPUT
    output.mkdir(exist_ok=True)
    metadata = dict(info["metadata"])
    if recording.collectives:
        metadata["parallel_group_info"] = communication.groups(recording)
    _write_json(path / ("profiler_info.json" if rank() < 0 else f"profiler_info_{rank()}.json"), info)
    _write_json(path / "profiler_metadata.json", metadata)
    if ExportType.Text in kinds:
        _write_text(output, recording, shapes=shapes, counters=counters, memory=memory)
    if ExportType.Db in kinds:
        database.write_all(output, recording, rank(), metadata, memory=memory)


def _write_text(output: Path, recording: Recording, *, shapes: bool, counters: bool, memory: bool) -> None:
    if recording.collectives:
        _write_json(output / "communication.json", communication.times(recording))
        _write_json(output / "communication_matrix.json", communication.matrix(recording))
    (output / "trace_view.json").write_text(json.dumps(trace_events(recording)), encoding="utf-8")
    headers = [*tables.COLUMNS["kernel"], *(tables.COLUMNS["shape"] if shapes else ())]
    headers += tables.COLUMNS["counter"] if counters else ()
    tables.write(output / "kernel_details.csv", headers, tables.kernels(recording, shapes, counters))
    tables.write(output / "operator_details.csv", tables.COLUMNS["operator"], tables.operators(recording))
    tables.write(output / "op_statistic.csv", tables.COLUMNS["statistic"], tables.statistic(recording))
    tables.write(output / "step_trace_time.csv", tables.COLUMNS["step"], tables.steps(recording))
    if memory:
        tables.write(output / "memory_record.csv", tables.COLUMNS["memory"], tables.memory_record(recording))
        tables.write(output / "operator_memory.csv", tables.COLUMNS["block"], tables.blocks(recording))


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=4), encoding="utf-8")
