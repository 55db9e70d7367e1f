import ast
from textwrap import dedent

import pytest

from gpu2npu.python.meaning.names import Names
from gpu2npu.python.project.project import Project
from tests.python.conftest import parsed


def last_meaning(names: Names) -> str | None:
    """Return what the last expression statement, or what it calls, means."""
    uses = [(node, scope) for node, scope in names.file.uses if isinstance(names.file.parents[node], ast.Expr)]
    node, scope = uses[-1]
    return names.qualified(node.func if isinstance(node, ast.Call) else node, scope)


IN_ONE_FILE = [
    ("import torch\ntorch.cat(x)", "torch.cat"),
    ("import torch as t\nt.cat(x)", "torch.cat"),
    ("import torch.nn.functional as F\nF.relu(x)", "torch.nn.functional.relu"),
    ("import torch.nn.functional\ntorch.nn.functional.relu(x)", "torch.nn.functional.relu"),
    ("from torch import nn\nnn.Linear(1, 1)", "torch.nn.Linear"),
    ("from torch.nn import Linear as L\nL(1, 1)", "torch.nn.Linear"),
    ("import torch\nnn = torch.nn\nL = nn.Linear\nL(1, 1)", "torch.nn.Linear"),
    ("try:\n    import torch\nexcept ImportError:\n    torch = None\ntorch.cat(x)", "torch.cat"),
    ("if new:\n    import torch\nelse:\n    torch = None\ntorch.cat(x)", "torch.cat"),
    ("import torch\ngetattr(torch, 'cat')(x)", "torch.cat"),
    ("import importlib\nth = importlib.import_module('torch')\nth.cat(x)", "torch.cat"),
    ("from own import mod\nth = mod.lazy_import('torch>=1.13.0', log=False)\nth.cat(x)", "torch.cat"),
    ("from own import LazyLoader\nth = LazyLoader('torch')\nth.cat(x)", "torch.cat"),
    ("from own import lazy_import\nth = lazy_import('torch', name='nn')\nth.cat(x)", None),
    ("from own import lazy_import\nth = lazy_import('torch', 'nn')\nth.cat(x)", None),
    ("from own import lazy_import\nth = lazy_import('a torch')\nth.cat(x)", None),
    ("from torch import torch\ntorch.cat(x)", "torch.cat"),
    ("def f():\n    import torch as t\n    t.cat(x)", "torch.cat"),
    ("import torch\nclass A:\n    t = torch\n    t.cat(x)", "torch.cat"),
    ("def f():\n    global t\n    import torch as t\nt.cat(x)", "torch.cat"),
    ("from torch import *\nnn.Linear(1, 1)", "torch.nn.Linear"),
    ("torch.cat(x)", "torch.cat"),
    ("def f(torch):\n    torch.cat(x)", None),
    ("import torch\ndef f():\n    torch = mine()\n    torch.cat(x)", None),
    ("import torch\ndef cat(x): ...\ncat(x)", None),
    ("from torch import cat\ndef cat(x): ...\ncat(x)", None),
    ("def cat(x): ...\nfrom torch import cat\ncat(x)", None),
    ("import torch\n[torch for torch in x]\ntorch.cat(x)", "torch.cat"),
    ("x = x\nx(1)", None),
    ("import torchvision\ntorchvision.ops.nms(x)", "torchvision.ops.nms"),
]
ATTRIBUTE = "import torch\nclass A:\n    def f(self{}):\n        self.t = {}\n    def g(self):\n        self.t.cat(x)"
IN_ONE_FILE += [
    (ATTRIBUTE.format("", "torch"), "torch.cat"),
    (ATTRIBUTE.format("", "None\n        self.t = torch"), "torch.cat"),
    (ATTRIBUTE.format(", torch", "torch"), None),
    (ATTRIBUTE.format("", "mine\n        self.t = torch"), "torch.cat"),
    (ATTRIBUTE.format("", "torch\n    t = None"), "torch.cat"),
    (ATTRIBUTE.format("", "torch\n    def t(self): ...").replace("self.t =", "self.u ="), None),
    (ATTRIBUTE.format(", t=torch", "t"), "torch.cat"),
    ("import torch\nclass A:\n    t = torch\n    def g(self):\n        self.t.cat(x)", "torch.cat"),
    ("class A:\n    import torch as t\n    def g(self):\n        self.t.cat(x)", "torch.cat"),
    ("import torch\ndef f(t=torch):\n    t.cat(x)", "torch.cat"),
    ("import torch\ndef f(t=torch.nn):\n    t.cat(x)", None),
    (ATTRIBUTE.format("", "torch.nn"), None),  # modules of torch alone are not followed so
]


