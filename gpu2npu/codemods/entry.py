"""The programs of a project: the files that are started, and what of the project each of them runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import libcst as cst

from gpu2npu.codemods.program import ParsedFile


@dataclass(frozen=True, eq=False)
class Entry:
    """A file that is started, `python train.py`, and the code that may run then.

    `files` are the project's files that it imports, itself among them, by path. `reached` has the ids of the functions
    and classes in them that may be called, as far as names tell; code outside of functions always runs.
    """

    file: ParsedFile
    files: Mapping[str, ParsedFile]
    reached: frozenset[int]

    def runs(self, file: ParsedFile, node: cst.CSTNode) -> bool:
        """Whether a node of one of its files lies in code that it may run."""
        if file.path not in self.files:
            return False
        above = file.parents.get(id(node))
        while above is not None:
            if isinstance(above, (cst.FunctionDef, cst.ClassDef)) and id(above) not in self.reached:
                return False
            above = file.parents.get(id(above))
        return True
