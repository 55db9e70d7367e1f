"""A file that no parser can read fails, with something to migrate in it or not."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpu2npu.analysis.file_analysis import FileAnalyser, FileQuestion
from gpu2npu.cli.main import main
from gpu2npu.engine import ProjectContext
from gpu2npu.engine.torch_library import TORCH
from gpu2npu.project.migrator import Migrator, analysed
from gpu2npu.python.project.project import Project
from gpu2npu.records import Change, MigratedFile, Operation, Severity, Span
from gpu2npu.rulebook import load_rulebook

ANALYSER = FileAnalyser("2.7.0", frozenset(FileQuestion), Project(library=TORCH))
BOTH = Migrator(load_rulebook(), ProjectContext("2.7.0"), analyser=ANALYSER)

UNREADABLE = {
    "a parenthesis": (b"import torch\nx = (\n", "syntax error at line 2: '(' was never closed"),
    "with something to migrate": (b"import torch\nx.cuda(\n", "syntax error at line 2: '(' was never closed"),
    "null bytes": (b"import torch\n\0", "line 2: a null byte"),
    "nesting": (b"import torch\nx = " + b"(" * 5_000 + b")" * 5_000, "nested too deeply"),
    "an encoding": (b"# coding: klingon\nimport torch\n", "klingon"),
    "bytes": (b"import torch\n'\xff'\n", "utf-8"),
}


@pytest.mark.parametrize(("source", "reason"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_no_parser_reads_fails(source: bytes, reason: str) -> None:
    file = BOTH(source, "train.py")
    assert file.failure is not None and reason in file.failure
    assert (file.content, file.findings) == (None, ())


def test_a_limit_is_reported_of_a_call_that_the_rules_edit_and_once_where_they_report_it() -> None:
    source = b"import torch\nx = torch.nn.Linear(2, 2, dtype=torch.float64, device='cuda').cuda()\n"
    migrated = BOTH(source, "a.py")
    assert [finding.rule for finding in migrated.findings] == ["npu-limit"] and len(migrated.changes) == 3
    source = b"import torch.utils.dlpack as d\nx = d.from_dlpack(y)\n"
    assert [finding.severity for finding in BOTH(source, "a.py").findings] == [Severity.NOTE]
    exchanged = replace(BOTH, analyser=replace(ANALYSER, version="2.7.1.post0"))(source, "a.py")
    assert len({finding.span for finding in exchanged.findings}) == len(exchanged.findings) == 1


@pytest.mark.parametrize("value", ["torch.channels_last", "nhwc", "Own.nhwc"])
def test_a_name_that_a_rule_replaces_everywhere_is_not_reported_besides(value: str) -> None:
    text = "import torch\nfrom torch import channels_last as nhwc\nclass Own:\n    nhwc = torch.channels_last\n"
    source = f"{text}net = torch.nn.Conv2d(3, 4, 3).to(memory_format={value})\n".encode()
    assert BOTH(source, "a.py").findings == ()
    assert {each.rule for each in ANALYSER(source, "a.py").findings} >= {"npu-limit"}


@pytest.mark.parametrize(("end", "is_answered"), [(3, False), (4, False), (5, True)])
def test_a_change_answers_for_what_it_overlaps_and_not_for_what_it_touches(end: int, is_answered: bool) -> None:
    source = b"x = torch.sspaddmm(a, b, c)\n"
    changes = (Change(Span(1, 0, 1, end), "own", Operation.MODIFY, "Because.", "a", "b"),)
    file = analysed(MigratedFile("a.py", changes=changes), ANALYSER, source)
    assert ANALYSER(source, "a.py").findings[0].span.start_column == 4
    assert (file.findings == ()) is is_answered


@pytest.mark.parametrize(
    ("path", "other", "has"),
    [
        ("p/platform_cuda.py", "p/platform_npu.py", True),
        ("gpu_worker.py", "npu_worker.py", True),
        ("p/nccl_engine.py", "p/hccl_engine.py", True),
        ("p/cuda.py", "p/ascend.py", True),
        ("p/platform_cuda.py", "platform_npu.py", False),
        ("p/platform.py", "p/npu.py", False),
        ("p/cudaless.py", "p/npuless.py", False),
    ],
)
def test_a_file_for_gpus_beside_one_for_npus(path: str, other: str, has: bool) -> None:
    migrator = replace(BOTH, context=ProjectContext("2.7.0", files=frozenset({path, other})))
    file = migrator(b"import torch\ntorch.cuda.nccl.version()\ntorch.linalg.det(x)\ny.cuda()\n", path)
    assert len(file.changes) == (0 if has else 2)
    assert len(file.findings) == (1 if has else 2) and {each.severity is Severity.NOTE for each in file.findings} == {
        has
    }


def test_a_file_without_torch_is_not_looked_at() -> None:
    assert not BOTH.concerns(b"x = (\n", "train.py")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "good.py").write_text("import torch\nx = torch.ones(1).cuda()\n")
    (root / "bad.py").write_text("import torch\nx = (\n")
    return root


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["gpu2npu", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    return int(caught.value.code or 0)


def test_a_check_fails(project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "check", "-v", "2.7.0", "--format", "json", str(project)) == 1
    assert "syntax error at line 2" in json.dumps(json.loads(capfd.readouterr().out))


def test_a_migration_copies_it_and_goes_on(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "-i", str(project), "-o", str(tmp_path / "out"), "-v", "2.7.0") != 0
    assert "bad.py" in "".join(capfd.readouterr())
    (copy,) = tmp_path.glob("out/**/bad.py")
    assert copy.read_bytes() == (project / "bad.py").read_bytes()
    (good,) = tmp_path.glob("out/**/good.py")
    assert ".npu()" in good.read_text()


def test_what_was_read_of_values_is_forgotten_between_files_and_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = {
        "devices.py": b'DEVICE = "cuda"\nNAME = "cuda"\n',
        "train.py": b"import torch\nfrom devices import DEVICE\nx = torch.zeros(2, device=DEVICE)\n",
        "show.py": b"from devices import NAME\nprint(NAME)\n",
    }

    def changes() -> list[int]:
        context = ProjectContext("2.7.0", frozenset(sources), sources.__getitem__)
        migrator = Migrator(load_rulebook(), context)
        found = []
        for path in (*sources, *sources):
            found.append(len(migrator(sources[path], path).changes))
            values.append(context.project.values)
        return found

    values: list[object] = []
    first = changes()
    assert first[0] == 1 and len({id(each) for each in values if each is not None}) == 1
    monkeypatch.setattr("gpu2npu.engine.strings.value_effects._MOST_ANSWERS", 0)
    values.clear()
    assert changes() == first and len({id(each) for each in values if each is not None}) == 2


def test_what_gives_a_device_is_sought_with_a_deep_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    """The way from a value of a configuration to its uses is thousands of calls long in a large project."""

    def depth(left: int) -> int:
        return depth(left - 1) + 1 if left else 0

    depths = []
    monkeypatch.setattr("gpu2npu.project.migrator.device_readers", lambda *_: depths.append(depth(5_000)) or {})
    Migrator.of(load_rulebook(), "2.1.0", Path(), {"a.py": b"import torch\n"}, others={"c.yaml": b"device: cuda\n"})
    assert depths == [5_000]
