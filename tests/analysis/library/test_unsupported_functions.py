from pathlib import Path

import pytest

from gpu2npu.analysis.library.calls import library_calls, read_listed
from gpu2npu.analysis.library.unsupported_functions import analyse_library, public_names, read_library
from gpu2npu.python.project.imports import module_names
from gpu2npu.python.project.project import Project
from gpu2npu.records import FindingKind
from gpu2npu.report.tables import csv_bytes
from gpu2npu.report.third_party import (
    FRAMEWORK,
    FULL,
    MIGRATION,
    OPERATORS,
    UNKNOWN,
    NeedKind,
    third_party_tables,
)

ROOT = Path("/somewhere/lib")
NCCL = "torch.cuda.nccl.all_reduce"  # no torch_npu has it
IN_NCCL = "import torch\ndef reduce(x):\n    return torch.cuda.nccl.all_reduce(x)\n"


def reached(files: dict[str, str], root: Path = ROOT) -> dict[tuple[str, str], list[str]]:
    """The last names of what reaches each need, by the kind and name of the need."""
    needs, notes = analyse_library(root, {path: text.encode() for path, text in files.items()}, "2.7.0")
    assert not notes
    return {(need.need.kind.value, need.need.api): [each.names[-1] for each in need.affected] for need in needs}


def reaching_nccl(files: dict[str, str]) -> set[str]:
    """Return the functions that reach `torch.cuda.nccl.all_reduce`, without the `lib.` before them."""
    found = {name for (_, api), names in reached(files).items() if api == NCCL for name in names}
    return {name.removeprefix("lib.") for name in found}


def test_calls_are_followed_through_files_packages_and_aliases() -> None:
    files = {
        "__init__.py": "from .ops import reduce as total\n",
        "ops/__init__.py": "from ._impl import *\n",
        "ops/_impl.py": IN_NCCL,
        "model.py": "import lib\nimport lib.ops as o\ndef one(x):\n    return lib.total(x)\ndef two(x):\n"
        "    f = o.reduce\n    return f(x)\ndef three(x):\n    return sorted(x)\n",
        "far.py": "from .model import one\ndef four(x):\n    def inner():\n        return one(x)\n    return inner\n",
    }
    assert reaching_nccl(files) == {"ops._impl.reduce", "model.one", "model.two", "far.four"}


def test_a_package_of_star_imports_queries_each_module_only_for_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = {f"m{number}.py": f"def f{number}(): pass\nclass C{number}: pass\n" for number in range(100)}
    stars = "".join(f"from .m{number} import *\n" for number in range(100))
    files = {**modules, "__init__.py": stars, "sub/__init__.py": "from lib import *\n"}
    library, _ = read_library(ROOT, {path: text.encode() for path, text in files.items()})
    queried: list[tuple[str, str]] = []
    member = library.member
    monkeypatch.setattr(library, "member", lambda module, name: queried.append((module, name)) or member(module, name))
    names = public_names(library)
    assert names["lib.m7.f7"] == ("lib.f7", "lib.sub.f7")
    assert len(names) == 200
    assert len(queried) < 10 * len(names)  # not each of 100 modules for each of 200 names


def test_the_names_a_function_can_be_imported_by_come_before_its_own() -> None:
    files = {"__init__.py": "from .ops import reduce as total\n", "ops.py": IN_NCCL}
    needs, _ = analyse_library(ROOT, {path: text.encode() for path, text in files.items()}, "2.7.0")
    names = [each.names for need in needs if need.need.api == NCCL for each in need.affected]
    assert names == [("lib.total", "lib.ops.reduce")]


CLASSES = """
import torch
from torch import nn
from .ops import reduce

class Base:
    def __init__(self, helper: "Helper"):
        self.helper = helper
    def run(self):
        return self.step()
    def step(self):
        return 0

class Helper:
    @property
    def total(self):
        return reduce(self)
    @classmethod
    def make(cls):
        return cls()
    @staticmethod
    def idle():
        return 1

class Child(Base):
    def step(self):
        return self.helper.total
    def other(self):
        super(Loud, self)
        return super().step()

class Loud:
    def __init__(self):
        reduce(self)

def through_property():
    return Helper.make().total

def harmless():
    return Helper.idle(), Child(Helper()).other()
"""


def test_methods_are_found_through_attributes_annotations_properties_and_bases() -> None:
    found = reaching_nccl({"__init__.py": "", "ops.py": IN_NCCL, "c.py": CLASSES})
    assert found == {"ops.reduce", "c.Helper.total", "c.Child.step", "c.through_property", "c.Loud"}


MODULES = """
import torch
from torch import nn
from functools import partial
from .ops import reduce

class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x
    @staticmethod
    def backward(ctx, g):
        return reduce(g)

class Block(nn.Module):
    def forward(self, x):
        return Scale.apply(x)

class Net(nn.Module):
    def __init__(self, block=Block, n=3):
        super().__init__()
        self.blocks = nn.ModuleList([block() for _ in range(n)])
    def forward(self, x):
        for each in self.blocks:
            x = each(x)
        return x

class Tower(nn.Sequential):
    def __init__(self):
        super().__init__(Net(), nn.ReLU())

class Quiet(nn.Module):
    def forward(self, x):
        return torch.relu(x)

def build(kind=None):
    return Tower()

def use(x):
    return build()(x)

registry = {}
registry.update(net=Net)
OPTIONS = dict(net=Net)
"""


