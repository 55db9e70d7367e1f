"""The share of the changes of Python that LibCST makes: all of them, in each file that a migration writes.

By default in five fixtures, two of them with options; with GPU2NPU_TEST_LABELS=all, as `make test-labels` sets it, in
the labelled packages too, and in the folders that GPU2NPU_TEST_SHARE names, separated by colons.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.archives import Package, fetch_package
from benchmarks.labels import TREES, chosen_packages
from gpu2npu.codemods import plan_codemods
from gpu2npu.codemods.affinity.catalogue import KINDS
from gpu2npu.codemods.choice import DEFAULT_CHOICE, CodemodChoice
from gpu2npu.engine import ProjectContext, outcome
from gpu2npu.engine.migrate import migrate_source
from gpu2npu.python.text.edits import Edited
from gpu2npu.python.text.offsets import holds
from gpu2npu.python.text.source import read_source
from gpu2npu.python.text.writing import Written
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.records import Edit
from gpu2npu.rulebook import load_rulebook

ROOT = Path(__file__).parents[3]
RULEBOOK = load_rulebook()
OPTIONS = CodemodChoice(options={"affinity": tuple(KINDS), "modelarts": True, "similar": True, "specify_device": True})
FOLDERS = [Path(each) for each in os.environ.get("GPU2NPU_TEST_SHARE", "").split(":") if each]
PACKAGES = chosen_packages() if os.environ.get("GPU2NPU_TEST_LABELS") == "all" else []


@pytest.fixture
def share(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, int]]:
    """`share(project)`: how many edits a migration makes in Python, and how many of them LibCST makes."""

    def call(project: Path, choice: CodemodChoice = DEFAULT_CHOICE) -> tuple[int, int]:
        files: list[Written] = []

        def counted(file: PythonFile, edited: Edited) -> Written:
            files.append(write(file, edited))
            return files[-1]

        write = outcome._written
        monkeypatch.setattr(outcome, "_written", counted)
        paths = {path.relative_to(project).as_posix(): path for path in sorted(project.rglob("*.py"))}
        sources = {name: path.read_bytes() for name, path in paths.items()}
        context = ProjectContext(files=frozenset(sources), read=sources.__getitem__)
        rewrites = plan_codemods(sources, context, choice).rewrites
        made = ours = 0
        for path, source in sources.items():
            files.clear()
            result = migrate_source(source, path, RULEBOOK, context, rewrites.get(path))
            assert result.failure is None or "Python 2" in result.failure, (path, result.failure)
            if result.content is not None:
                (written,) = files
                assert result.content == read_source(source, path).encode(written.text)
                edits = [edit for edit, _ in written.edited.made()]
                made += len(edits)
                ours += sum(edit not in written.refused and _is_in_a_part(edit, written) for edit in edits)
        return made, ours

    return call


def _is_in_a_part(edit: Edit, written: Written) -> bool:
    return any(holds((part.start, part.end), edit.place) for part in written.replacements)


@pytest.mark.parametrize("fixture", ["ddp_imagenet", "mixed_package", "gan"])
def test_all_changes_of(share: Callable[..., tuple[int, int]], fixture: str) -> None:
    made, ours = share(ROOT / "fixtures" / fixture)
    assert ours == made > 9


@pytest.mark.parametrize(("fixture", "least"), [("affinity", 30), ("data_parallel", 100)])
def test_all_changes_with_options(share: Callable[..., tuple[int, int]], fixture: str, least: int) -> None:
    made, ours = share(ROOT / "fixtures" / fixture, OPTIONS)
    assert ours == made > least


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_all_changes_of_the_folder(share: Callable[..., tuple[int, int]], folder: Path) -> None:
    made, ours = share(folder, OPTIONS)
    print(f"{folder.name}: {ours} of {made}")
    assert ours == made


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_all_changes_of_the_package(share: Callable[..., tuple[int, int]], package: Package) -> None:
    made, ours = share(fetch_package(package, TREES))
    assert ours == made
