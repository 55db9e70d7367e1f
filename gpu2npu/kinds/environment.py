"""Rules for environment variables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from gpu2npu.records import FindingKind, Severity
from gpu2npu.rulebook.match import IDENTIFIER, Json, Match


@dataclass(frozen=True)
class EnvironmentMatch(Match):
    """An environment variable, in Python and elsewhere; a final `*` stands for any rest of the name."""

    variable: str

    key = "environment"
    shape: ClassVar[Json] = {
        "environment": {
            "description": "An environment variable, in Python, scripts and configurations; NCCL_* is a family.",
            "type": "string",
            "pattern": "^[A-Za-z_]\\w*\\*?$",
        }
    }
    actions = ("rename", "values")
    new_name = (IDENTIFIER, "the name of an environment variable")
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
    def only_python(self) -> bool:
        return False

    @property
    def text(self) -> str:
        return f"the environment variable{'s' if self.variable.endswith('*') else ''} `{self.variable}`"

    @property
    def subject(self) -> str:
        return f"${self.variable}"

    def is_on(self, line: str) -> bool:
        if not self.variable.endswith("*"):
            return super().is_on(line)
        return re.search(rf"\b{self.variable[:-1]}", line) is not None

    def severity(self, kind: FindingKind) -> Severity:
        return Severity.ENVIRONMENT
