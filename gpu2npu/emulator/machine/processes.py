"""The emulated processes of this user: each describes itself in a file, which `npu-smi` reads.

A file is `PID.json` in the folder that GPU2NPU_RUN_FOLDER names, `gpu2npu-UID` in the folder for temporary files unless
set. Processes of one user share it, so that `npu-smi` in a second terminal sees what runs in the first. A process that
was killed leaves its file behind; who reads the folder removes it.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class NpuUse:
    """The part of one NPU that a process uses: `npu` is its physical number, `memory` is reserved bytes, and
    `busy` the percent of the last interval in which operators ran on it.
    """

    npu: int
    memory: int
    busy: float


@dataclass(frozen=True)
class EmulatedProcess:
    """A process that uses emulated NPUs of the chip `soc`; `written` is the time of the description (`time.time`)."""

    pid: int
    name: str
    soc: str
    written: float
    uses: tuple[NpuUse, ...]


def folder() -> Path:
    """Return the folder in which processes describe themselves; it need not exist."""
    chosen = os.environ.get("GPU2NPU_RUN_FOLDER")
    return Path(chosen) if chosen else Path(tempfile.gettempdir(), f"gpu2npu-{os.getuid()}")


def write(process: EmulatedProcess) -> None:
    """Describe a process; a description of the same one is replaced."""
    path = _path(process.pid)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(asdict(process)), encoding="utf-8")
    temporary.replace(path)


def remove(pid: int) -> None:
    """Forget a process."""
    _path(pid).unlink(missing_ok=True)


def running() -> Iterator[EmulatedProcess]:
    """The processes that are alive, by their numbers."""
    if not folder().is_dir() or folder().stat().st_uid != os.getuid():
        return
    for path in sorted(folder().glob("*.json"), key=lambda path: (len(path.stem), path.stem)):
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            uses = tuple(NpuUse(**use) for use in fields.pop("uses"))
            process = EmulatedProcess(uses=uses, **fields)
        except (OSError, ValueError, KeyError, TypeError):  # it ended meanwhile, or another release wrote it
            continue
        if _lives(process.pid):
            yield process
        else:
            path.unlink(missing_ok=True)


def _path(pid: int) -> Path:
    return folder() / f"{pid}.json"


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
