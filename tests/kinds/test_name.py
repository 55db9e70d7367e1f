"""Name rules whose targets live elsewhere."""

from __future__ import annotations

import pytest

from gpu2npu.engine import ProjectContext, migrate_source
from tests.kinds.conftest import text_of

ACTIVITY = [
    {"id": "kind", "match": {"name": "torch.profiler.Kind"}, "then": {"rename": "torch_npu.profiler.Kind"}},
    {"id": "gpu", "match": {"name": "torch.profiler.Kind.GPU"}, "then": {"rename": "torch_npu.profiler.Kind.NPU"}},
]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "from torch.profiler import Kind\nkinds = [Kind.CPU, Kind.GPU]\n",
            "from torch_npu.profiler import Kind\nkinds = [Kind.CPU, Kind.NPU]\n",
        ),
        (
            "import torch\nkinds = [torch.profiler.Kind.GPU]\n",
            "import torch\nimport torch_npu.profiler\nkinds = [torch_npu.profiler.Kind.NPU]\n",
        ),
    ],
)
def test_a_renamed_member_of_a_renamed_owner(migrate_with, before: str, after: str) -> None:
    assert migrate_with(ACTIVITY, before).content.decode() == after


def test_a_target_under_torch_binds_torch(migrate_with) -> None:
    rule = {
        "id": "switch",
        "match": {"name": "torch.backends.x.allow"},
        "then": {"rename": "torch.npu.x.allow", "imports": "torch_npu"},
    }
    result = migrate_with([rule], "import torch.backends.x as x\nx.allow = True\n")
    assert "torch.npu.x.allow = True" in result.content.decode()
    assert {"import torch", "import torch_npu"} <= set(result.content.decode().splitlines())


def test_a_string_whose_owner_changes_is_reported(migrate_with) -> None:
    rule = {"id": "switch", "match": {"name": "torch.backends.x.allow"}, "then": {"rename": "torch.npu.y.allow"}}
    result = migrate_with([rule], "import torch\nsetattr(torch.backends.x, 'allow', True)\n")
    assert result.content is None
    assert [finding.rule for finding in result.findings] == ["switch"]


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("getattr(torch.cuda, 'nosuch')", ["torch.cuda.nosuch"]),
        ("getattr(torch.cuda, 'nosuch', None)", []),
        ("hasattr(torch.cuda, 'nosuch')", []),
    ],
)
def test_a_name_whose_presence_is_tested_is_not_reported(rulebook, use: str, expected: list[str]) -> None:
    result = migrate_source(f"import torch\n{use}\n".encode(), "train.py", rulebook, ProjectContext())
    assert [finding.api for finding in result.findings] == expected


def test_what_an_alias_stands_for_is_reported_once(migrate_with) -> None:
    rule = {"id": "v", "match": {"name": "torch.ver.x"}, "then": {"report": {"kind": "review", "message": "Look."}}}
    result = migrate_with([rule], "import torch\nversion = torch.ver.x\nif version: print(version)\n")
    assert [(finding.rule, finding.span.start_line) for finding in result.findings] == [("v", 2)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{}; y = 1\n", "{}\n{}\ny = 1\n"),
        ("if x: {}; y = 1\n", "if x: {}; {}; y = 1\n"),
        ("if x:\n    {}\n", "if x:\n    {}\n    {}\n"),
    ],
)
def test_an_import_that_is_split_stays_where_it_was(migrate, before: str, after: str) -> None:
    together = before.format("from torch.profiler import profile, record_function")
    split = after.format("from torch_npu.profiler import profile", "from torch.profiler import record_function")
    result = migrate("import torch\n" + together)
    assert result == "import torch\nimport torch_npu\n" + split


IMPORTED = {
    "only imported": ("from torch.cuda import nccl\n", [1]),
    "imported and used": ("from torch.cuda import nccl\n\nnccl.version()\n", [3]),
    "nothing to say": ("from torch.cuda import Stream\n", []),
}


@pytest.mark.parametrize(("text", "lines"), IMPORTED.values(), ids=IMPORTED)
def test_an_import_is_reported_where_no_use_is(rulebook, text: str, lines: list[int]) -> None:
    result = migrate_source(text.encode(), "train.py", rulebook, ProjectContext())
    assert [finding.span.start_line for finding in result.findings] == lines


