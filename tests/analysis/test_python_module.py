import ast

import pytest

from gpu2npu.analysis.python_module import MAX_BYTES, Project, UnreadableError, read_module


def last_meaning(module) -> str | None:
    call, scope = max(module.code.calls, key=lambda entry: (entry[0].lineno, entry[0].end_col_offset))
    return module.qualified(call.func, scope)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("import torch\ntorch.cat(x)", "torch.cat"),
        ("import torch as t\nt.cat(x)", "torch.cat"),
        ("import torch.nn.functional as F\nF.relu(x)", "torch.nn.functional.relu"),
        ("import torch.nn.functional\ntorch.nn.functional.relu(x)", "torch.nn.functional.relu"),
        ("from torch import nn\nnn.Linear(1, 1)", "torch.nn.Linear"),
        ("from torch.nn import Linear as L\nL(1, 1)", "torch.nn.Linear"),
        ("import torch\nnn = torch.nn\nL = nn.Linear\nL(1, 1)", "torch.nn.Linear"),
        ("try:\n    import torch\nexcept ImportError:\n    torch = None\ntorch.cat(x)", "torch.cat"),
        ("import torch\ngetattr(torch, 'cat')(x)", "torch.cat"),
        ("import importlib\ntorch = importlib.import_module('torch')\ntorch.cat(x)", "torch.cat"),
        ("def f(torch):\n    torch.cat(x)", None),
        ("import torch\ndef f():\n    torch = mine()\n    torch.cat(x)", None),
        ("import torch\ndef cat(x): ...\ncat(x)", None),
        ("import torch\nif a:\n    f = torch.cat\nelse:\n    f = torch.stack\nf(x)", None),
        ("import torchvision\ntorchvision.ops.nms(x)", "torchvision.ops.nms"),
    ],
)
def test_what_names_mean(parse, text: str, meaning: str | None) -> None:
    assert last_meaning(parse(text)) == meaning


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("from compat import torch\ntorch.cat(x)", {"compat": "import torch\n"}),
        (
            "from compat import F\nF.cat(x)",
            {"compat": "try:\n    import torch as F\nexcept ImportError:\n    F = None\n"},
        ),
        ("import compat\ncompat.t.cat(x)", {"compat": "import torch as t\n"}),
        (
            "from pkg.compat import join\njoin(x)",
            {"pkg__compat": "from torch import (\n    stack,\n    cat as join,\n)\n"},
        ),
    ],
)
def test_names_of_torch_that_another_file_imports(parse, text: str, files: dict[str, str]) -> None:
    assert last_meaning(parse(text, **files)) == "torch.cat"


def test_a_definition_behind_re_exports(parse) -> None:
    module = parse("from a import K\nK()", a="from b import Kit as K  # torch\n", b="import torch\nclass Kit: ...\n")
    call, scope = module.code.calls[0]
    found = module.definition(call.func, scope)
    assert found is not None and found[0].path == "b.py" and found[1].node.name == "Kit"


def test_modules_that_import_each_other(parse) -> None:
    module = parse("from a import x\nx()", a="from b import x  # torch\n", b="from a import x  # torch\n")
    [(call, scope)] = module.code.calls
    assert module.definition(call.func, scope) is None


def test_places_are_counted_in_characters(parse) -> None:
    module = parse("é = 'ü'; torch.cat('ß', x)\n")
    [(call, _)] = module.code.calls
    span = module.span(call)
    assert (span.start_column, span.end_column) == (9, 26)
    assert module.source(call) == "torch.cat('ß', x)"


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_are_those_of_python(parse, newline: str) -> None:
    module = parse(newline.join(["x = 1\x0c", "f(", " 2)", ""]))
    [(call, _)] = module.code.calls
    assert module.source(call) == f"f({newline} 2)"
    assert "".join(module.lines) == module.text


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (b"def f(:\n", "syntax error in line 1"),
        (b"x = 1\0", "null bytes"),
        (b"x = " + b"(" * 5_000 + b")" * 5_000, "nest"),
        (b"# coding: nonsense\n", "unknown encoding"),
        (b"x = 1\n\ny = '\xff'", "is not utf-8"),
        (b"x = 1\n" * (MAX_BYTES // 6 + 1), "larger than 4 MB"),
    ],
)
def test_what_cannot_be_read_is_told_in_a_sentence(source: bytes, said: str) -> None:
    with pytest.raises(UnreadableError, match=said):
        read_module(source, "x.py", Project())


def test_warnings_about_the_source_stay_silent(recwarn: pytest.WarningsRecorder) -> None:
    read_module(b"import torch\nx = '\\d'\ny = 1 is 1\n", "x.py", Project())
    assert not recwarn
    assert ast.parse("1")
