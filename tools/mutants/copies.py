"""Copies of the repository, each with a Python of its own that imports the copy in every process."""

from __future__ import annotations

import os
import shutil
import site
import sys
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from tools.mutants import switch
from tools.mutants.faults import Mutant, mutated
from tools.mutants.schemata import with_all

LEFT_OUT = (".*", "bench-trees", "dist")


@dataclass(frozen=True)
class Copy:
    """A copy of the repository."""

    root: Path
    python: Path

    @classmethod
    def of(cls, repository: Path, folder: Path) -> Copy:
        """Make a copy in a new folder."""
        root = folder / repository.name
        shutil.copytree(repository, root, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
        shutil.copy(switch.__file__, root / "active_mutants.py")
        return cls(root, _python_of(root, folder / "python"))

    def put_all(self, mutants: Mapping[int, Mutant]) -> set[int]:
        """Write files that have all of their mutants, each behind a condition; return the numbers of those in them."""
        found = set()
        for path, group in groupby(sorted(mutants.items(), key=lambda each: each[1].path), lambda each: each[1].path):
            file = self.root / path
            text, numbers = with_all(file.read_bytes(), dict(group))
            file.write_bytes(text)
            found |= numbers
        return found

    @contextmanager
    def with_only(self, mutant: Mutant | None) -> Iterator[None]:
        """Have a mutant in its file for a while."""
        if mutant is None:
            yield
            return
        file = self.root / mutant.path
        text = file.read_bytes()
        file.write_bytes(mutated(mutant, text))
        try:
            yield
        finally:
            file.write_bytes(text)

    @property
    def temporary(self) -> Path:
        """The folder for what tests write; its name is short, since those of sockets have to be."""
        return self.root.parent

    @property
    def log(self) -> Path:
        """The output of pytest."""
        return self.root.parent / "log"


def _python_of(root: Path, folder: Path) -> Path:
    """A Python that has a folder and the packages that are installed here, but nothing that is installed as editable.

    Its commands are those that are installed here, too; they run under it.
    """
    venv.EnvBuilder(symlinks=True).create(folder)
    python = folder / "bin" / "python"
    packages = next((folder / "lib").glob("python*/site-packages"))
    (packages / "copy.pth").write_text("\n".join([str(root), *site.getsitepackages()]))
    here = Path(sys.executable).parent
    for command in here.iterdir():
        there = folder / "bin" / command.name
        if not there.exists() and command.is_file():
            text = command.read_bytes()
            if text.startswith(b"#!" + os.fsencode(here)):
                there.write_bytes(text.replace(os.fsencode(here), os.fsencode(python.parent), 1))
                there.chmod(0o755)
            else:
                there.symlink_to(command)
    return python