@pytest.mark.parametrize(
    ("module", "after"),
    [
        ("house", "house_npu"),
        ("house.a.b", "house_npu.a.b"),
        ("house.kept", "house.kept"),
        ("house.kept.a", "house.kept.a"),
        ("house.old", "house.old"),
        (".house", ".house"),
        ("households", "households"),
    ],
)
def test_all_of_a_module_is_imported_by_the_name_of_the_nearest_rule(migrate_with, module: str, after: str) -> None:
    rules = [
        {"id": "package", "match": {"name": "house"}, "then": {"rename": "house_npu"}},
        {"id": "kept", "match": {"name": "house.kept"}, "then": {"keep": True}},
        {"id": "old", "match": {"name": "house.old"}, "then": {"report": {"kind": "review", "message": "Look."}}},
    ]
    before = f"from {module} import *\n"
    assert text_of(migrate_with(rules, before), before) == f"from {after} import *\n"


@pytest.mark.parametrize(
    "binding",
    [
        "import torch\nc = torch.cuda\n",
        "import torch as t\nb = t.cuda\nc = b\n",
        "from torch import cuda\nc = cuda\n",
        "from torch import cuda as b\nc = b\n",
        "import torch.cuda as c\n",
    ],
)
def test_what_the_npu_lacks_is_reported_under_every_alias_of_its_module(rulebook, binding: str) -> None:
    text = f"{binding}c.nosuch()\nd = 1\nd.nosuch()\n".encode()
    result = migrate_source(text, "train.py", rulebook, ProjectContext())
    assert [(found.api, found.span.start_line) for found in result.findings] == [
        ("torch.cuda.nosuch", binding.count("\n") + 1)
    ]


@pytest.mark.parametrize(
    ("names", "after"),
    [
        ("GpuGraph, f", "from lib import (  # fast\n    NpuGraph, f)\nx = NpuGraph, f\n"),
        ("GpuNode", "from lib.npu import (  # fast\n    GpuNode)\nx = GpuNode\n"),
        ("GpuGraph, GpuNode", None),
    ],
)
def test_a_statement_with_a_comment_is_renamed_but_not_split(migrate_with, names: str, after: str | None) -> None:
    rules = [
        {"id": "graph", "match": {"name": "lib.GpuGraph"}, "then": {"rename": "lib.NpuGraph"}},
        {"id": "node", "match": {"name": "lib.GpuNode"}, "then": {"rename": "lib.npu.GpuNode"}},
    ]
    before = f"from lib import (  # fast\n    {names})\nx = {names}\n"
    result = migrate_with(rules, before)
    assert text_of(result, before) == (after or before)
    assert ["split the statement" in found.message for found in result.findings] == [True] * (after is None)


def test_a_module_from_a_star_import_is_reported(rulebook) -> None:
    text = b"from torch.cuda import *\nfrom torch import *\n\ncuda.synchronize()\nget_device_capability()\n"
    result = migrate_source(text, "train.py", rulebook, ProjectContext())
    assert [(finding.span.start_line, finding.api) for finding in result.findings] == [
        (4, "torch.cuda.synchronize"),
        (5, "torch.cuda.get_device_capability"),
    ]


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("isinstance(x, nn.DataParallel)", 0),
        ("isinstance(x, (nn.Linear, nn.DataParallel))", 0),
        ("isinstance(x, nn.Linear | nn.DataParallel)", 0),
        ("type(x) in (nn.DataParallel, nn.Linear)", 0),
        ("def f(x: Optional[nn.DataParallel]): ...", 0),
        ("def f() -> nn.DataParallel: ...", 0),
        ("async def f() -> nn.DataParallel: ...", 0),
        ("x: nn.DataParallel", 0),
        ("x: object = nn.DataParallel", 1),
        ("def f(x=nn.DataParallel): ...", 1),
        ("isinstance(nn.DataParallel(x), Wrapped)", 1),
        ("nn.DataParallel(x) == y", 1),
        ("x = nn.DataParallel", 1),
        ("wrap(nn.DataParallel)", 1),
        ("class Mine(nn.DataParallel): ...", 1),
    ],
)
@pytest.mark.parametrize("spelled", ["nn.DataParallel", "DataParallel"])
def test_a_class_that_is_only_tested_for_is_no_use_of_it(migrate_with, use: str, expected: int, spelled: str) -> None:
    imports = "from torch import nn\n" if spelled.startswith("nn.") else "from torch.nn import DataParallel, Linear\n"
    text = imports + use.replace("nn.DataParallel", spelled).replace("nn.Linear", "object")
    found = migrate_with([], text).findings
    assert [finding.kind.value for finding in found] == ["unsupported"] * expected


