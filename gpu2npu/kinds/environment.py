"""Rules for environment variables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from gpu2npu.records import FindingKind, Severity
from gpu2npu.rulebook.match import IDENTIFIER, Json, Match

_REST = re.compile(r"\$[A-Z]\w*$")  # a metavariable at the end of a name


@dataclass(frozen=True)
class EnvironmentMatch(Match):
    """An environment variable, in Python and elsewhere; a final `*` stands for any rest of the name, and so does a
    final metavariable, `$X`, which the new name may have too."""

    variable: str

    key = "environment"
    shape: ClassVar[Json] = {
        "environment": {
            "description": "An environment variable, in Python, scripts and configurations; NCCL_* is a family, and "
            "so is LIB_GPU_$X, whose rest the new name may have: LIB_NPU_$X.",
            "type": "string",
            "pattern": "^[A-Za-z_]\\w*(\\*|\\$[A-Z]\\w*)?$",
        }
    }
    actions = ("rename", "values")
    new_name = (re.compile(rf"{IDENTIFIER.pattern}(\$[A-Z]\w*)?"), "the name of an environment variable")
    in_strings = True
    starter: ClassVar[Json] = {
        "$comment": "An environment variable, in Python and in scripts.",
        "why": "The library reads another variable on the NPU.",
        "match": {"environment": "FASTLIB_CUDA_CACHE"},
        "then": {"rename": "FASTLIB_NPU_CACHE"},
        "examples": [
            {
                "before": "import os\nos.environ['FASTLIB_CUDA_CACHE'] = '/tmp'\n",
                "after": "import os\nos.environ['FASTLIB_NPU_CACHE'] = '/tmp'\n",
            }
        ],
    }

    @property
    def index(self) -> str:
        return _REST.sub("*", self.variable)

    def renamed(self, name: str, new: str) -> str:
        rest = _REST.search(self.variable)
        return new if rest is None else new.replace(rest[0], name[rest.start() :])

    @property
    def only_python(self) -> bool:
        return False

    @property
    def text(self) -> str:
        return f"the environment variable{'s' if self.index.endswith('*') else ''} `{self.variable}`"

    @property
    def subject(self) -> str:
        return f"${self.variable}"

    def is_on(self, line: str) -> bool:
        if not self.index.endswith("*"):
            return super().is_on(line)
        return re.search(rf"\b{self.index[:-1]}", line) is not None

    def meets(self, other: Match) -> bool:
        return isinstance(other, EnvironmentMatch) and self.index == other.index

    @classmethod
    def problems(cls, entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        rest = _REST.search(entry["then"].get("rename", ""))
        if rest is not None and not entry["match"]["environment"].endswith(rest[0]):
            yield "then.rename", f"the metavariable {rest[0]} is not in the variable that is matched"

    def severity(self, kind: FindingKind) -> Severity:
        return Severity.ENVIRONMENT
