"""Comments and limits that keep rules away."""

from __future__ import annotations

from gpu2npu.engine import ProjectContext, migrate_source, scan_project
from gpu2npu.engine.skips import EVERY_RULE, find_skips
from gpu2npu.rulebook import Rulebook


def after(migrate_with, text: str, path: str = "train.py", rules=()) -> str:
    result = migrate_with(list(rules), text, path)
    assert result.failure is None
    return text if result.content is None else result.content.decode()


def test_a_line_is_skipped(migrate_with) -> None:
    text = "a = x.cuda()  # gpu2npu: skip\nb = x.cuda()\n# gpu2npu: skip\nc = x.cuda()\nd = x.cuda()\n"
    assert after(migrate_with, text) == (
        "a = x.cuda()  # gpu2npu: skip\nb = x.npu()\n# gpu2npu: skip\nc = x.cuda()\nd = x.npu()\n"
    )


def test_findings_are_skipped_too(migrate_with) -> None:
    assert migrate_with([], "mode = 'cuda'\n").findings
    assert migrate_with([], "mode = 'cuda'  # gpu2npu: skip\n").findings == ()


def test_one_rule_is_skipped(migrate_with) -> None:
    text = "a = x.cuda().to('cuda')  # gpu2npu: skip=cuda-method\n"
    assert after(migrate_with, text) == "a = x.cuda().to('npu')  # gpu2npu: skip=cuda-method\n"


def test_a_file_is_skipped(migrate_with) -> None:
    text = "#!/usr/bin/env python\n# gpu2npu: skip\n\nimport torch\nx.cuda()\n"
    assert after(migrate_with, text) == text


def test_a_file_is_skipped_behind_its_docstring_but_not_by_it(migrate_with) -> None:
    code = "import torch\nx.cuda()\n"
    for head in ('# c\r\n"""A.\n\nB."""  # d\n\n# gpu2npu: skip\n', "r'''A.'''\n# gpu2npu: skip\n"):
        assert after(migrate_with, head + code) == head + code
    for head in ('"""A.\n# gpu2npu: skip\n"""\n', '"""A."""; y = 1\n# gpu2npu: skip\n', "# c\r\n" * 99 + "y\n"):
        assert after(migrate_with, head + code).endswith("x.npu()\n")


def test_a_skipped_use_keeps_the_import_it_needs(migrate_with) -> None:
    text = "from torch import cuda\ncuda.synchronize()\ncuda.empty_cache()  # gpu2npu: skip\n"
    assert "npu as cuda" in after(migrate_with, text)


def test_where_the_rules_are_off() -> None:
    skips = find_skips("# gpu2npu: skip=a, b\nx = 1  # gpu2npu: skip # and more\n\n# gpu2npu: skip=c\ny = 2\n")
    assert skips.file == {"a", "b"}
    assert skips.lines == {2: {EVERY_RULE}, 5: {"c"}}


def test_a_rule_can_be_limited_by_file_and_by_import(migrate_with) -> None:
    rule = {"match": {"call": "*.f"}, "then": {"rename": "g"}}
    rules = [
        {**rule, "id": "by-file", "where": {"files": ["tools/*.py"]}},
        {**rule, "match": {"call": "*.h"}, "id": "by-import", "where": {"imports": ["house.gpu"]}},
    ]
    assert after(migrate_with, "f()\n", "tools/a/b.py", rules) == "g()\n"
    assert after(migrate_with, "f()\n", "train.py", rules) == "f()\n"
    assert after(migrate_with, "from house import gpu\nh()\n", rules=rules) == "from house import gpu\ng()\n"
    assert after(migrate_with, "import house\nh()\n", rules=rules) == "import house\nh()\n"


def test_a_rule_can_be_limited_to_projects_that_import_a_module(rulebook: Rulebook) -> None:
    source = b"from team import Trainer\n\nTrainer(gpus=2)\n"
    others = {b"import team.lightning\n": [], b"if x:\n    from lightning.pytorch import a\n": ["lightning-gpus"]}
    for other, found in others.items():
        context = scan_project({"train.py": source, "other.py": other}, rulebook, "2.1.0")
        result = migrate_source(source, "train.py", rulebook, context)
        assert [finding.rule for finding in result.findings] == found
    assert migrate_source(source, "train.py", rulebook, ProjectContext()).findings  # nothing is known of its project


def test_a_capability_that_is_unpacked_on_a_skipped_line_stays(migrate) -> None:
    code = "import torch\na, _ = torch.cuda.get_device_capability(){}\nif a >= 8:\n    dtype = torch.bfloat16\n"
    assert "a, _ = torch.npu.get_device_capability() or (0, 0)\n" in migrate(code.format(""))
    assert "a, _ = torch.cuda.get_device_capability()  # gpu2npu: skip\n" in migrate(code.format("  # gpu2npu: skip"))
