"""run_distributed_npu.sh: the launcher that a project which trains on several cards gets beside its reports."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from gpu2npu.records import Outcome

LAUNCHER_NAME = "run_distributed_npu.sh"
MULTI_CARD = "multi-card"


def trains_on_several_cards(outcome: Outcome) -> bool:
    return any(MULTI_CARD in file.traits for file in outcome.files)


def launcher_bytes() -> bytes:
    return (files("gpu2npu.report") / "templates" / LAUNCHER_NAME).read_bytes()


def write_launcher(file: Path) -> None:
    file.write_bytes(launcher_bytes())
    file.chmod(0o755)
