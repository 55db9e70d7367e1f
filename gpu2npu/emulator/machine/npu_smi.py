"""The program `npu-smi` of the emulated machine. It reads what processes say of themselves, and sets nothing."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Sequence
from typing import NoReturn

from gpu2npu.emulator.machine import queries
from gpu2npu.emulator.machine.chips import Chip, chips
from gpu2npu.emulator.machine.info_table import VERSION, info_table

USAGE = """\
Usage: npu-smi info                              all NPUs, and the processes on them
       npu-smi info -l                           the cards
       npu-smi info -m                           the chips, and their numbers
       npu-smi info -t TYPE -i CARD [-c CHIP]    TYPE: board, common, health, memory, power, proc-mem, temp, usages
       npu-smi info watch [-i CARD] [-c CHIP] [-d SECONDS] [-s LETTERS]
       npu-smi -v | -h

This is the emulated NPUs' npu-smi: memory and AI cores are those of the emulated processes that run now. Power and
temperature are NA. Settings (npu-smi set, upgrade, clear) do not exist.
"""

_ALL = "".join(queries.WATCH_COLUMNS)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(1, f"Error: {message}. See npu-smi -h.\n")


def main(arguments: Sequence[str]) -> int:
    """Answer a command line; the exit status."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(USAGE, end="")
        return 0
    if arguments[0] in ("-v", "--version"):
        print(f"npu-smi version: {VERSION}")
        return 0
    if arguments[0] != "info":
        print(f"npu-smi {arguments[0]}: the emulated NPUs have nothing to set. See npu-smi -h.", file=sys.stderr)
        return 1
    if arguments[1:] in (["-h"], ["--help"]):
        print(USAGE, end="")
        return 0
    try:
        if arguments[1:2] == ["watch"]:
            return _watch(arguments[2:])
        return _info(arguments[1:])
    except (ValueError, RuntimeError) as error:  # GPU2NPU_NPUS or GPU2NPU_SOC is wrong
        print(f"npu-smi: {error}", file=sys.stderr)
        return 1


def _info(arguments: Sequence[str]) -> int:
    parser = _Parser(prog="npu-smi info", add_help=False, allow_abbrev=False)
    parser.add_argument("-l", action="store_true", dest="listing")
    parser.add_argument("-m", action="store_true", dest="mapping")
    parser.add_argument("-t", dest="kind", choices=["board", "proc-mem", *queries.TYPES])
    parser.add_argument("-i", dest="card", type=int)
    parser.add_argument("-c", dest="chip", type=int)
    options = parser.parse_args(arguments)
    installed = chips()
    if options.kind is None:
        lines = queries.listing if options.listing else queries.mapping if options.mapping else info_table
        _print(lines(installed))
        return 0
    if options.card is None:
        parser.error(f"-t {options.kind} needs -i CARD")
    _print(queries.answer(options.kind, _chosen(parser, installed, options.card, options.chip), options.card))
    return 0


def _watch(arguments: Sequence[str]) -> int:
    parser = _Parser(prog="npu-smi info watch", add_help=False, allow_abbrev=False)
    parser.add_argument("-i", dest="card", type=int)
    parser.add_argument("-c", dest="chip", type=int)
    parser.add_argument("-d", dest="delay", type=float, default=1.0)
    parser.add_argument("-s", dest="columns", default=_ALL)
    options = parser.parse_args(arguments)
    if not set(options.columns) <= set(_ALL):
        parser.error(f"-s takes letters of {_ALL}")
    _chosen(parser, chips(), options.card, options.chip)
    print(queries.watch_header(options.columns), flush=True)
    while True:
        chosen = _chosen(parser, chips(), options.card, options.chip)
        _print(queries.watch_row(chip, options.columns) for chip in chosen)
        time.sleep(options.delay)


def _chosen(parser: _Parser, installed: Sequence[Chip], card: int | None, chip: int | None) -> Sequence[Chip]:
    found = [each for each in installed if card in (None, each.card) and chip in (None, each.number)]
    if not found:
        parser.error(f"there is no NPU {card}" if chip is None else f"there is no chip {chip} on NPU {card}")
    return found


def _print(lines: Iterable[str]) -> None:
    print("\n".join(lines), flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # `npu-smi info | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