MOCKS = [
    ("@patch('app.torch')\ndef test(mocked):\n    mocked.cuda.x", "torch.cuda.x"),
    (
        "@mock.patch('app.torch')\n@mock.patch.object(A, 'a')\n@pytest.fixture\ndef test(first, second):\n    second.x",
        "torch.x",
    ),
    ("@mock.patch('app.torch')\n@mock.patch.object(A, 'a')\ndef test(first, second):\n    first.x", None),
    ("@patch('app.torch', fake)\ndef test(mocked):\n    mocked.x", None),
    ("@patch('app.torch', new=fake)\n@patch('app.other')\ndef test(mocked):\n    mocked.x", None),
    ("class A:\n    @patch('app.torch')\n    def test(self, mocked):\n        mocked.x", "torch.x"),
    ("with patch('app.torch') as mocked:\n    mocked.x", "torch.x"),
    ("def test(mocker):\n    mocked = mocker.patch('app.torch')\n    mocked.x", "torch.x"),
    ("@patch('app.torch.cuda.is_available')\ndef test(mocked):\n    mocked.return_value", None),
    ("@patch('app.own')\ndef test(mocked):\n    mocked.x", None),
]


@pytest.mark.parametrize(("text", "meaning"), MOCKS)
def test_what_a_mock_stands_for(text: str, meaning: str | None) -> None:
    assert last_meaning(parsed({"main.py": text, "app.py": "import torch\nown = 1\n"})) == meaning


@pytest.mark.parametrize(("text", "meaning"), IN_ONE_FILE)
def test_what_names_mean(text: str, meaning: str | None) -> None:
    assert last_meaning(parsed({"main.py": text})) == meaning


IN_OTHER_FILES = {
    "an import": ("from compat import torch\ntorch.cat(x)", {"compat.py": "import torch\n"}),
    "a name under another": (
        "from compat import F\nF.cat(x)",
        {"compat.py": "try:\n    import torch as F\nexcept ImportError:\n    F = None\n"},
    ),
    "an attribute of a module": ("import compat\ncompat.t.cat(x)", {"compat.py": "import torch as t\n"}),
    "a module of a package": (
        "from pkg.compat import join\njoin(x)",
        {"pkg/__init__.py": "", "pkg/compat.py": "from torch import (\n    stack,\n    cat as join,\n)\n"},
    ),
    "two hops": ("from b import th\nth.cat(x)", {"a.py": "import torch as th\n", "b.py": "from a import th\n"}),
    "an alias on the way": ("from a import join\njoin(x)", {"a.py": "import torch\nth = torch\njoin = th.cat\n"}),
    "a star": ("from a import *\nth.cat(x)", {"a.py": "import torch as th\n"}),
    "a star of a star": ("from b import *\nth.cat(x)", {"a.py": "import torch as th\n", "b.py": "from a import *\n"}),
    "a re-export of a package": (
        "import p\np.th.cat(x)",
        {"p/__init__.py": "from .inner import th\n", "p/inner.py": "import torch as th\n"},
    ),
    "a star of a package": (
        "from p import th\nth.cat(x)",
        {"p/__init__.py": "from .inner import *\n", "p/inner.py": "import torch as th\n"},
    ),
    "a folder src": ("from p.a import th\nth.cat(x)", {"src/p/__init__.py": "", "src/p/a.py": "import torch as th\n"}),
    "a loaded module": (
        "from a import th\nth.cat(x)",
        {"a.py": "from importlib import import_module\nth = import_module('torch')\n"},
    ),
    "a circle": ("from a import th\nth.cat(x)", {"a.py": "from main import y\nimport torch as th\n"}),
    "a circle of stars": (
        "from a import *\nth.cat(x)",
        {"a.py": "from b import *\nimport torch as th\n", "b.py": "from a import *\n"},
    ),
    "a conditional import": (
        "from a import th\nth.cat(x)",
        {"a.py": "import sys\nif sys.argv:\n    import torch as th\nelse:\n    th = None\n"},
    ),
    "an import by a function": (
        "from a import th\nth.cat(x)",
        {"a.py": "def load():\n    global th\n    import torch as th\n"},
    ),
}


@pytest.mark.parametrize(("text", "files"), IN_OTHER_FILES.values(), ids=IN_OTHER_FILES)
def test_names_that_another_file_hands_on(text: str, files: dict[str, str]) -> None:
    names = parsed({"main.py": text, **files})
    assert last_meaning(names) == "torch.cat"
    assert names.project.consulted["main.py"] <= set(files)


