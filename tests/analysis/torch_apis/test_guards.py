"""Places that are reached only where PyTorch has what they need."""

from __future__ import annotations

import ast

import pytest

from gpu2npu.analysis.torch_apis.calls import guarded, torch_api_findings
from gpu2npu.python.text.source import SourceFile
from gpu2npu.python.tree.file import PythonFile, read_file


def use(file: PythonFile) -> ast.expr:
    return next(node for node, _ in file.uses if isinstance(node, ast.Attribute) and node.attr == "new")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("torch.new()", False),
        ("try:\n    torch.new()\nexcept AttributeError:\n    old()", True),
        ("try:\n    torch.new()\nexcept (AttributeError, KeyError):\n    pass", True),
        ("try:\n    torch.new()\nexcept ImportError:\n    old()", True),
        ("try:\n    torch.new()\nexcept ModuleNotFoundError:\n    old()", True),
        ("try:\n    torch.new()\nexcept Exception:\n    old()", True),
        ("try:\n    torch.new()\nexcept BaseException:\n    old()", True),
        ("try:\n    torch.new()\nexcept:\n    old()", True),
        ("try:\n    torch.new()\nexcept AttributeError:\n    raise RuntimeError('too old')", False),
        ("try:\n    torch.new()\nexcept ValueError:\n    old()", False),
        ("try:\n    old()\nexcept AttributeError:\n    torch.new()", False),
        ("if hasattr(torch, 'new'):\n    torch.new()", True),
        ("if hasattr(torch, 'other'):\n    torch.new()", False),
        ("x = torch.new() if hasattr(torch, 'new') else old()", True),
        ("x = hasattr(torch, 'new') and torch.new()", True),
        ("x = torch.new() and hasattr(torch, 'new')", False),
        ("x = ready and hasattr(torch, 'new') and (torch.new() + 1)", True),
        ("if old():\n    pass\nelif hasattr(torch, 'new'):\n    for _ in x:\n        torch.new()", True),
        ("if torch.new() and hasattr(torch, 'new'):\n    pass", False),
        ("if version.parse(torch.__version__) >= version.parse('2.4'):\n    torch.new()", True),
        ("if torch_version_lt(2, 4):\n    old()\nelse:\n    torch.new()", True),
        ("if is_torch_greater_or_equal('2.4'):\n    torch.new()", True),
        ("if TORCH_2_4:\n    torch.new()", True),
        ("if transformers.__version__ >= '4':\n    torch.new()", False),
        ("if torch.version.cuda:\n    torch.new()", False),
        ("if self.version == 2:\n    torch.new()", False),
        ("if self._serves('2.9'):\n    torch.new()", True),
        ("if at_least('2.9.0'):\n    torch.new()", True),
        ("if is_accelerate_version('>=', '1.2'):\n    torch.new()", False),
    ],
)
def test_what_is_a_guard(text: str, expected: bool) -> None:
    file = read_file(SourceFile("a.py", text, "utf-8", b""))
    assert guarded(file, use(file), "new", "2.9.0") is expected


def test_a_guarded_name_of_a_later_release_blocks_nothing(parse) -> None:
    text = "import torch\nif hasattr(torch, 'while_loop'):\n    torch.while_loop(a, b, c)\ntorch.while_loop(a, b, c)\n"
    code = parse(text)
    early = torch_api_findings(code, "2.1.0")
    assert [(found.span.start_line, found.kind.value) for found in early] == [(3, "review"), (4, "unsupported")]
    assert "tests for it first" in early[0].message and "-v 2.5.0" in early[1].message


def test_a_tested_name_that_no_torch_npu_has_is_a_note(parse) -> None:
    given = "torch.npu.native_device if hasattr(torch.npu, 'native_device') else 'npu'"
    guards = (given, "torch.npu.native_device", given.replace("'native_device'", "'Stream'"))
    code = parse("import torch\nimport torch_npu\n" + "".join(f"x = {each}\n" for each in guards))
    assert [found.severity.value for found in torch_api_findings(code, "2.1.0")] == ["note", "change", "change"]
    tried = "try:\n    x = torch.npu.native_device\nexcept AttributeError:\n    pass\n"
    (found,) = torch_api_findings(parse(f"import torch\nimport torch_npu\n{tried}"), "2.1.0")
    assert found.severity.value == "change"


@pytest.mark.parametrize(
    ("handler", "kind"), [("ImportError", "review"), ("ValueError", "unsupported"), (None, "unsupported")]
)
def test_a_name_whose_import_may_fail_blocks_nothing(parse, handler: str | None, kind: str) -> None:
    imported = "from torch import while_loop\n"
    tried = f"try:\n    {imported}except {handler}:\n    from own import while_loop\n"
    (found,) = torch_api_findings(parse(f"{tried if handler else imported}while_loop(a, b, c)\n"), "2.1.0")
    assert found.kind.value == kind
