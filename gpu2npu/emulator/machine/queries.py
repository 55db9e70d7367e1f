"""The answers of `npu-smi info -l`, `-m`, `-t TYPE` and `watch`, in the words and columns of npu-smi 24.1."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from gpu2npu.emulator.machine.chips import Chip
from gpu2npu.emulator.machine.info_table import NOT_KNOWN, VERSION

Field = tuple[str, object]

WATCH_COLUMNS: dict[str, tuple[str, Callable[[Chip], object]]] = {
    "p": ("Pwr(W)", lambda chip: NOT_KNOWN),
    "t": ("Temp(C)", lambda chip: NOT_KNOWN),
    "a": ("AI Core(%)", lambda chip: chip.busy),
    "i": ("AI Cpu(%)", lambda chip: 0),
    "c": ("Ctrl Cpu(%)", lambda chip: 0),
    "m": ("Memory(%)", lambda chip: chip.memory_percent),
    "b": ("Memory BW(%)", lambda chip: 0),
}


def _line(name: str, value: object) -> str:
    return f"\t{name:<31}: {value}"


def _count(chips: Sequence[Chip], card: int) -> int:
    return sum(chip.card == card for chip in chips)


def listing(chips: Sequence[Chip]) -> Iterator[str]:
    """`-l`: the cards, and how many chips each has."""
    cards = sorted({chip.card for chip in chips})
    yield _line("Total Count", len(cards))
    for card in cards:
        yield ""
        yield _line("NPU ID", card)
        yield _line("Chip Count", _count(chips, card))


def mapping(chips: Sequence[Chip]) -> Iterator[str]:
    """`-m`: the numbers of each chip; a card for training has a microcontroller (Mcu) beside its chips."""
    yield "\t" + "".join(f"{head:<31}" for head in ("NPU ID", "Chip ID", "Chip Logic ID", "Chip Name"))
    for chip in chips:
        name = chip.short_name if chip.short_name.startswith("Ascend") else f"Ascend {chip.short_name}"
        yield "\t" + "".join(f"{cell:<31}" for cell in (chip.card, chip.number, chip.physical)) + name
        if chip.has_hbm and chip.number + 1 == _count(chips, chip.card):
            yield "\t" + "".join(f"{cell:<31}" for cell in (chip.card, chip.number + 1, "-", "Mcu"))


def _board(chip: Chip) -> Iterator[Field]:
    yield "Product Name", "Emulated NPU of gpu2npu"
    yield "Model", NOT_KNOWN
    yield "Manufacturer", "gpu2npu"
    yield "Serial Number", NOT_KNOWN
    yield "Software Version", VERSION
    yield "Firmware Version", NOT_KNOWN
    yield "Compatibility", "OK"
    yield "Board ID", NOT_KNOWN
    yield "PCB ID", NOT_KNOWN
    yield "BOM ID", NOT_KNOWN
    yield "PCIe Bus Info", chip.bus
    yield "Slot ID", chip.card
    yield "Class ID", NOT_KNOWN
    yield "PCI Vendor ID", "0x19E5"  # Huawei's


def _usages(chip: Chip) -> Iterator[Field]:
    ddr = not chip.has_hbm
    yield "DDR Capacity(MB)", chip.memory if ddr else 0
    yield "DDR Usage Rate(%)", chip.memory_percent if ddr else 0
    yield "DDR Hugepages Total(page)", 0
    yield "DDR Hugepages Usage Rate(%)", 0
    if not ddr:
        yield "HBM Capacity(MB)", chip.memory
        yield "HBM Usage Rate(%)", chip.memory_percent
    yield "Aicore Usage Rate(%)", chip.busy
    yield "Aicpu Usage Rate(%)", 0
    yield "Ctrlcpu Usage Rate(%)", 0
    yield "DDR Bandwidth Usage Rate(%)", 0
    if not ddr:
        yield "HBM Bandwidth Usage Rate(%)", 0


def _memory(chip: Chip) -> Iterator[Field]:
    yield "DDR Capacity(MB)", 0 if chip.has_hbm else chip.memory
    yield "DDR Clock Speed(MHz)", NOT_KNOWN
    if chip.has_hbm:
        yield "HBM Capacity(MB)", chip.memory
        yield "HBM Clock Speed(MHz)", NOT_KNOWN
        yield "HBM Temperature(C)", NOT_KNOWN
        yield "HBM Manufacturer ID", NOT_KNOWN


def _common(chip: Chip) -> Iterator[Field]:
    yield "Memory Usage Rate(%)", 0 if chip.has_hbm else chip.memory_percent
    if chip.has_hbm:
        yield "HBM Usage Rate(%)", chip.memory_percent
    yield "Aicore Usage Rate(%)", chip.busy
    yield "Aicore Freq(MHZ)", NOT_KNOWN
    yield "Aicore curFreq(MHZ)", NOT_KNOWN
    yield "Aicore Count", chip.soc.cube_cores
    yield from _temperature(chip)
    yield from _power(chip)


def _temperature(chip: Chip) -> Iterator[Field]:
    yield "Temperature(C)", NOT_KNOWN


def _power(chip: Chip) -> Iterator[Field]:
    yield "NPU Real-time Power(W)", NOT_KNOWN


def _health(chip: Chip) -> Iterator[Field]:
    yield "Health Status", "OK"
    yield "Error Code", NOT_KNOWN
    yield "Error Information", NOT_KNOWN


# What `-t` may ask for, and whether the number of the chip is before its fields or after them.
TYPES: dict[str, tuple[Callable[[Chip], Iterable[Field]], bool]] = {
    "usages": (_usages, False),
    "memory": (_memory, False),
    "health": (_health, False),
    "common": (_common, True),
    "temp": (_temperature, True),
    "power": (_power, True),
}


def answer(kind: str, chips: Sequence[Chip], card: int) -> Iterator[str]:
    """`-t KIND -i CARD`: the requested values of each of `chips`, which are on that card."""
    yield _line("NPU ID", card)
    if kind == "board":
        yield from (_line(*field) for field in _board(chips[0]))
        yield _line("Chip Count", len(chips))
        return
    if kind == "proc-mem":
        yield from _processes(chips)
        return
    fields, number_first = TYPES[kind]
    yield _line("Chip Count", len(chips))
    for chip in chips:
        yield ""
        if number_first:
            yield _line("Chip ID", chip.number)
        yield from (_line(*field) for field in fields(chip))
        if not number_first:
            yield _line("Chip ID", chip.number)


def _processes(chips: Sequence[Chip]) -> Iterator[str]:
    for chip in chips:
        for process in chip.processes:
            yield (
                f"\t{f'Process id:{process.pid}':<19}{f'Process name:{process.name[:15]}':<31}"
                f"Process memory(MB):{process.memory}"
            )
        if not chip.processes:
            yield "\tNo process in device."
        yield _line("Chip ID", chip.number)


def watch_header(columns: str) -> str:
    """The headers of `watch`; `columns` are letters of WATCH_COLUMNS."""
    return "".join(f"{head:<12}" for head in ("NpuID(Idx)", "ChipId(Idx)", *(WATCH_COLUMNS[c][0] for c in columns)))


def watch_row(chip: Chip, columns: str) -> str:
    """A chip's row below them."""
    values = (chip.card, chip.number, *(WATCH_COLUMNS[letter][1](chip) for letter in columns))
    return "".join(f"{value!s:<12}" for value in values)