@pytest.mark.parametrize("path", ["p/deep/main.py", "p/main.py"])
def test_relative_imports(path: str) -> None:
    dots = "." * (path.count("/"))
    files = {path: f"from {dots}a import th\nth.cat(x)", "p/__init__.py": "", "p/a.py": "import torch as th\n"}
    assert last_meaning(parsed(files, path)) == "torch.cat"


def test_a_script_imports_from_its_own_folder() -> None:
    files = {"tools/run.py": "from a import th\nth.cat(x)", "tools/a.py": "import torch as th\n", "a.py": "th = 1\n"}
    assert last_meaning(parsed(files, "tools/run.py")) == "torch.cat"


@pytest.mark.parametrize(
    "files",
    [
        {"a.py": "from b import x\n", "b.py": "from a import x\n"},
        {"a.py": "from b import *\n", "b.py": "from a import *\n"},
        {"a.py": "from main import x\n"},
        {"a.py": "x = (\n"},
        {"a.py": "def x(): ...\n"},
    ],
)
def test_names_that_lead_nowhere(files: dict[str, str]) -> None:
    assert not (last_meaning(parsed({"main.py": "from a import x\nx()", **files})) or "").startswith("torch")


def test_a_submodule_is_not_what_a_star_of_its_package_brings_in() -> None:
    files = {"p/__init__.py": "from p.torch import *\n", "p/torch.py": "import torch\nclass Kit: ...\n"}
    assert last_meaning(parsed({"main.py": "import p.torch\np.torch.Kit()", **files})) == "p.torch.Kit"


def test_a_definition_behind_re_exports() -> None:
    names = parsed({"main.py": "from a import K\nK()", "a.py": "from b import Kit as K\n", "b.py": "class Kit: ...\n"})
    call, scope = next((node, scope) for node, scope in names.file.uses if isinstance(node, ast.Call))
    found = names.definition(call.func, scope)
    assert found is not None and found.names.path == "b.py" and found.bound.node.name == "Kit"


def test_modules_that_import_each_other_define_nothing() -> None:
    files = {"main.py": "from a import x\nx()", "a.py": "from b import x\n", "b.py": "from a import x\n"}
    names = parsed(files)
    call, scope = next((node, scope) for node, scope in names.file.uses if isinstance(node, ast.Call))
    assert names.definition(call.func, scope) is None


@pytest.mark.parametrize(
    ("files", "leads"),
    [
        ({"main.py": "import a\n", "a.py": "import torch\n"}, True),
        ({"main.py": "import a\n", "a.py": "import b\n", "b.py": "import torch\n"}, True),
        ({"main.py": "def f():\n    import a\n", "a.py": "import torch\n"}, True),
        ({"main.py": "import p.a\n", "p/__init__.py": "import torch\n", "p/a.py": ""}, True),
        ({"main.py": "from p import a\n", "p/__init__.py": "", "p/a.py": "import torch\n"}, True),
        ({"main.py": "import a\n", "a.py": "import main\n", "b.py": "import torch\n"}, False),
        ({"main.py": "import os\n", "a.py": "import torch\n"}, False),
    ],
)
def test_imports_that_lead_to_the_library(files: dict[str, str], leads: bool) -> None:
    names = parsed(files)
    assert names.project.leads_to_library(names) is leads


def test_parsed_files_are_retained_up_to_a_size() -> None:
    files = {"a.py": b"a = 1\n" * 10, "b.py": b"b = 1\n" * 10, "c.py": b"c = 1\n" * 100, "d.py": b"d = (\n"}
    project = Project(frozenset(files), files.__getitem__, retained=130)
    assert all(project.names(path) is not None for path in ("a.py", "b.py"))
    assert project.parsed("a.py") and project.parsed("b.py")
    assert project.names("d.py") is None  # takes no room
    assert project.parsed("a.py") and project.parsed("b.py")
    assert project.names("c.py") is not None  # larger than what is kept, and kept alone
    assert not project.parsed("a.py") and not project.parsed("b.py") and project.parsed("c.py")
    held = project.hold("a.py")
    assert project.names("b.py") is not None and project.parsed("a.py") is held


def test_only_names_of_names_and_modules_lead_on() -> None:
    text = """
        import importlib
        import torch as t
        f = t.cat
        g, h = t.cat, t.stack
        loaded = importlib.import_module("torch")
        def run(tensor):
            result = f(tensor)
            return [each for each in result]
    """
    names = parsed({"main.py": dedent(text)})
    assert names.leading - names.project.library.packages == {"importlib", "t", "f", "g", "h", "loaded"}
