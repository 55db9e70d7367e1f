"""All checks of a machine, in the order in which a person mends it."""

from __future__ import annotations

from gpu2npu.doctor.ascend import ascend_lines
from gpu2npu.doctor.machine import CheckLine, Machine, ok
from gpu2npu.doctor.python_packages import package_lines


def examine(machine: Machine) -> list[CheckLine]:
    """Return the lines of every check, from the NPUs up to the packages of Python."""
    name = machine.architecture
    kind = f"{name}, emulated by `gpu2npu run`" if machine.is_emulated else f"{name}, a real machine"
    return [ok("machine", kind), *ascend_lines(machine), *package_lines(machine)]
