"""Names mean what scopes and imports say, in one file and across files."""

from __future__ import annotations

import sys

import pytest

import gpu2npu
from gpu2npu.engine import ProjectContext, migrate_source
from gpu2npu.engine.torch_library import torch_project
from gpu2npu.python.tree.syntax import chain
from gpu2npu.rulebook import load_rulebook

UNCHANGED = {
    "parameter shadows torch": "import torch\ndef f(torch):\n    return torch.cuda.is_available()\n",
    "other package as torch": "import numpy as torch\ntorch.cuda.is_available()\n",
    "from another package": "from numba import cuda\ncuda.synchronize()\n",
    "a variable called cuda": "cuda = setup()\ncuda.synchronize()\n",
    "a function called cuda": "def cuda(): ...\ncuda()\n",
    "a loop variable": "import torch\nfor torch in models:\n    torch.cuda.x\n",
    "a lambda's parameter": "f = lambda torch: torch.cuda.is_available()\n",
    "a comprehension's variable": "[torch.cuda.x for torch in xs]\n",
    "an attribute of something else": "self.torch.cuda.is_available()\nx.torch.cuda.y\n",
    "a class attribute is no scope of its methods": (
        "class A:\n    from torch import cuda\n    def f(self):\n        return cuda.x()\ncuda = 1\n"
    ),
}


@pytest.mark.parametrize("text", UNCHANGED.values(), ids=UNCHANGED)
def test_what_is_not_torch_stays(migrate, text: str) -> None:
    if "class A" in text:
        assert "cuda.x()" in migrate(text)
    else:
        assert migrate(text) == text


CHANGED = {
    "plain": ("import torch\ntorch.cuda.synchronize()\n", "torch.npu.synchronize()"),
    "import torch as T": ("import torch as T\nT.cuda.synchronize()\n", "T.npu.synchronize()"),
    "import torch.cuda": ("import torch.cuda\ntorch.cuda.synchronize()\n", "import torch.npu\ntorch.npu.synchronize()"),
    "import torch.cuda as": (
        "import torch.cuda as tc\ntc.synchronize()\n",
        "import torch_npu\nimport torch.npu as tc\ntc.synchronize()",
    ),
    "from torch import cuda as": ("from torch import cuda as c\nc.synchronize()\n", "import npu as c\nc.synchronize()"),
    "from torch.cuda import": (
        "from torch.cuda import synchronize as s\ns()\n",
        "from torch.npu import synchronize as s",
    ),
    "star": ("from torch.cuda import *\nsynchronize()\n", "from torch.npu import *"),
    "alias of an alias": (
        "import torch\ncu = torch.cuda\namp = cu.amp\namp.autocast()\n",
        "cu = torch.npu\namp = cu.amp",
    ),
    "in a function": ("def f():\n    import torch as t\n    t.cuda.synchronize()\n", "t.npu.synchronize()"),
    "use before a later import": (
        "def f(): return torch.cuda.synchronize()\nimport torch\n",
        "torch.npu.synchronize()",
    ),
    "optional import": (
        "try:\n    import torch\nexcept ImportError:\n    torch = None\ntorch.cuda.synchronize()\n",
        "torch.npu.synchronize()",
    ),
    "torch from torch": (
        "from torch import torch\ntorch.cuda.synchronize()\n",
        "from torch import torch\nimport torch_npu\ntorch.npu.synchronize()\n",
    ),
    "torch from a module of torch": (
        "from torch.nn.functional import torch as th\nth.cuda.synchronize()\n",
        "from torch.nn.functional import torch as th\nimport torch_npu\nth.npu.synchronize()\n",
    ),
    "torch in torch": (
        "import torch\nx = torch.torch.cuda.amp.autocast()\nis_on = torch.functional.torch.is_autocast_enabled()\n",
        "x = torch.torch.npu.amp.autocast()\nis_on = torch.npu.is_autocast_enabled()\n",
    ),
    "importorskip": ("torch = pytest.importorskip('torch')\ntorch.cuda.synchronize()\n", "torch.npu.synchronize()"),
    "global": (
        "def f():\n    global th\n    import torch as th\ndef g():\n    th.cuda.synchronize()\n",
        "th.npu.synchronize()",
    ),
    "in a cell of unknown origin": ("torch.cuda.synchronize()\n", "torch.npu.synchronize()"),
    "inside an f-string": ("import torch\nf'cuda:{torch.cuda.current_device()}'\n", "npu.current_device()"),
    "inside an f-string in print": (
        "import torch\nprint(f'on {torch.cuda.current_device()}')\n",
        "npu.current_device()",
    ),
    "a decorator": ("import torch\n@torch.cuda.amp.autocast()\ndef f(): ...\n", "@torch.npu.amp.autocast()"),
    "an annotation": ("import torch\ndef f(s: torch.cuda.Stream): ...\n", "s: torch.npu.Stream"),
    "a base class": ("import torch\nclass S(torch.cuda.Stream): ...\n", "class S(torch.npu.Stream)"),
    "a default": ("import torch\ndef f(n=torch.cuda.device_count()): ...\n", "n=torch.npu.device_count()"),
    "parentheses and line breaks": (
        "import torch\n(torch\n .cuda\n .synchronize)()\n",
        "(torch\n .npu\n .synchronize)()",
    ),
    "a local alias's local name": (
        "def f():\n    from torch import cuda\n    cuda.synchronize()\n",
        "    from torch import npu\n    npu.synchronize()",
    ),
}


