"""Tests of where expressions lead, and of which file an absolute import means."""

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu2npu.analysis.library.meanings import Meaning, MeaningKind, Meanings
from gpu2npu.engine.torch_library import torch_project

Ask = Callable[..., set[tuple[str, str]]]


@pytest.fixture
def ask() -> Ask:
    """Finds what the last expression of `main.py` may mean, in a project with these other files."""

    def meanings_of(text: str, files: dict[str, str] | None = None) -> set[tuple[str, str]]:
        sources = {f"{name}.py": content.encode() for name, content in (files or {}).items()}
        meanings = Meanings(torch_project({**sources, "main.py": text.encode()}))
        names = meanings.project.names("main.py")
        assert names is not None
        last = names.file.tree.body[-1]
        assert isinstance(last, ast.Expr)
        found = meanings.of(last.value, names)
        return {(each.kind.value, meanings.dotted(each)) for each in found}

    return meanings_of


NET = "import torch\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from net import Net\nNet().cuda()", {("object", "net.Net")}),
        ("from net import Net\nNet()(1).sum", {("member", "tensor.sum")}),
        ("from net import Net as N\nfor i, n in enumerate([N()]):\n    pass\nn", {("object", "net.Net")}),
        ("import net\nmade = None\ndef f():\n    global made\n    from net import Net as C\n    made = C()\nmade",
         {("object", "net.Net")}),
        ("import torch as t\ng = getattr(t, 'relu')\ng(1)", {("instance", "tensor")}),
        ("from torch.nn import *\nDataParallel", {("name", "torch.nn.DataParallel")}),
        ("from importlib import import_module\nm = import_module('net')\nm.Net", {("class", "net.Net")}),
        ("import other\nother.Thing().run", {("member", "other.Thing.run")}),
        ("def f(a: 'Net | None' = None):\n    return a\nfrom net import Net\nf()", {("object", "net.Net")}),
        ("x = y\ny = x\nx", set()),
    ],
)  # fmt: skip
def test_expressions_are_followed(ask: Ask, text: str, expected: set[tuple[str, str]]) -> None:
    assert ask(text, {"net": NET}) == expected


def test_a_function_of_a_package_wins_over_the_module_of_its_name(ask: Ask) -> None:
    files = {"ops/__init__": "from .nms import nms\n", "ops/nms": "def nms(x):\n    return x\n"}
    assert ask("from ops import nms\nnms", files) == {("function", "ops.nms.nms")}


def test_long_chains_of_names_are_followed(ask: Ask) -> None:
    text = "\n".join(f"x{number} = x{number - 1}" for number in range(1, 500))
    assert ask(f"import torch\nx0 = torch\n{text}\nx499") == {("name", "torch")}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("from . import b\nimport wandb", None),  # a module of the package: the installed wandb
        ("import lib.b\nimport wandb", None),
        ("import b\nimport wandb", "lib/wandb.py"),  # a script: its own folder comes first
    ],
)
def test_a_module_of_a_package_does_not_import_its_neighbours_by_their_bare_names(text: str, path: str | None) -> None:
    files = {"lib/__init__.py": b"", "lib/a.py": text.encode(), "lib/b.py": b"", "lib/wandb.py": b""}
    assert torch_project(files).module_path("wandb", "lib/a.py") == path
    assert torch_project(files).module_path("wandb", "lib/wandb.py") is None


def test_a_package_given_by_its_own_folder_is_found_by_its_name() -> None:
    files = {"__init__.py": b"", "ops/__init__.py": b"", "ops/nms.py": b"", "main.py": b""}
    project = torch_project(files, Path("/home/me/open/lib"))
    assert project.module_path("lib.ops.nms", "main.py") == "ops/nms.py"
    assert project.module_path("open.lib.ops", "ops/nms.py") == "ops/__init__.py"
    assert project.module_path("lib", "ops/nms.py") == "__init__.py"
    assert project.module_path("other.ops", "main.py") is None


def test_inherited_methods_are_found_in_the_nearest_class() -> None:
    text = b"class A:\n    def f(self): ...\n    @property\n    def p(self): ...\nclass B(A):\n    def g(self): ...\n"
    meanings = Meanings(torch_project({"a.py": text}))
    b = Meaning(MeaningKind.OBJECT, "B", "a.py")
    assert meanings.method(b, "f") == Meaning(MeaningKind.FUNCTION, "A.f", "a.py")
    assert meanings.reads_property(b, "p") == Meaning(MeaningKind.FUNCTION, "A.p", "a.py")
    assert meanings.reads_property(b, "f") is None
