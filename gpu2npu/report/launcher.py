"""run_distributed_npu.sh: the launcher that a project which trains on several cards gets beside its reports."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from gpu2npu.records import Outcome

LAUNCHER_NAME = "run_distributed_npu.sh"
MULTI_CARD = "multi-card"

# The words that the vendor's tool writes where the command belongs, and its documents say to replace.
_FILL_IN = b"COMMAND=(please input your shell script here)\n"


def trains_on_several_cards(outcome: Outcome) -> bool:
    return any(MULTI_CARD in file.traits for file in outcome.files)


def launcher_bytes(command: Sequence[str] | None = None) -> bytes:
    """The script. `command` is what it starts for each NPU, a word each, as a shell would pass them on: nothing in
    it is expanded. Without one, the user fills in the marked line, or gives a command as the script's arguments.
    """
    text = (files("gpu2npu.report") / "templates" / LAUNCHER_NAME).read_bytes()
    if not command:
        return text
    words = " ".join(map(shlex.quote, command))
    return text.replace(_FILL_IN, b"# shellcheck disable=SC1003,SC2016\nCOMMAND=(" + os.fsencode(words) + b")\n", 1)


def write_launcher(file: Path, command: Sequence[str] | None = None) -> None:
    """Write the launcher, ready to run if there is a `command`. Raises OSError."""
    file.write_bytes(launcher_bytes(command))
    file.chmod(0o755)
