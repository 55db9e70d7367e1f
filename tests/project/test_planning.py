"""The codemods are planned in parts, wherever and in whatever order; a part that cannot be planned stays as it is."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

import pytest

from gpu2npu.codemods.choice import CodemodChoice, CodemodError, ProjectPart
from gpu2npu.codemods.part_plan import plan_part
from gpu2npu.codemods.project_plan import PlannedPart, plan_codemods
from gpu2npu.engine import ProjectContext
from gpu2npu.project.migrator import Migrator
from gpu2npu.project.planning import PartPlanning
from gpu2npu.project.pool import Pool
from gpu2npu.rulebook import load_rulebook

SCRIPT = b"""import torch
from library{0} import Net


def main():
    model = torch.nn.DataParallel(Net().cuda())
    model(torch.ones(2).cuda()).sum().backward()


if __name__ == "__main__":
    main()
"""
LIBRARY = b"""import torch


class Net(torch.nn.Module):
    def __init__(self):
        self.fc = torch.nn.Linear(2, 2)
"""


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    monkeypatch.setattr("gpu2npu.codemods.project_plan._PART_SIZE", 0)
    scripts = {f"train{n}.py": SCRIPT.replace(b"{0}", str(n).encode()) for n in range(4)}
    return scripts | {f"library{n}.py": LIBRARY for n in range(4)}


def context(sources: dict[str, bytes]) -> ProjectContext:
    return ProjectContext(files=frozenset(sources))


def test_any_executor_plans_the_same_and_the_files_are_counted(sources: dict[str, bytes]) -> None:
    expected = plan_codemods(sources, context(sources), CodemodChoice())
    assert sorted(expected.rewrites) == [f"train{n}.py" for n in range(4)]
    seen: list[tuple[int, int, str]] = []

    def show(done: int, total: int, verb: str = "done") -> None:
        seen.append((done, total, verb))

    executors: list[Executor | None] = [None, ThreadPoolExecutor(3)]
    for executor in executors:
        planning = PartPlanning(Pool(executor=executor), show)
        assert plan_codemods(sources, context(sources), CodemodChoice(), planning) == expected
    assert seen == [(done, 8, "planned") for done in (2, 4, 6, 8)] * 2


def test_a_part_that_fails_leaves_its_own_files_as_they_are(sources: dict[str, bytes]) -> None:
    def plan(part: ProjectPart) -> PlannedPart:
        if "train2.py" in part.sources:
            raise ZeroDivisionError("x")
        return plan_part(part)

    with ThreadPoolExecutor(1) as executor:
        planning = PartPlanning(Pool(executor=executor))
        found = plan_codemods(sources, context(sources), CodemodChoice(), lambda _, parts: planning(plan, parts))
    assert sorted(found.rewrites) == ["train0.py", "train1.py", "train3.py"]
    reason = "the programs that it is part of could not be looked at (ZeroDivisionError: x)"
    assert found.failures == {"train2.py": reason}
    migrator = Migrator(load_rulebook(), context(sources), found)
    assert migrator.concerns(sources["train2.py"], "train2.py")
    file = migrator(sources["train2.py"], "train2.py")
    assert (file.failure, file.content) == (reason, None)
    assert migrator(sources["train1.py"], "train1.py").failure is None


@pytest.mark.parametrize("has_executor", [False, True])
def test_of_a_part_that_fails_only_the_component_that_fails_is_left(
    sources: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, has_executor: bool
) -> None:
    monkeypatch.setattr("gpu2npu.codemods.project_plan._PART_SIZE", 1 << 20)
    planned: list[tuple[str, ...]] = []

    def plan(part: ProjectPart) -> PlannedPart:
        planned.append(part.wanted)
        if "train2.py" in part.sources:
            raise ZeroDivisionError("x")
        return plan_part(part)

    executor = ThreadPoolExecutor(1) if has_executor else None
    planning = PartPlanning(Pool(executor=executor))
    found = plan_codemods(sources, context(sources), CodemodChoice(), lambda _, parts: planning(plan, parts))
    assert sorted(map(len, planned)) == [1, 1, 1, 1, 4]
    assert sorted(found.rewrites) == ["train0.py", "train1.py", "train3.py"]
    assert sorted(found.failures) == ["train2.py"]


def test_what_a_codemod_cannot_do_ends_the_run(sources: dict[str, bytes]) -> None:
    with pytest.raises(CodemodError, match="'net' was found"):
        plan_codemods(sources, context(sources), CodemodChoice(options={"amp_model": "net"}), PartPlanning())


def test_the_command_plans_in_processes(sources: dict[str, bytes], tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for path, content in sources.items():
        for folder in ("one", "two"):
            (project / folder).mkdir(exist_ok=True)
            (project / folder / path).write_bytes(content + b"# " + b"filling " * 8_000 + b"\n")
    written = []
    for jobs in ("1", "2"):
        command = [sys.executable, "-m", "gpu2npu", "-i", project, "-o", tmp_path / jobs, "-v", "2.1.0", "-j", jobs]
        subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
        copy = tmp_path / jobs / "project_msft"
        files = {path.relative_to(copy).as_posix(): path for path in copy.rglob("*.*")}
        written.append({name: path.read_bytes() for name, path in files.items() if path.suffix in (".py", ".csv")})
    assert written[0] == written[1]
    assert b"DistributedDataParallel" in written[0]["one/train0.py"]
