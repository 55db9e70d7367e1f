"""Rules for imported packages, and for what installs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from gpu2npu.records import FindingKind, Severity
from gpu2npu.rulebook.match import Evidence, Json, Match, leaf, listed


@dataclass(frozen=True)
class ImportMatch(Match):
    """An import of a module or of something under it. `distributions` are the names that pip knows it by.

    A leading `*` stands for any beginning of the name of a module that the project does not have in Python.
    """

    module: str
    distributions: frozenset[str] = frozenset()

    key = "import"
    shape: ClassVar[Json] = {
        "import": {
            "description": "A package or module that is imported, with everything under it; *_cuda is any by that "
            "ending.",
            "type": "string",
            "pattern": "^(\\*\\w+|[A-Za-z_]\\w*(\\.[A-Za-z_]\\w*)*)$",
        },
        "distributions": {
            "description": "The names it is installed by, as in requirements.txt.",
            "$ref": "#/$defs/words",
        },
    }
    actions = ("remove", "add", "own_devices")
    additions = ("statement",)
    starter: ClassVar[Json] = {
        "$comment": "An import of a package: here only reported, with what to do about it.",
        "why": "The package has CUDA kernels alone.",
        "match": {"import": "fastlib_cuda", "distributions": ["fastlib-cuda"]},
        "then": {"report": {"kind": "unsupported", "message": "Use fastlib_ascend, version 2 or later."}},
        "examples": [{"keep": "import fastlib_cuda\n", "reports": "unsupported"}],
    }

    @property
    def is_ending(self) -> bool:
        """Return whether it is for modules of many packages, by how their names end."""
        return self.module.startswith("*")

    @property
    def evidence(self) -> Evidence:
        ending = self.module.removeprefix("*")
        return Evidence(self.module) if ending == self.module else Evidence(pattern=rf"{ending}\b")

    @property
    def only_python(self) -> bool:
        return False

    @property
    def text(self) -> str:
        names = f", installed as {listed(self.distributions)}" if self.distributions else ""
        if self.is_ending:
            return f"imports of modules `{self.module}` that the project does not have in Python{names}"
        return f"imports of `{self.module}` and of what is under it{names}"

    @property
    def subject(self) -> str:
        return f"import {self.module}"

    @property
    def word(self) -> str:
        return leaf(self.module)

    def severity(self, kind: FindingKind) -> Severity:
        """A package with a version for the NPU belongs to the environment; nothing takes the place of the others."""
        return Severity.BLOCKER if kind is FindingKind.UNSUPPORTED else Severity.ENVIRONMENT

    @classmethod
    def problems(cls, entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        add = entry["then"].get("add", {})
        if add and entry["match"]["import"].startswith("*"):
            yield "then.add", "is for one package; an ending of names is for many"
        if add.get("place", "before") not in ("before", "after"):
            yield "then.add.place", f"{add['place']!r} is no place beside an import; possible: 'before', 'after'"

    def meets(self, other: Match) -> bool:
        return isinstance(other, ImportMatch) and self.module == other.module