if sys.version_info >= (3, 12):
    CHANGED |= {
        "a type parameter": ("import torch\ndef f[S: torch.cuda.Stream](s: S): ...\n", "f[S: torch.npu.Stream]"),
        "a type parameter of a class": ("import torch\nclass A[S: torch.cuda.Stream]: ...\n", "A[S: torch.npu.Stream]"),
        "a string in a format": ('import torch\nf"{x.to("cuda"):{"cuda"}}"\n', 'x.to("npu")'),
    }


@pytest.mark.parametrize(("text", "expected"), CHANGED.values(), ids=CHANGED)
def test_every_import_form(migrate, text: str, expected: str) -> None:
    assert expected in migrate(text)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python reads the syntax")
def test_a_later_syntax_is_named() -> None:
    source = b"import torch\ndef f[S: torch.cuda.Stream](s: S): ...\n"
    failure = migrate_source(source, "a.py", load_rulebook(), ProjectContext()).failure
    assert failure is not None
    assert failure.startswith("the syntax in line 2 is newer than Python 3.")


def test_the_import_keeps_its_name_where_a_rename_could_hurt(migrate) -> None:
    assert "from torch import npu as cuda\n" in migrate("from torch import cuda\nnpu = 1\ncuda.synchronize()\n")
    assert "from torch import npu as cuda\n" in migrate("__all__ = ['cuda']\nfrom torch import cuda\n")
    rebound = "try:\n    from torch import cuda\nexcept ImportError:\n    cuda = None\nif cuda: cuda.synchronize()\n"
    assert "from torch import npu as cuda\n" in migrate(rebound)


def test_names_are_followed_through_the_files_of_a_project(project) -> None:
    files = {
        "pkg/__init__.py": "from .compat import th\n",
        "pkg/compat.py": "import torch as th\nfrom torch import cuda\n",
        "pkg/a.py": "from .compat import th\nth.cuda.synchronize()\n",
        "pkg/b.py": "from pkg import th as t\nt.cuda.synchronize()\n",
        "pkg/c.py": "from . import compat\ncompat.th.cuda.synchronize()\n",
        "pkg/d.py": "from .compat import cuda\ncuda.synchronize()\n",
        "pkg/torches.py": "from torch import torch\n",
        "pkg/g.py": "from .torches import torch as t\nt.cuda.synchronize()\n",
        "pkg/e.py": "from .compat import *\nth.cuda.synchronize()\n",
        "scripts/f.py": "from helper import th\nth.cuda.synchronize()\n",
        "scripts/helper.py": "from numpy import th\n",
    }
    after = {path: (result.content or files[path].encode()).decode() for path, result in project(files).items()}
    assert "\nth.npu.synchronize()" in after["pkg/a.py"]
    assert "\nt.npu.synchronize()" in after["pkg/b.py"]
    assert "compat.th.npu.synchronize()" in after["pkg/c.py"]
    assert after["pkg/d.py"] == files["pkg/d.py"]
    assert "from torch import npu as cuda" in after["pkg/compat.py"]
    assert "\nth.npu.synchronize()" in after["pkg/e.py"]
    assert "\nt.npu.synchronize()" in after["pkg/g.py"]
    assert after["scripts/f.py"] == files["scripts/f.py"]


