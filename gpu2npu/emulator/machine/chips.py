"""The chips that `npu-smi` shows: which there are, what the emulated processes use of them, and where they sit."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from gpu2npu.emulator.machine import processes
from gpu2npu.emulator.soc import MIB, Soc, current_soc


@dataclass(frozen=True)
class ProcessUse:
    """A process on one chip; memory in MB."""

    pid: int
    name: str
    memory: int


@dataclass(frozen=True)
class Chip:
    """A chip: the number of its card and its own on that card, its physical number, memory in MB, and percent busy."""

    card: int
    number: int
    physical: int
    soc: Soc
    busy: int
    memory_used: int
    processes: tuple[ProcessUse, ...]

    @property
    def memory(self) -> int:
        """The chip's memory in MB."""
        return self.soc.memory // MIB

    @property
    def memory_percent(self) -> int:
        """The share of it that is used."""
        return round(100 * self.memory_used / self.memory)

    @property
    def bus(self) -> str:
        """A PCIe address: the emulated chips' own, in order."""
        return f"0000:{self.card + 1:02X}:{self.number:02X}.0"

    @property
    def has_hbm(self) -> bool:
        """Return whether its memory is HBM; the chips for inference have DDR."""
        return not self.soc.name.startswith("Ascend310")

    @property
    def short_name(self) -> str:
        """The name in the table of `npu-smi info`; the dies of 910_93 are all called Ascend910."""
        if self.soc.family.dies > 1:
            return "Ascend910"
        return self.soc.name if self.soc.name.startswith("Ascend950") else self.soc.name.removeprefix("Ascend")


def chips() -> tuple[Chip, ...]:
    """The chips that GPU2NPU_NPUS counts, of the kind that GPU2NPU_SOC names, in physical order."""
    soc = current_soc()
    running = [process for process in processes.running() if process.soc == soc.name]
    per_card = soc.family.dies
    installed = int(os.environ.get("GPU2NPU_NPUS", "8"))
    return tuple(_chip(number, per_card, soc, running) for number in range(installed))


def _chip(physical: int, per_card: int, soc: Soc, running: Iterable[processes.EmulatedProcess]) -> Chip:
    uses = [(process, use) for process in running for use in process.uses if use.npu == physical]
    return Chip(
        card=physical // per_card,
        number=physical % per_card,
        physical=physical,
        soc=soc,
        busy=min(round(sum(use.busy for _, use in uses)), 100),
        memory_used=sum(_megabytes(use.memory) for _, use in uses),
        processes=tuple(ProcessUse(process.pid, process.name, _megabytes(use.memory)) for process, use in uses),
    )


def _megabytes(size: int) -> int:
    return -(-size // MIB)