# `cuda` and what is made of it: a name that only CUDA's module has stays, and so does what binds it.
OLD_AND_NEW = {
    "both": (
        "from torch import cuda, nn\ncuda.is_available()\ncuda.nccl.version()\n",
        "import torch_npu\nfrom torch import cuda, npu, nn\nnpu.is_available()\ncuda.nccl.version()\n",
    ),
    "the old one": ("from torch import nn, cuda\ncuda.nccl.version()\n", None),
    "the old one under another name": ("from torch import cuda as c\nc.nccl.version()\n", None),
    "the new one": (
        "from torch import cuda\ncuda.is_available()\n",
        "import torch_npu\nfrom torch import npu\nnpu.is_available()\n",
    ),
    "in a string": (
        "from torch import cuda\ndef f(x: 'cuda.Stream', y: 'cuda.nccl.X'): ...\n",
        "import torch_npu\nfrom torch import cuda, npu\ndef f(x: 'npu.Stream', y: 'cuda.nccl.X'): ...\n",
    ),
    "a statement that is split": (
        "from torch import cuda, get_autocast_gpu_dtype\ncuda.nccl.version()\ncuda.is_available()\n",
        "import torch_npu\nfrom torch import cuda, npu\nfrom torch.npu import get_autocast_dtype\n"
        "cuda.nccl.version()\nnpu.is_available()\n",
    ),
    "a statement that is not split": (
        "from torch import (cuda,  # both\n    get_autocast_gpu_dtype)\ncuda.is_available()\n",
        None,
    ),
    "re-exported": (
        "from torch import cuda\n__all__ = ['cuda']\ncuda.is_available()\n",
        "import torch_npu\nfrom torch import npu as cuda\n__all__ = ['cuda']\ncuda.is_available()\n",
    ),
}


@pytest.mark.parametrize(("before", "after"), OLD_AND_NEW.values(), ids=OLD_AND_NEW)
def test_a_from_import_binds_what_is_used(migrate, before: str, after: str | None) -> None:
    assert migrate(before) == (after or before)
    assert migrate(after or before) == (after or before)


def test_a_name_that_another_file_takes_is_moved_though_its_own_file_keeps_it(project) -> None:
    files = {
        "lib.py": "from torch import cuda\ncuda.nccl.version()\n",
        "train.py": "from lib import cuda\ncuda.is_available()\n",
    }
    assert b"from torch import npu as cuda\n" in project(files)["lib.py"].content


@pytest.mark.parametrize("plugin", ["import torch_npu as plugin\n", "from torch_npu import npu\n", ""])
def test_a_plugin_that_is_spelled_is_bound(migrate, plugin: str) -> None:
    before = f"{plugin}import torch\ntorch.profiler.profile()\n"
    assert migrate(before) == f"{plugin}import torch\nimport torch_npu\ntorch_npu.profiler.profile()\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import house\nhouse.f()\n", "import house_npu as house\nhouse.f()\n"),
        ("import os, house.a\nhouse.a.f()\n", "import os, house_npu.a, house_npu as house\nhouse.a.f()\n"),
        ("import house.a as b\nb.f()\n", "import house_npu.a as b\nb.f()\n"),
        ("from house.a import b\nb()\n", "from house_npu.a import b\nb()\n"),
        ("import firm.gpu\nfirm.gpu.f()\nfirm.f()\n", "import firm.gpu\nimport firm_npu\nfirm_npu.f()\nfirm.f()\n"),
        ("import firm.gpu as g\ng.f()\n", "import firm_npu as g\ng.f()\n"),
        ("from firm import gpu\ngpu.f()\n", "import firm_npu\nfirm_npu.f()\n"),
        ("from firm import gpu as g, x\ng.f()\n", "import firm_npu as g\nfrom firm import x\ng.f()\n"),
    ],
)
def test_a_package_and_a_module_that_become_a_package(migrate_with, before: str, after: str) -> None:
    package = {"id": "package", "match": {"name": "house"}, "then": {"rename": "house_npu"}}
    module = {"id": "module", "match": {"name": "firm.gpu"}, "then": {"rename": "firm_npu"}}
    assert migrate_with([package, module], before).content == after.encode()


