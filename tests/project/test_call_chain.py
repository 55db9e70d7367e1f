"""From the command line to the first rule it is a few calls, whoever reads them: a call more has to have a reason."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

import gpu2npu
from gpu2npu.cli.main import cli
from gpu2npu.engine import migrate

PACKAGE = Path(gpu2npu.__file__).parent
_Answer = TypeVar("_Answer")
# What gives a file to a process and catches what it raises there.
POOL = {("project/pool.py", "_here"), ("project/pool.py", "_migrated")}


@pytest.mark.parametrize(
    ("command", "calls"),
    [(["-i", "{project}", "-o", "{out}", "-v", "2.1.0", "-q"], 9), (["check", "{project}", "--no-cache", "-q"], 12)],
    ids=["migrate", "check"],
)
def test_the_calls_from_the_command_line_to_the_first_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], calls: int
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text("import torch\ntorch.zeros(1).cuda()\n")
    chains: list[list[tuple[str, str]]] = []
    find_matches = migrate.find_matches

    def recording(*arguments):
        frames = [(Path(each.filename), each.function) for each in inspect.stack(0)[1:]]
        found = [(path.relative_to(PACKAGE).as_posix(), name) for path, name in frames if PACKAGE in path.parents]
        chains.append([each for each in found if each not in POOL and each[1] != "<listcomp>"])
        return find_matches(*arguments)

    def directly(work: Callable[[], _Answer]) -> _Answer:
        return work()

    monkeypatch.setattr(migrate, "find_matches", recording)
    monkeypatch.setattr("gpu2npu.project.pool.can_start_processes", lambda: False)
    monkeypatch.setattr("gpu2npu.project.pool.with_deep_stack", directly)
    arguments = [each.format(project=project, out=tmp_path / "out") for each in command]
    cli.main(arguments, standalone_mode=False)
    assert len(chains[0]) == calls, chains[0]
    assert {path.partition("/")[0] for path, _ in chains[0]} == {"cli", "project", "formats", "engine"}