HOLDER = "import torch\nclass A:\n    torch = None\n    def __init__(self):\n        self.torch = torch\n"
USER = "from {0} import A\nclass B(A[int]):\n    def f(self):\n        self.torch.cuda.init()\n"


def test_torch_is_followed_through_an_inherited_attribute(project) -> None:
    files = {
        "a.py": HOLDER,
        "b.py": USER.format("a"),
        "c.py": "from b import B\nclass C(B):\n    def f(self):\n        self.torch.cuda.init()\n",
        "d.py": "from e import A as E\n" + USER.format("d"),  # derives from itself
        "e.py": "class A:\n    def __init__(self, torch):\n        self.torch = torch\n",
        "f.py": USER.format("e"),
        "g.py": (
            "import torch\nclass G:\n    @property\n    def th(self):\n        return torch\n"
            "    def f(self):\n        self.th.cuda.init()\n"
        ),
    }
    after = {path: result.content for path, result in project(files).items()}
    assert [path for path, content in after.items() if content is not None] == ["b.py", "c.py", "g.py"]
    assert all(b".npu.init()" in content for content in after.values() if content is not None)


def test_import_cycles_end(project) -> None:
    files = {"a.py": "from b import x\nx.cuda.y\n", "b.py": "from a import x\nx.cuda.y\n"}
    assert all(result.content is None for result in project(files).values())


def test_a_missing_target_is_left_and_reported(project) -> None:
    source = "import torch\nfrom torch.cuda import nvtx, Stream\nnvtx.range_push('x')\ntorch.cuda.power_draw()\n"
    result = project({"a.py": source})["a.py"]
    assert result.content is not None
    lines = result.content.decode().splitlines()
    assert lines[1:4] == ["import torch_npu", "from torch.cuda import nvtx", "from torch.npu import Stream"]
    assert lines[-1] == "torch.cuda.power_draw()"
    found = {(finding.span.start_line, finding.api, finding.kind.value) for finding in result.findings}
    assert found == {
        (3, "torch.cuda.nvtx.range_push", "unsupported"),
        (4, "torch.cuda.power_draw", "unsupported"),
    }


def test_a_comment_inside_a_split_import_is_not_lost(project) -> None:
    source = "from torch.cuda import (  # mine\n    nvtx,\n    Stream,\n)\n"
    result = project({"a.py": source})["a.py"]
    assert result.content is None
    assert "review" in {finding.kind.value for finding in result.findings}


def test_a_name_that_is_bound_is_no_use(rulebook) -> None:
    source = (
        b"import torch\nError = torch.cuda.nosuch\nother: T = torch.cuda.nosuch\nif (third := torch.cuda.nosuch): ...\n"
    )
    findings = migrate_source(source, "a.py", rulebook, ProjectContext()).findings
    assert [(finding.span.start_line, finding.span.start_column) for finding in findings] == [(2, 8), (3, 11), (4, 13)]


CIRCLES = {
    "names": {"a.py": "from b import x\nx.cuda()\n", "b.py": "from a import x\n"},
    "stars": {"a.py": "from b import *\nx.cuda()\ncuda.init()\n", "b.py": "from a import *\nfrom torch import cuda\n"},
    "many stars": {
        f"m{i}.py": "".join(f"from m{j} import *\n" for j in range(12) if j != i) + "Kit().cuda()\nx.cuda()\n"
        for i in range(12)
    },
    "functions": {
        "a.py": "class Kit:\n    def cuda(self): ...\n"
        + "".join(f"def f{i}(a):\n" + "".join(f"    if a: return f{j}(a)\n" for j in range(9)) for i in range(9))
        + "f0(1).cuda()\n"
    },
}


@pytest.mark.parametrize("files", CIRCLES.values(), ids=CIRCLES)
def test_circles_end(project, files: dict[str, str]) -> None:
    results = project(files)
    assert all(result.failure is None for result in results.values())
    assert any(b".npu()" in (result.content or b"") for result in results.values())


