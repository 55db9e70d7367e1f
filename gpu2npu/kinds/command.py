"""Rules for programs that scripts run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpu2npu.records import FindingKind, Severity
from gpu2npu.rulebook.match import Json, Match


@dataclass(frozen=True)
class CommandMatch(Match):
    """A program that a script or a subprocess call runs."""

    command: str

    key = "command"
    shape: ClassVar[Json] = {
        "command": {
            "description": "A program that scripts, or subprocess calls in Python, run.",
            "type": "string",
            "pattern": "^[\\w.+-]+$",
        }
    }
    actions = ("rename",)
    in_strings = True
    starter: ClassVar[Json] = {
        "$comment": "A program that scripts run. Where Python runs it, it is reported: its output may be read.",
        "why": "The monitor of our cluster has another name on NPU nodes.",
        "match": {"command": "gpu-watch"},
        "then": {"rename": "npu-watch"},
        "examples": [{"keep": "import subprocess\nsubprocess.run(['gpu-watch', '-n', '1'])\n", "reports": "review"}],
    }

    @property
    def only_python(self) -> bool:
        return False

    @property
    def text(self) -> str:
        return f"the command `{self.command}` in scripts, and where Python code runs it"

    @property
    def subject(self) -> str:
        return f"{self.command} (command)"

    def severity(self, kind: FindingKind) -> Severity:
        return Severity.ENVIRONMENT
