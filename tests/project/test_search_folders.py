"""Folders that a program puts on sys.path are looked into by check and migration alike."""

from pathlib import Path

import pytest

from gpu2npu.project.check.choice import CheckChoice
from gpu2npu.project.check.session import check_project
from gpu2npu.project.location import Output
from gpu2npu.project.migration import migrate_project
from gpu2npu.project.settings import Settings

TRAIN = """import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib", "deep"))
from kit import th

th.sspaddmm(1, 2, 3)
th.cuda.synchronize()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {"tools/train.py": TRAIN, "lib/deep/kit.py": "import torch as th\n"}
    for name, text in files.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return tmp_path / "project"


def test_migration_and_check_follow_them(project: Path, tmp_path: Path) -> None:
    _, written = migrate_project(project, Settings("2.1.0", jobs=1), Output(tmp_path / "out"))
    assert "th.npu.synchronize()" in (written / "tools/train.py").read_text()
    for cache in (None, tmp_path / "cache", tmp_path / "cache"):
        result, _ = check_project((project,), Settings("2.1.0", jobs=1), CheckChoice(cache=cache))
        assert {found.finding.api for _, found in result.reported()} == {"torch.sspaddmm"}


def test_a_folder_that_is_added_later_reaches_the_files_with_stored_answers(project: Path, tmp_path: Path) -> None:
    def found() -> set[str]:
        result, _ = check_project((project,), Settings("2.1.0", jobs=1), CheckChoice(cache=tmp_path / "cache"))
        return {found.finding.api for _, found in result.reported()}

    main = project / "tools/train.py"
    main.write_text(TRAIN.replace("sys.path.insert", "print"))
    assert found() == set()
    (project / "start.py").write_text("import sys\nsys.path.append('lib/deep')\nimport train\n")
    assert found() == {"torch.sspaddmm"}
