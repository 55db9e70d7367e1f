"""Migrate, check and analyse agree: what one of them changes or reports is known to the others.

By default about a third of the fixtures; GPU2NPU_TEST_LABELS=all, as `make test-labels` sets it, takes all.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from msgspec.structs import replace

import tools.agreement
from gpu2npu.cli.main import cli
from gpu2npu.project.migration import preview_project
from gpu2npu.records import Change, Finding
from gpu2npu.rulebook import load_rulebook
from tools.agreement import agreement

ALL = os.environ.get("GPU2NPU_TEST_LABELS") == "all"
ROOT = Path(__file__).parents[2]
# The folders of `many_cards` are programs of their own.
FIXTURES = sorted(
    {path.parent for path in (ROOT / "fixtures").glob("*/*") if path.parent.name != "many_cards"}
    | {path for path in (ROOT / "fixtures" / "many_cards").iterdir() if path.is_dir()}
)
# Other people's code that is there wherever the tests run.
PARTS_OF_TORCH = ("amp", "nn/parallel", "utils/data")


@pytest.mark.parametrize("project", FIXTURES if ALL else FIXTURES[::3], ids=lambda path: path.name)
def test_fixtures(project: Path) -> None:
    result = agreement(project, "2.1.0")
    assert result.changes
    assert not result.disagreements


@pytest.mark.parametrize("part", PARTS_OF_TORCH)
def test_parts_of_torch(part: str) -> None:
    assert not agreement(Path(torch.__file__).parent / part, "2.7.1").disagreements


def test_the_examples_of_all_rules(tmp_path: Path) -> None:
    for rule in load_rulebook().rules:
        for number, example in enumerate(rule.examples):
            file = tmp_path / f"{rule.id}-{number}" / example.file
            file.parent.mkdir(parents=True)
            file.write_text(example.before, encoding="utf-8")
    result = agreement(tmp_path, "2.7.1")
    assert result.changes > 400
    assert result.findings > 100
    assert not result.disagreements


def test_what_only_one_of_them_knows_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.py").write_text("import torch\nx = torch.ones(1).cuda()\ntorch.sspaddmm(x, x, x)\n")

    def forgetful(*given):
        preview = preview_project(*given)
        files = tuple(
            replace(file, changes=file.changes[1:], findings=file.findings[1:]) for file in preview.outcome.files
        )
        return replace(preview, outcome=replace(preview.outcome, files=files))

    monkeypatch.setattr(tools.agreement, "preview_project", forgetful)
    found = agreement(tmp_path, "2.1.0").disagreements
    assert [(each.by, type(each.record)) for each in found] == [
        ("check", Change),
        ("check", Finding),
        ("analyse", tuple),
        ("the rules without a gate", Change),
    ]


def test_a_migration_and_a_check_count_the_same(tmp_path: Path) -> None:
    """Count those of a project with a file that cannot be read, which both name apart from the findings."""
    project = str(ROOT / "fixtures" / "mixed_package")
    migrated = CliRunner().invoke(cli, ["-i", project, "-o", str(tmp_path), "-v", "2.7.1"]).stdout
    checked = CliRunner().invoke(cli, ["check", project, "-v", "2.7.1"]).stdout
    counts = re.findall(r"(?m)^\d+ findings of \d+ causes in \d+ files \(\d+ looked at\)", migrated + checked)
    assert len(counts) == 2 and counts[0] == counts[1]
    assert f"Findings: {counts[0].split()[0]}\n" in migrated