def test_a_star_brings_in_what_a_users_rule_is_for(migrate_with) -> None:
    rules = [
        {"id": "call", "match": {"call": "house.move"}, "then": {"replace": "{0}.npu()"}},
        {"id": "argument", "match": {"argument": "graph", "of": "house.jit"}, "then": {"remove": True}},
        {"id": "name", "match": {"name": "house.Stream"}, "then": {"rename": "house_npu.Stream"}},
    ]
    result = migrate_with(rules, "from house import *\nmove(x)\njit(f, graph=1)\nStream()\n")
    assert result.content == b"from house import *\nx.npu()\njit(f)\nStream()\n"
    assert [finding.rule for finding in result.findings] == ["name"]
    assert migrate_with(rules, "from house import *\nfrom other import move, jit, Stream\nmove(x)\n").content is None


@pytest.mark.parametrize(
    ("code", "moved"),
    [
        ("class K:\n    q = torch\nK.q.cuda.empty_cache()\n", True),
        ("class K:\n    q = torch\nk = K()\nk.q.cuda.amp.autocast()\n", True),
        ("from types import SimpleNamespace as S\nb = S(u=torch, v=2)\nb.u.cuda.manual_seed(b.v)\n", True),
        ("b = {'u': torch, 'm': 3}\nb['u'].cuda.set_device(b['m'])\n", True),
        ("W = [torch]\nW[0].cuda.empty_cache()\n", True),
        ("def z(u):\n    u.cuda.synchronize()\nz(torch)\n", True),
        ("def z(n, u=None):\n    return u.cuda.memory_allocated(n)\nz(0, u=torch)\n", True),
        ("class Z:\n    def __init__(self, u):\n        self.u = u\n    def g(self):\n"
         "        return self.u.cuda.is_available()\nZ(torch).g()\n", True),
        ("def h():\n    return torch\nh().cuda.ipc_collect()\n", True),
        ("def o(u):\n    def i():\n        return u.cuda.current_stream()\n    return i\no(torch)()\n", True),
        ("import cupy\ndef z(u):\n    return u.cuda.runtime.getDeviceCount()\nz(cupy)\n", False),
        ("import cupy\ndef z(u):\n    return u.cuda.synchronize()\nz(cupy)\nz(torch)\n", False),
        ("class B:\n    def f(self): ...\ndef z(u):\n    u.b.cuda.f()\nz(B())\n", False),
    ],
)  # fmt: skip
def test_a_package_that_is_a_value_has_its_members(project, code, moved):
    """Also where another file gives it."""
    other = "import a\n" if "K" not in code else "from a import K\nK.q.cuda.empty_cache()\n"
    found = project({"a.py": f"import torch\n{code}", "b.py": other})
    text = (found["a.py"].content or b"").decode()
    assert (".npu." in text) is moved
    assert not moved or ".cuda" not in text
    assert "K" not in code or b"K.q.npu.empty_cache()" in (found["b.py"].content or b"")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("max(xs, key=attrgetter('is_cuda'))", "max(xs, key=attrgetter('is_npu'))"),
        ("map(operator.methodcaller('cuda'), xs)", "map(operator.methodcaller('npu'), xs)"),
        ("methodcaller('cuda', 0)(x)", "methodcaller('npu', 0)(x)"),
        ("methodcaller('read')(x)", None),
    ],
)
def test_a_member_that_operator_takes_by_its_name(migrate, before, after):
    code = "import operator\nimport torch\nfrom operator import attrgetter, methodcaller\n"
    assert (after or before) in migrate(f"{code}{before}\n")


@pytest.mark.parametrize(
    ("settings", "is_reported"),
    [
        ("import numpy as np\n\n\ndef compatible():\n    np.bool = bool\n", False),
        ("import numpy as np\n\n\nclass A:\n    def f(self):\n        self.bool = np.int_\n", True),
    ],
)
def test_a_name_that_the_project_assigns_is_one_there_is(project, settings: str, is_reported: bool) -> None:
    use = "import numpy as np\nimport torch\n\nx = np.zeros(3, dtype=np.bool)\n"
    found = project({"settings.py": settings, "use.py": use})
    assert not found["settings.py"].findings
    assert ("numpy-bool" in [each.rule for each in found["use.py"].findings]) is is_reported
