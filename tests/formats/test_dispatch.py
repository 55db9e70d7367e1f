import pytest

from gpu2npu.engine import ProjectContext, scan_project
from gpu2npu.formats.dispatch import may_concern, migrate_file, values_in
from gpu2npu.rulebook import Rulebook
from gpu2npu.support.cann import CPU_INDEX


def test_bytes_that_are_no_utf8_survive(migrate) -> None:
    assert migrate(b"# \xe9\xff\nnvidia-smi\n", "run.sh").content == b"# \xe9\xff\nnpu-smi info\n"
    assert migrate(b"\xef\xbb\xbfdevice: cuda\n", "c.yaml").content == b"\xef\xbb\xbfdevice: npu\n"


def test_line_ends_and_a_missing_last_one_survive(migrate) -> None:
    assert migrate(b"a: 1\r\ndevice: cuda", "c.yaml").content == b"a: 1\r\ndevice: npu"


@pytest.mark.parametrize("path", ["a.yaml", "a.json", "a.sh", "a.toml", "Dockerfile", "a.ipynb", "a.txt"])
def test_a_file_without_a_trigger_is_not_read(rulebook, path: str) -> None:
    assert not may_concern(b'{"optimizer": "adam", "epochs": 3}', path, rulebook, ProjectContext())


def test_a_word_in_a_comment_alone_makes_no_file_of_data(rulebook) -> None:
    def values(text: str):
        return values_in(text.encode(), "c.yaml", rulebook, ProjectContext())

    assert values("batch: 16  # per cuda device\n") is None
    assert values("batch: 16\ndevice: cuda\n") is not None and values("cuda: 16\n") is not None


def test_rules_for_other_files_stay_away(migrated) -> None:
    text = "version = 1.0+cu118\n"
    assert migrated(text, "tox.ini") == text
    assert migrated('version = "1.0+cu118"\n', "a.toml") == 'version = "1.0"\n'


def test_python_goes_to_the_engine(migrated) -> None:
    assert migrated("m.to('cuda')\n", "a.py") == "m.to('npu')\n"


def test_changes_are_in_order_and_lie_where_the_text_was(migrate) -> None:
    text = "device: cuda\nb: {backend: nccl}\n"
    result = migrate(text, "c.yaml")
    lines = text.split("\n")
    assert [change.rule for change in result.changes] == ["device-string", "nccl-string"]
    for change in result.changes:
        span = change.span
        assert lines[span.start_line - 1][span.start_column : span.end_column] == change.before


@pytest.mark.parametrize(
    ("path", "text"),
    [("c.yaml", "device: cuda:0\nother: {device: cuda}\n"), ("run.sh", "python train.py --device cuda\n")],
)
def test_a_device_for_programs_that_load_no_plugin_is_reported_once(rulebook: Rulebook, path: str, text: str) -> None:
    for has_plugin in (True, False):
        context = ProjectContext(has_plugin=has_plugin)
        result = migrate_file(text.encode(), path, rulebook, context)
        found = [each for each in result.findings if each.rule == "import-torch-npu"]
        assert [each.span.start_line for each in found] == ([] if has_plugin else [1])


@pytest.mark.parametrize(
    ("source", "version", "has_plugin"),
    [
        (b"import torch\nx = torch.ones(2, device=read())\n", "2.1.0", False),
        (b"import torch\nx = torch.ones(2, device=read())\n", "2.5.1", True),
        (b"import torch\ntorch.cuda.synchronize()\n", "2.1.0", True),
        (b"import torch, torch_npu\n", "2.1.0", True),
        (b"import torch\nx = torch.ones(2, device=f'cuda:{read()}')\n", "2.1.0", True),
        (b"import torch\n# not on cuda\nx = torch.ones(2)\n", "2.1.0", False),
        (b'"""Runs without cuda or torch_npu."""\nimport torch\n', "2.1.0", False),
        (b"import torch\nprint('this needs no cuda')\n", "2.1.0", False),
    ],
)
def test_a_project_has_the_plugin(rulebook: Rulebook, source: bytes, version: str, has_plugin: bool) -> None:
    assert scan_project({"a.py": source}, rulebook, version).has_plugin is has_plugin


@pytest.mark.parametrize(
    ("source", "imports"),
    [
        (b"import MODULE\n", True),
        (b"if x:\n    from MODULE.parts import a\n", True),
        (b"from os import (path,\n    sep)\nfrom MODULE import (\n    a)\n", True),
        (b'"""\nimport MODULE\n"""\n', False),
        (b"# import MODULE\nimport os  # not MODULE\n", False),
        (b"from .MODULE import a\n", False),
        (b"from a import b as MODULE\n", False),
    ],
)
def test_a_project_imports_what_rules_want_imported(rulebook: Rulebook, source: bytes, imports: bool) -> None:
    module = next(module for rule in rulebook.rules for module in sorted(rule.where.project))
    imported = scan_project({"a.py": source.replace(b"MODULE", module.encode())}, rulebook, "2.1.0").imported
    assert imported == ({module} if imports else set())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"])
@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("c.json", '{"device": "cuda", "name": "é"}\r\n', '{"device": "npu", "name": "é"}\r\n'),
        ("c.yaml", "device: cuda\n", "device: npu\n"),
        ("requirements.txt", text := f"torch==2.1.0\n# {CPU_INDEX}\n", text.replace("#", "torch-npu==2.1.0.post17\n#")),
    ],
)
def test_wide_encodings_survive(rulebook: Rulebook, encoding: str, path: str, before: str, after: str) -> None:
    source = before.encode(encoding)
    assert may_concern(source, path, rulebook, ProjectContext())
    assert migrate_file(source, path, rulebook, ProjectContext()).content == after.encode(encoding)
