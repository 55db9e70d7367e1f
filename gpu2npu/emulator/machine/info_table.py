"""The table of `npu-smi info`, to the column as npu-smi 24.1 prints it for chips with HBM and for those with DDR."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from gpu2npu.emulator.machine.chips import Chip

VERSION = "24.1.0"
NOT_KNOWN = "NA"  # power and temperature: the emulator has no sensors


@dataclass(frozen=True)
class _Layout:
    """Widths of the three columns, without their borders, and the headers."""

    columns: tuple[int, int, int]
    headers: tuple[tuple[str, str, str], tuple[str, str, str]]

    @property
    def width(self) -> int:
        return sum(self.columns) + 2

    def rule(self, mark: str) -> str:
        return "+" + "+".join(mark * width for width in self.columns) + "+"

    def full_rule(self) -> str:
        return "+" + "-" * self.width + "+"

    def row(self, *cells: str) -> str:
        return "|" + "|".join(f" {cell:<{width - 1}}" for cell, width in zip(cells, self.columns, strict=True)) + "|"

    def line(self, text: str) -> str:
        return f"| {text:<{self.width - 1}}|"


_HBM = _Layout(
    (27, 15, 52),
    (
        ("NPU   Name", "Health", "Power(W)    Temp(C)           Hugepages-Usage(page)"),
        ("Chip", "Bus-Id", "AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)"),
    ),
)
_DDR = _Layout(
    (31, 17, 54),
    (
        ("NPU     Name", "Health", "Power(W)     Temp(C)           Hugepages-Usage(page)"),
        ("Chip    Device", "Bus-Id", "AICore(%)    Memory-Usage(MB)"),
    ),
)


def info_table(chips: Sequence[Chip]) -> Iterator[str]:
    """The lines of the table: the chips of each card, then the processes on them."""
    layout = _HBM if not chips or chips[0].has_hbm else _DDR
    two_dies = any(chip.number for chip in chips)
    yield layout.full_rule()
    yield layout.line(f"npu-smi {VERSION:<{25 if layout is _HBM else 41}}Version: {VERSION}")
    yield layout.rule("-")
    yield layout.row(*layout.headers[0])
    first, *rest = layout.headers[1]
    yield layout.row("Chip  Phy-ID" if two_dies else first, *rest)
    yield layout.rule("=")
    for _, card in groupby(chips, key=lambda chip: chip.card):
        for i, chip in enumerate(card):
            if i:
                yield layout.full_rule()
            yield from _chip_rows(layout, chip, two_dies)
        yield layout.rule("=")
    yield from _process_rows(layout, chips)


def _chip_rows(layout: _Layout, chip: Chip, two_dies: bool) -> Iterator[str]:
    used = f"{chip.memory_used:<5}/ {chip.memory}"
    if layout is _HBM:
        yield layout.row(f"{chip.card:<6}{chip.short_name}", "OK", f"{NOT_KNOWN:<12}{NOT_KNOWN:<18}0    / 0")
        name = f"{chip.number:<6}{chip.physical}" if two_dies else str(chip.number)
        yield layout.row(name, chip.bus, f"{chip.busy:<12}0    / 0          {used}")
    else:
        yield layout.row(f"{chip.card:<8}{chip.short_name}", "OK", f"{NOT_KNOWN:<13}{NOT_KNOWN:<18}0     / 0")
        yield layout.row(f"{chip.number:<8}{chip.physical}", chip.bus, f"{chip.busy:<13}{used}")


def _process_rows(layout: _Layout, chips: Sequence[Chip]) -> Iterator[str]:
    last = layout.columns[2] - 26
    yield layout.rule("-")
    heads = f" {'Process name':<25}| {'Process memory(MB)':<{last - 1}}"
    yield layout.row("NPU     Chip", "Process id", heads.strip())
    yield layout.rule("=")
    for number, card in groupby(chips, key=lambda chip: chip.card):
        used = [(chip, process) for chip in card for process in chip.processes]
        for chip, process in used:
            yield layout.row(
                f"{number:<8}{chip.number}", str(process.pid), f"{process.name[:15]:<25}| {process.memory:<{last - 2}}"
            )
        if not used:
            yield layout.line(f"No running processes found in NPU {number}")
        yield layout.rule("=")
