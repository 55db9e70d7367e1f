from pathlib import Path

import libcst as cst
import pytest

from gpu2npu.engine import outline as outline_module
from gpu2npu.engine.context import ProjectContext
from gpu2npu.engine.names import Names
from gpu2npu.engine.outline import read_outline
from gpu2npu.engine.scopes import collect_scopes

PACKAGE = Path(__file__).parents[2] / "gpu2npu"
BINDINGS = """
import a, b.c as d
from .e import f as g, h
def i(j): k = 1; global l; l = 2
class m: n = 1
o, (p, *q) = r[0] = s.t = 1
u: int
for v in w:
    with x as y: pass
try: pass
except z as aa: pass
if (bb := cc): dd += 1
match ee:
    case {"x": ff, **gg}: pass
async def hh(): pass
def ii():
    global jj, \\
        kk
    def jj(): pass
    import kk
"""


@pytest.mark.parametrize("path", [None, *sorted((PACKAGE / "engine").glob("*.py"))[:8]])
def test_every_name_that_a_module_binds_is_told(path: Path | None) -> None:
    text = BINDINGS if path is None else path.read_text()
    outline = read_outline(text)
    assert outline is not None
    bound = set(collect_scopes(cst.parse_module(text)).module.bindings)
    assert len(bound) > 3
    assert all(outline.binds(name) for name in bound)
    assert outline.stars or not outline.may_have("no_such_name")


@pytest.mark.parametrize("text", ["from x import *", "from x import \\\n *", "try:\n from x import(*)\nexcept E: 1"])
def test_a_star_may_bring_any_name(text: str) -> None:
    outline = read_outline(text)
    assert outline is None or outline.may_have("anything")


@pytest.mark.parametrize("text", ["x = (:", "x = '\0'", "(" * 5000 + ")" * 5000])
def test_what_this_python_cannot_parse_is_left_to_others(text: str) -> None:
    assert read_outline(text) is None


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("*/*.py"))[::7], ids=lambda path: path.stem)
def test_bodies_bind_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = path.read_text()
    quick = read_outline(text)
    monkeypatch.setattr(outline_module, "without_bodies", str)
    assert quick is not None
    assert quick == read_outline(text)


AROUND_DEFINITIONS = [
    'def f():\n    """\nx = 1\n    """\ny = 2\n',
    "def f():\n    return '''\ndef g(): pass\n'''\nz = 3\n",
    'class A:\n    """\nimport a\n"""\n    def f(self): pass\nb = 1\n',
    '"""\ndef f():\n    x\n"""\ny = 2\n',
    '"""\ndef f():\n    x\n  """\nz = 2\ndef g(): pass\n',
    "def f(\n    a,\n) -> (\n    int\n):\n    # comment\n# comment\n\n    return (\na, 1)\nx = 1\n",
    "def f(): return 1\nasync def g(): pass\nclass A: x = 1; y = 2\nz = 1\n",
    "if a:\n    def f():\n        pass\n    x = 1\nelse:\n    class B: pass\n",
    "@decorated\nclass A:\n\n    def f(self):\n\n        pass\n\n\n\nx: int = 1",
    "def f():\r\n    pass\r\nx = 1\r\n",
    "def f():\n    pass\n    x",
    "def f():\r    pass\rx = 1\r",
    "def f(a=[\n]): x = 1; \\\ny = 2\nz = 1\n",
    "class A(\n    B): pass\nclass C: pass\n",
]


@pytest.mark.parametrize("text", AROUND_DEFINITIONS)
def test_what_stands_around_a_body_is_told(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = read_outline(text)
    monkeypatch.setattr(outline_module, "without_bodies", str)
    assert quick is not None
    assert quick == read_outline(text)


def test_only_modules_that_have_the_name_are_parsed() -> None:
    files = {
        "pkg/__init__.py": b"from .one import *\nfrom .two import *\nfrom .three import *\n",
        "pkg/one.py": b"import torch\ndev = 1\n",
        "pkg/two.py": b"from torch import cuda\n",
        "pkg/three.py": b"cuda_count = 1\n",
    }
    context = ProjectContext(files=frozenset(files), read=files.__getitem__)
    text = "from pkg import cuda\ncuda.synchronize()\n"
    module = cst.parse_module(text)
    names = Names("main.py", collect_scopes(module), context)
    assert names.name("cuda", names.scopes.module) == "torch.cuda"
    assert set(context.parsed) == set()
    assert context.consulted["main.py"] == {"pkg/__init__.py"}
    assert context.consulted["pkg/__init__.py"] >= {"pkg/one.py", "pkg/two.py"}


MEANINGS = """
import torch, os.path
import numpy as np
from torch import cuda as gpu, nn
from .near import thing
from . import sibling
try:
    import flash
except ImportError:
    flash = None
try:
    from torch import amp
except ImportError:
    def amp(): pass
alias = torch.cuda
again = alias
number = 1
made = f(torch)
late = importlib.import_module("torch.cuda")
one, two = torch, nn
def function(): pass
class Class: pass
for loop in np: pass
nn = 3
"""
NAMES = (
    *("torch", "os", "np", "gpu", "nn", "thing", "sibling", "flash", "amp", "alias"),
    *("again", "number", "made", "late", "one", "two", "function", "Class", "loop", "nothing"),
)


@pytest.mark.parametrize("name", NAMES)
def test_an_outline_means_what_the_whole_tree_does(name: str) -> None:
    files = {
        "pkg/a.py": MEANINGS.encode(),
        "pkg/near.py": b"from torch.cuda import Stream as thing\n",
        "pkg/sibling.py": b"",
    }
    context = ProjectContext(files=frozenset(files), read=files.__getitem__)
    main = Names("pkg/main.py", collect_scopes(cst.parse_module("")), context)
    whole = Names("pkg/a.py", collect_scopes(cst.parse_module(MEANINGS)), context)
    beside = main.beside("pkg/a.py", name)
    assert beside is not None
    assert beside.global_name(name) == whole.global_name(name)
    told = main.exported(f".a.{name}")
    expected = whole.own_or_starred(name)
    assert (told is None) == (expected is None)