def test_modules_reach_what_their_parts_reach() -> None:
    found = reaching_nccl({"__init__.py": "", "ops.py": IN_NCCL, "m.py": MODULES})
    assert found == {
        "ops.reduce",
        "m.Scale.backward",
        "m.Scale.apply",
        "m.Block.forward",
        "m.Net.forward",
        "m.Tower.forward",
        "m.use",
    }


def test_a_function_that_is_handed_on_runs_unless_it_is_only_stored() -> None:
    stored = "from .ops import reduce\ndef keep(hooks):\n    hooks.append(reduce)\n    register_hook(reduce)\n"
    files = {"__init__.py": "", "ops.py": IN_NCCL, "k.py": f"{stored}def run(x):\n    return apply(reduce, x)\n"}
    assert reaching_nccl(files) == {"ops.reduce", "k.run"}


def test_each_kind_of_need() -> None:
    files = {
        "__init__.py": "",
        "setup.py": "from torch.utils.cpp_extension import CUDAExtension\nCUDAExtension('lib._C', ['b.cpp'])\n",
        "b.cpp": 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("nms", &nms); }',
        "a.py": "import torch\nimport flash_attn\nfrom torch import nn\nfrom . import _C\n"
        "def op(x):\n    return _C.nms(x)\n"
        "def package(x):\n    return flash_attn.flash_attn_func(x)\n"
        "def wait():\n    torch.cuda.synchronize()\n"
        "def method(model):\n    return model.cuda()\n"
        "def parallel(m):\n    return nn.DataParallel(m)\n"
        "def fine(x, dtype=torch.float32):\n    return nn.functional.linear(x, x).mul_(2)\n"
        "def made_up(x):\n    return torch.no_such_function(x)\n"
        "class Own:\n    def to_device(self):\n        return self.move()\n    def move(self): ...\n",
    }
    assert reached(files) == {
        (NeedKind.OPERATOR.value, "lib._C.nms"): ["lib.a.op"],
        (NeedKind.OPERATOR.value, "flash_attn.flash_attn_func"): ["lib.a.package"],
        (NeedKind.MIGRATION.value, "torch.cuda.synchronize"): ["lib.a.wait"],
        (NeedKind.MIGRATION.value, "*.cuda"): ["lib.a.method"],
        (NeedKind.UNSUPPORTED.value, "torch.nn.DataParallel"): ["lib.a.parallel"],
        (NeedKind.UNKNOWN.value, "torch.no_such_function"): ["lib.a.made_up"],
    }


def test_recursion_and_imports_in_a_circle_end() -> None:
    files = {
        "__init__.py": "from .a import *\nfrom .b import *\n",
        "a.py": "from .b import g\nfrom . import *\nx = y\ny = x\nclass C(D): pass\nclass D(C): pass\n"
        "def f(n):\n    n = n.next\n    return g(n)\n",
        "b.py": "from .a import f\ndef g(n):\n    import torch\n    torch.cuda.nccl.all_reduce(n)\n    return f(n)\n",
    }
    assert reaching_nccl(files) == {"a.f", "b.g"}


def test_files_that_cannot_be_read_are_reported_and_the_rest_is_analysed() -> None:
    files = {
        "__init__.py": b"",
        "ops.py": IN_NCCL.encode(),
        "bad.py": b"def f(:\n",
        "null.py": b"x = '\x00'",
        "deep.py": b"(" * 5000 + b")" * 5000,
        "chain.py": b"x = " + b"a.b(" * 80 + b")" * 80,
        "sum.py": b"x = " + b" + ".join([b"1"] * 3000),
        "latin.py": b"# coding: latin-1\nx = '\xe9'\n",
    }
    needs, notes = analyse_library(ROOT, files, "2.7.0")
    assert {note.path for note in notes} <= {"bad.py", "null.py", "deep.py", "sum.py"}
    assert {"bad.py", "null.py", "deep.py"} <= {note.path for note in notes}
    assert all(note.failed and note.reason for note in notes)
    assert [need.need.api for need in needs] == [NCCL]


def test_the_five_files_keep_the_vendors_columns() -> None:
    files = {"__init__.py": "from .ops import reduce\n", "ops.py": IN_NCCL, "m.py": MODULES}
    needs, _ = analyse_library(ROOT, {path: text.encode() for path, text in files.items()}, "2.7.0")
    tables = third_party_tables(needs)
    assert {name: table.header[:3] for name, table in tables.items()} == {
        FRAMEWORK: ("Torch API", "Affected 3rd-party API", "Kind"),
        MIGRATION: ("Torch API", "Affected 3rd-party API", "Kind"),
        UNKNOWN: ("Torch API", "Affected 3rd-party API", "Kind"),
        OPERATORS: ("OP Name", "Affected 3rd-party API", "Kind"),
        FULL: ("File", "3rd-party API", "Message"),
    }
    row = next(row for row in tables[FULL].rows if row[1] == "lib.m.Block.forward")
    assert row[:4] == ("m.py", "lib.m.Block.forward", f"file_path:ops.py, start_line:3, api_name:{NCCL} \n", 16)
    assert row[5] == (
        "lib.m.Block.forward (m.py:17) -> lib.m.Scale.apply (m.py:7) -> lib.m.Scale.backward (m.py:13)"
        f" -> lib.ops.reduce (ops.py:3) -> {NCCL}"
    )