def test_a_name_is_found_through_a_circle_of_stars(project) -> None:
    files = {
        "a.py": "from b import *\ncuda.nosuch()\n",
        "b.py": "from a import *\nfrom c import *\n",
        "c.py": "from b import *\nfrom torch import cuda as cuda\n",
    }
    assert [finding.api for finding in project(files)["a.py"].findings] == ["torch.cuda.nosuch"]


_PROPERTIES = {
    "the call itself": ("ok = torch.cuda.get_device_properties(0).major > 7\n", 1),
    "a name": ("p = torch.cuda.get_device_properties(0)\nok = p.major > 7 or p.minor\n", 2),
    "an attribute": (
        "class A:\n"
        "    def __init__(self):\n        self.p = torch.cuda.get_device_properties(0)\n"
        "    def f(self):\n        return self.p.major\n",
        1,
    ),
    "something else": ("p = packaging.version.parse(torch.__version__)\nok = p.major > 1 or self.p.major\n", 0),
    "a member of its own": (
        "class P:\n    major = 1\ndef f(p: P):\n    torch.cuda.get_device_properties(0)\n    return p.major\n",
        0,
    ),
}


@pytest.mark.parametrize(("text", "expected"), _PROPERTIES.values(), ids=_PROPERTIES)
def test_an_attribute_of_what_a_function_gives(project, text: str, expected: int) -> None:
    findings = project({"a.py": f"import torch\n{text}"})["a.py"].findings
    assert [finding.rule.startswith("gpu-properties-") for finding in findings] == [True] * expected


MOCKING = """from unittest.mock import patch
@patch('app.torch')
def test(mocked):
    mocked.{}.is_available.return_value = True
"""


def test_what_a_test_sets_in_the_mock_of_torch(project) -> None:
    files = {"app.py": "import torch\ntorch.cuda.is_available()\n", "test_app.py": MOCKING.format("cuda")}
    assert (project(files)["test_app.py"].content or b"").decode() == MOCKING.format("npu")


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("from common import torch", "torch"),
        ("from common import torch as t", "t"),
        ("from common import *", "torch"),
        ("import common", "common.torch"),
        ("import common as c", "c.torch"),
    ],
)
def test_the_plugin_is_imported_beside_torch_from_a_module_of_the_project(project, line: str, name: str) -> None:
    files = {"common.py": "import torch\n", "a.py": f"import os\n{line}\nimport sys\ns = {name}.cuda.Stream()\n"}
    assert project(files)["a.py"].content.decode() == (
        f"import os\n{line}\nimport torch_npu\nimport sys\ns = {name}.npu.Stream()\n"
    )


def test_a_star_that_brings_no_torch_needs_no_plugin(project) -> None:
    files = {"common.py": "import os\n", "a.py": "from common import *\nbatch.cuda()\n"}
    assert project(files)["a.py"].content.decode() == "from common import *\nbatch.npu()\n"


LAZY = """def lazy():
    import torch{new}
    return torch


def f():
    torch = lazy()
    torch.{device}.synchronize()
"""
OTHERS = [
    "class Fake:\n    pass\n\n\ntorch = Fake()\ntorch.cuda.synchronize()\n",
    "def make():\n    return 3\n\n\ntorch = make()\ntorch.cuda.synchronize()\n",
    "torch = Kit\ntorch = make()\ntorch.cuda.synchronize()\n",
]


def test_torch_that_calls_give():
    migrated = gpu2npu.migrate_source(LAZY.format(new="", device="cuda"), version="2.1.0")
    assert migrated.text == LAZY.format(new="\n    import torch_npu", device="npu")
    tried = "from ray import tried\ntorch, nn = tried()\n{new}torch.{device}.synchronize()\n"
    migrated = gpu2npu.migrate_source(tried.format(new="", device="cuda"), version="2.1.0")
    assert migrated.text == tried.format(new="import torch_npu\n", device="npu")
    for code in OTHERS:
        assert gpu2npu.migrate_source(code, version="2.1.0").text == code


def test_what_holds_a_package_is_none_itself() -> None:
    project = torch_project({"a.py": b"import torch\nclass K:\n    q = torch\nK.q.cuda.empty_cache()\n"})
    names = project.names("a.py")
    assert names is not None
    call = names.file.tree.body[-1].value
    found = [names.qualified(each, names.file.module) for each in chain(call.func)]
    assert found == [None, "torch", "torch.cuda", "torch.cuda.empty_cache"]
