"""A post release of torch_npu that is asked for: its facts, and since when what it lacks or has is there."""

from pathlib import Path

import pytest

from gpu2npu.engine import ProjectContext, migrate_source
from gpu2npu.project.check.session import check_project
from gpu2npu.project.settings import Settings
from gpu2npu.report.check.result import CheckResult
from gpu2npu.rulebook import load_rulebook

PROGRAM = b"import torch\nfree, total = torch.cuda.mem_get_info()\ng = torch.cuda.CUDAGraph()\n"
RULES = load_rulebook()


def check(folder: Path, version: str, torch_npu: str = "") -> CheckResult:
    (folder / "train.py").write_bytes(PROGRAM)
    (folder / "Dockerfile").write_text("FROM nvidia/cuda:12.1.0-devel-ubuntu22.04\nCOPY . .\n")
    return check_project((folder,), Settings(version, torch_npu, jobs=1))[0]


@pytest.mark.parametrize(
    ("version", "torch_npu", "evidence", "new_in"),
    [
        ("2.1.0", "", "torch_npu-2.1.0.post17, CANN 8.3.RC1", {}),
        ("2.1.0.post12", "", "torch_npu-2.1.0.post12, CANN 8.1.RC1", {}),
        ("", "2.1.0.post3", "torch_npu-2.1.0.post3, CANN 8.0.RC1", {"torch.npu.NPUGraph": "2.1.0.post12"}),
        (
            "2.1.0",
            "2.1.0",
            "torch_npu-2.1.0, CANN 7.0.0",
            {"torch.npu.NPUGraph": "2.1.0.post12", "torch.npu.mem_get_info": "2.1.0.post3"},
        ),
        ("2.7.1.post2", "", "torch_npu-2.7.1.post2, CANN 8.5.0", {}),
    ],
)
def test_a_report_names_the_release_and_the_one_that_has_more(
    tmp_path: Path, version: str, torch_npu: str, evidence: str, new_in: dict[str, str]
) -> None:
    result = check(tmp_path, version, torch_npu)
    assert result.evidence == evidence
    assert result.version == (version or torch_npu).partition(".post")[0]  # PyTorch has no post releases of its own
    messages = [each.finding.message for file in result.files for each in file.findings]
    reported = {
        name: since for name, since in new_in.items() if f"{name} is new in torch_npu {since}: " in str(messages)
    }
    assert reported == new_in and str(messages).count(" is new in ") == len(new_in)


@pytest.mark.parametrize(
    ("torch_npu", "image"),
    [("2.1.0.post10", "8.0.0-910b"), ("2.1.0.post12", "8.1.rc1-910b"), ("2.7.1.post4", "9.0.0-910b")],
)
def test_the_image_is_that_of_the_post_release(tmp_path: Path, torch_npu: str, image: str) -> None:
    result = check(tmp_path, "", torch_npu)
    assert f"quay.io/ascend/cann:{image}" in str([each.finding for file in result.files for each in file.findings])


@pytest.mark.parametrize(
    ("source", "version", "first"),
    [
        ("torch.cuda.mem_get_info()", "2.1.0", "2.1.0.post3"),
        ("torch.cuda.CUDAGraph()", "2.1.0", "2.1.0.post12"),
        ("torch.cuda.Event.wait", "2.1.0", None),
        ("torch.cuda.mem_get_info()", "2.7.1", None),
        ("getattr(torch.cuda, 'CUDAGraph')", "2.1.0", "2.1.0.post12"),
        ("x: 'torch.cuda.graph'", "2.1.0", "2.1.0.post12"),
        ("from torch.cuda import graph", "2.1.0", "2.1.0.post12"),
        ("from torch.cuda import mem_get_info as f", "2.1.0.post8", "2.1.0.post3"),
        ("mock.patch('torch.cuda.mem_get_info')", "2.1.0", "2.1.0.post3"),
    ],
)
def test_a_change_says_from_which_post_release_on_its_name_is_there(
    source: str, version: str, first: str | None
) -> None:
    text = f"import torch\nfrom unittest import mock\n{source}\n"
    changes = migrate_source(text.encode(), "a.py", RULES, ProjectContext(version=version)).changes
    messages = " ".join(each.message for each in changes)
    assert len(changes) > 1
    assert (f"is there from torch_npu {first} on." in messages) if first else "from torch_npu" not in messages
