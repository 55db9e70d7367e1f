"""The switch of mutants: each condition in the copy of the repository calls this module, which is at its root.

The environment says which are active, and in which folder to write down who reaches which, also to the processes that
tests start. Each line there is a mutant's number and the test that runs, empty while modules are imported.
"""

from __future__ import annotations

import os

active = frozenset(map(int, os.environ.get("ACTIVE_MUTANTS", "").split()))
folder = os.environ.get("REACHED_MUTANTS", "")
_written: set[tuple[int, str]] = set()


def is_active(number: int) -> bool:
    """Return whether the expression with this number is to be the wrong one."""
    if folder:
        _write(number, os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0])
    return number in active


def _write(number: int, test: str) -> None:
    if (number, test) not in _written:
        _written.add((number, test))
        file = os.open(f"{folder}/{os.getpid()}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{number} {test}\n".encode())
        os.close(file)
