"""Gives each recorded run ports of its own: the runs of a program are beside each other, and all name the same port.

The process that opens a store lets the system choose its port, and writes it to a file in the folder of the run, under
the number that the program asked for. Those that connect to that number read it there. No port is chosen before it is
bound, so none is given to two.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

_Store: Any = torch._C._distributed_c10d.TCPStore
_TIMEOUT = timedelta(minutes=5)  # of torch's TCPStore
_POLL = 0.02  # seconds between two looks for a port


def install(folder: Path) -> None:
    """Have stores of this process use the ports of the run whose files are in `folder`."""

    class TCPStore(_Store):  # type: ignore[misc]
        """`torch.distributed.TCPStore` on a port of this run."""

        def __init__(
            self,
            host_name: str,
            port: int,
            world_size: int | None = None,
            is_master: bool = False,
            timeout: timedelta = _TIMEOUT,
            wait_for_workers: bool = True,
            *args: Any,
            **kwargs: Any,
        ) -> None:
            at = 0 if is_master else _port(folder, port, timeout)
            waits = wait_for_workers and not is_master  # others cannot come before the port is written
            super().__init__(host_name, at, world_size, is_master, timeout, waits, *args, **kwargs)
            if is_master:
                _publish(folder, {port or self.port, self.port}, self.port)

    modules: list[Any] = [dist, sys.modules["torch.distributed.rendezvous"]]  # a function has the name of the second
    for module in modules:
        module.TCPStore = TCPStore


def _publish(folder: Path, names: set[int], port: int) -> None:
    """Write the port under the numbers by which processes ask for it, until this process ends."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        file = folder / f"port-{name}"
        temporary = folder / f".port-{name}-{os.getpid()}"
        temporary.write_text(str(port))
        temporary.replace(file)
        atexit.register(_withdraw, file, str(port), os.getpid())


def _withdraw(file: Path, port: str, process: int) -> None:
    if os.getpid() == process and file.exists() and file.read_text() == port:
        file.unlink(missing_ok=True)


def _port(folder: Path, wanted: int, timeout: timedelta) -> int:
    """The port that stands for `wanted`, once its server is there; `wanted` itself if none of this run opens it."""
    file, until = folder / f"port-{wanted}", time.monotonic() + timeout.total_seconds()
    while not file.exists():
        if time.monotonic() > until:
            return wanted
        time.sleep(_POLL)
    return int(file.read_text())