def test_a_cell_has_at_most_a_hundred_names() -> None:
    functions = "".join(f"def f{number}(x):\n    return reduce(x)\n" for number in range(250))
    needs, _ = analyse_library(ROOT, {"__init__.py": (IN_NCCL + functions).encode()}, "2.7.0")
    rows = third_party_tables(needs)[FRAMEWORK].rows
    assert [str(row[1]).count("\n") + 1 for row in rows] == [100, 100, 51]


@pytest.mark.parametrize("table", [FRAMEWORK, FULL])
def test_a_project_that_calls_what_is_listed_gets_findings(table: str) -> None:
    files = {"__init__.py": "from .ops import reduce\nfrom .m import Tower\n", "ops.py": IN_NCCL, "m.py": MODULES}
    needs, _ = analyse_library(ROOT, {path: text.encode() for path, text in files.items()}, "2.7.0")
    written = third_party_tables(needs)[table]
    listed: dict = {}
    read_listed(csv_bytes(written.header, written.rows), listed)
    user = {
        "train.py": b"import lib\nfrom lib import Tower as T, quiet\nfrom lib.ops import reduce\n"
        b"def main(x):\n    net = T()\n    quiet(x)\n    return net(x) + reduce(x)  # \xc3\xa9\n"
        b"class Mine(T):\n    pass\n"
        b"def other(x):\n    '\xc3\xa9'; return Mine()(x), lib.reduce\n",
        "own/lib.py": b"def reduce(x):\n    return x\n",
    }
    found = [
        (file.path, finding.span.start_line, finding.span.start_column, finding.api)
        for file in library_calls(Path("/user"), user, listed)
        for finding in sorted(file.findings, key=lambda finding: finding.span)
    ]
    assert found == [
        ("train.py", 5, 10, "lib.Tower"),
        ("train.py", 7, 11, "lib.Tower.forward"),
        ("train.py", 7, 20, "lib.ops.reduce"),
        ("train.py", 11, 16, "lib.Tower"),
    ]
    kinds = {finding.kind for file in library_calls(Path("/user"), user, listed) for finding in file.findings}
    assert kinds == {FindingKind.UNSUPPORTED}


def test_tables_of_the_vendors_tool_are_read_and_others_refused() -> None:
    listed: dict = {}
    read_listed(b'File,3rd-party API,Message\r\nops.py,"mmcv.nms\nmmcv.ops.nms",file_path:ops.py\r\n', listed)
    assert set(listed) == {"mmcv.nms", "mmcv.ops.nms"}
    read_listed(b'\xef\xbb\xbfTorch API,Affected 3rd-party API\ntorch.x,"a.b\na.C.forward"\n', listed)
    assert {"a.b", "a.C", "a.C.forward"} <= set(listed) and listed["a.b"].needs == ("torch.x",)
    for bad in (b"", b"a,b\n1,2\n", b"\x00\xff"):
        with pytest.raises(ValueError, match=r"column|CSV"):
            read_listed(bad, {})


def named(root: Path, files: dict[str, bytes]) -> dict[str, str]:
    return module_names(Project(frozenset(files), files.__getitem__, root))


def test_names_of_modules() -> None:
    sources = {
        "src/pkg/__init__.py": b"",
        "src/pkg/sub/__init__.py": b"",
        "src/pkg/sub/a.py": b"from pkg.sub import b",
        "megatron/core/__init__.py": b"",
        "megatron/core/x.py": b"import megatron.core.y",
        "tools/run.py": b"",
        "train.py": b"",
    }
    assert named(Path("/x"), sources) == {
        "src/pkg/__init__.py": "pkg",
        "src/pkg/sub/__init__.py": "pkg.sub",
        "src/pkg/sub/a.py": "pkg.sub.a",
        "megatron/core/__init__.py": "megatron.core",
        "megatron/core/x.py": "megatron.core.x",
        "tools/run.py": "tools.run",
        "train.py": "train",
    }
    assert named(Path("/x/megatron/core"), {"__init__.py": b"from megatron.core import y"}) == {
        "__init__.py": "megatron.core"
    }
    assert named(Path("/x/timm"), {"__init__.py": b"import timm.layers"}) == {"__init__.py": "timm"}


def test_a_module_whose_name_ends_as_that_of_a_setup_script_is_read() -> None:
    assert reaching_nccl({"env_setup.py": IN_NCCL, "setup.py": IN_NCCL}) == {"env_setup.reduce"}
