"""The commands of the two programs: a migrated copy that wants a process for each card is started by its launcher."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from gpu2npu.emulator.launch import LaunchError
from gpu2npu.report.launcher import LAUNCHER_NAME
from gpu2npu.verify.comparing.changes import read_changes

_SHELLS = ("bash", "sh")
_TORCHRUN = ("torchrun", "torch.distributed.run", "torch.distributed.launch", "accelerate", "deepspeed", "mpirun")
_PROCESSES = re.compile(r"--nproc[_-]per[_-]node(?:=(\d+))?")
_MAKES_GROUP = "init_process_group("
_WRONG_USE = 2


@dataclass(frozen=True)
class Commands:
    """The commands of the original and of its migrated copy.

    `shared`: the original is one process, and the copy one for each card, among which a batch is shared. On one card it
    is a process group of one, which deals out samples in the same way.
    """

    original: tuple[str, ...]
    migrated: tuple[str, ...]
    shared: bool = False


def cards_of(command: tuple[str, ...]) -> int:
    """The number of cards that a command says it uses, by torchrun's option; 1 unless it does."""
    for place, word in enumerate(command):
        found = _PROCESSES.fullmatch(word)
        if found is not None:
            number = found[1] or next(iter(command[place + 1 : place + 2]), "")
            return int(number) if number.isdigit() and int(number) else 1
    return 1


def commands(command: tuple[str, ...], copy: Path, cards: int) -> Commands:
    """The command of each program, of what the user typed, with that many cards.

    Raises:
        gpu2npu.emulator.launch.LaunchError: It is the launcher without a command.
    """
    place = _launcher_in(command)
    becomes_ranks = _becomes_ranks(copy)
    if place is not None:
        return _of_launcher(command, place, becomes_ranks, cards)
    if not becomes_ranks or _starts_ranks(command):
        return Commands(command, command)
    if cards == 1 or not (copy / LAUNCHER_NAME).is_file():
        return Commands(command, command, shared=cards == 1)
    return Commands(command, ("bash", LAUNCHER_NAME, *_words(command)), shared=True)


def _launcher_in(command: tuple[str, ...]) -> int | None:
    place = 1 if command[0] in _SHELLS and len(command) > 1 else 0
    return place if Path(command[place]).name == LAUNCHER_NAME else None


def _of_launcher(command: tuple[str, ...], place: int, becomes_ranks: bool, cards: int) -> Commands:
    """The launcher is the copy's alone: the original is run without it, or by torchrun where it wants ranks itself."""
    program = command[place + 1 :]
    if not program:
        raise LaunchError(
            f"{LAUNCHER_NAME} is not in the original: say what it starts, as in `{LAUNCHER_NAME} python train.py`",
            _WRONG_USE,
        )
    migrated = ("bash", *command[place:])
    if becomes_ranks:
        return Commands(program, migrated, shared=True)
    script = program[1:] if program[0] in ("python", "python3") else ("--no-python", *program)
    return Commands(("-m", "torch.distributed.run", "--nproc_per_node", str(cards), *script), migrated)


def _words(command: tuple[str, ...]) -> tuple[str, ...]:
    """A command as a shell takes it: scripts and modules are given to python."""
    return ("python", *command) if command[0].endswith(".py") or command[0] in ("-m", "-c") else command


def _starts_ranks(command: tuple[str, ...]) -> bool:
    return any(Path(word).name in _TORCHRUN for word in command)


def _becomes_ranks(copy: Path) -> bool:
    """Return whether the migration made a program of one process one of several."""
    return any(_MAKES_GROUP in row.after for row in read_changes(copy) if row.rule == "data-parallel")
