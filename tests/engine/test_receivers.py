"""`.cuda()` is edited on tensors, modules and unknown objects, and left on objects of the user's own classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu2npu.engine import migrate_source, scan_project

KIT = "class Kit:\n    def cuda(self): ...\n"
OWN = {
    "an instance": "Kit().cuda()",
    "a variable": "kit = Kit()\nkit.cuda()",
    "an annotated parameter": "def f(kit: Kit):\n    kit.cuda()",
    "a quoted annotation": "def f(kit: 'Kit'):\n    kit.cuda()",
    "an optional annotation": "def f(kit: Optional[Kit] = None):\n    kit.cuda()",
    "a union annotation": "def f(kit: Kit | None = None):\n    kit.cuda()",
    "an annotated variable": "kit: Kit = make()\nkit.cuda()",
    "an attribute of self": (
        "class A:\n    def __init__(self):\n        self.kit = Kit()\n    def f(self):\n        self.kit.cuda()"
    ),
    "a parameter kept on self": (
        "class A:\n    def __init__(self, kit: Kit):\n        self.kit = kit\n    def f(self):\n        self.kit.cuda()"
    ),
    "a factory": "def make():\n    return Kit()\nmake().cuda()",
    "an annotated factory": "def make() -> Kit: ...\nmake().cuda()",
    "a subclass": "class Small(Kit): ...\nSmall().cuda()",
    "a conditional": "kit = Kit() if a else Kit()\nkit.cuda()",
    "a method of its own": "class B(Kit):\n    def f(self):\n        self.cuda()",
}


@pytest.mark.parametrize("use", OWN.values(), ids=OWN)
def test_own_classes_keep_their_method(migrate, use: str) -> None:
    text = f"{KIT}{use}\n"
    assert migrate(text) == text


EDITED = {
    "a tensor": "import torch\nt = torch.zeros(2)\nt.cuda()",
    "a module": "import torch.nn as nn\nnet = nn.Linear(1, 2)\nnet.cuda()",
    "a module of the project": "import torch\nclass Net(torch.nn.Module): ...\nNet().cuda()",
    "a subclass of it": "from torch.nn import Module\nclass A(Module): ...\nclass B(A): ...\nB().eval().cuda()",
    "self in a module": "import torch\nclass Net(torch.nn.Module):\n    def f(self):\n        return self.cuda()",
    "an annotated tensor": "from torch import Tensor\ndef f(t: Tensor):\n    t.cuda()",
    "a union with a tensor": "from torch import Tensor\ndef f(t: Union[Kit, Tensor]):\n    t.cuda()",
    "an unknown object": "batch.cuda()",
}


@pytest.mark.parametrize("use", EDITED.values(), ids=EDITED)
def test_tensors_modules_and_the_unknown_are_edited(rulebook, use: str) -> None:
    source = f"{KIT}{use}\n"
    data = {"a.py": source.encode()}
    context = scan_project(data, rulebook, "2.1.0")
    content = migrate_source(data["a.py"], "a.py", rulebook, context).content
    assert content is not None
    assert b".npu()" in content
    assert KIT.encode() in content


def test_an_unknown_object_is_reported_where_a_class_of_the_project_has_the_method(rulebook) -> None:
    data = {"a.py": f"{KIT}batch.cuda()\n".encode()}
    result = migrate_source(data["a.py"], "a.py", rulebook, scan_project(data, rulebook, "2.1.0"))
    assert [finding.kind.value for finding in result.findings] == ["review"]


@pytest.mark.parametrize("text", ["import cupyx\ncupyx.cuda()\n", "import torch, torch_npu\nx.cuda()\nx = torch.npu\n"])
def test_modules_that_are_imported_have_functions_not_methods(migrate, text: str) -> None:
    assert migrate(text) == text


def test_flags_of_the_user_and_stored_attributes_stay(migrate) -> None:
    text = "if args.is_cuda: ...\nself.args.is_cuda\nself.is_cuda = True\n"
    assert migrate(text) == text
    assert migrate("if x.is_cuda and y[0].is_cuda: ...") == "if x.is_npu and y[0].is_npu: ..."


def test_an_override_in_a_module_is_renamed_with_its_callers(migrate) -> None:
    before = (
        "from torch import nn\nclass Net(nn.Module):\n    def cuda(self, d=None):\n        self.t = self.t.cuda(d)\n"
    )
    assert "    def npu(self, d=None):\n        self.t = self.t.npu(d)\n" in migrate(before)


def test_an_override_over_a_base_of_unknown_kind_is_reported(rulebook) -> None:
    data = {"a.py": b"from lib import Base\nclass Net(Base):\n    def cuda(self): ...\n"}
    result = migrate_source(data["a.py"], "a.py", rulebook, scan_project(data, rulebook, "2.1.0"))
    assert result.content is None
    assert [finding.api for finding in result.findings] == ["Net.cuda"]


FILES = {
    "pkg/__init__.py": "",
    "pkg/kit.py": f"{KIT}\ndef make():\n    return Kit()\n",
    "pkg/nets.py": "import torch\nclass Net(torch.nn.Module): ...\n",
    "pkg/use.py": (
        "from .kit import Kit, make\n"
        "from .nets import Net\n"
        "Kit().cuda()\n"
        "make().cuda()\n"
        "for kit in [Kit(), Kit()]:\n"
        "    kit.cuda()\n"
        "a, b = make(), Net()\n"
        "a.cuda()\n"
        "b.cuda()\n"
        "table = {'x': Kit()}\n"
        "table['x'].cuda()\n"
    ),
}


def test_classes_of_other_files_are_found_by_imports_and_by_inference(rulebook, tmp_path: Path) -> None:
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    data = {path: text.encode() for path, text in FILES.items()}
    context = scan_project(data, rulebook, "2.1.0", read=data.__getitem__, root=tmp_path)
    result = migrate_source(data["pkg/use.py"], "pkg/use.py", rulebook, context)
    assert result.content is not None
    changed = [line for line in result.content.decode().splitlines() if "npu" in line]
    assert (changed, result.findings) == (["b.npu()"], ())


PLAIN = {
    "a module that overrides it": "import torch\nclass Net(torch.nn.Module):\n    def cuda(self): ...\n",
    "a flag": "class Trainer:\n    def __init__(self, use):\n        self.cuda = use\n",
    "a property": "class Case:\n    @property\n    def cuda(self): ...\n",
    "a function": "def cuda(x): ...\n",
}


@pytest.mark.parametrize("other", PLAIN.values(), ids=PLAIN)
def test_only_a_method_of_a_class_of_the_users_makes_a_call_doubtful(project, other: str) -> None:
    result = project({"other.py": other, "use.py": "batch.cuda()\n"})["use.py"]
    assert (result.content, result.findings) == (b"batch.npu()\n", ())


@pytest.mark.parametrize("own", ["    @property\n    def is_cuda(self): ...\n", "    is_cuda: bool = False\n"])
def test_a_property_of_the_users_own(project, own: str) -> None:
    data = f"class Data:\n{own}"
    use = "from data import Data\nfrom torch import Tensor\n{}\n"
    uses = {
        "own.py": "def f(data: Data): return data.is_cuda",
        "tensor.py": "def f(x: Tensor): return x.is_cuda",
        "unknown.py": "def f(x): return x.is_cuda",
        "called.py": "def f(x): return x.is_cuda()",
    }
    results = project({"data.py": data, **{name: use.format(text) for name, text in uses.items()}})
    edited = [name for name, result in results.items() if result.content is not None]
    assert edited == ["tensor.py", "unknown.py"]
    assert [name for name, result in results.items() if result.findings] == ["unknown.py", "called.py"]


def test_a_module_reads_its_own_property(migrate) -> None:
    text = (
        "import torch\nclass Net(torch.nn.Module):\n    @property\n    def is_cuda(self): return True\n"
        "    def f(self): return self.is_cuda\n"
    )
    assert migrate(text) == text


@pytest.mark.parametrize("base", ["Mapping", "Generic[T]", "dict", "object", "abc.ABC"])
def test_a_base_from_the_standard_library_is_no_module(rulebook, base: str) -> None:
    source = f"import abc\nfrom collections.abc import Mapping\nfrom typing import Generic\nclass Kit({base}):\n"
    source += "    def cuda(self): ...\n"
    result = migrate_source(source.encode(), "a.py", rulebook, scan_project({}, rulebook, "2.1.0"))
    assert (result.content, result.findings) == (None, ())


def test_an_alias_of_types_in_another_file(project) -> None:
    files = {
        "kinds.py": f"from torch import Tensor\nfrom typing import Union\n{KIT}Both = Union[Tensor, Kit]\nOnly = Kit\n",
        "use.py": "from kinds import Both, Only\ndef f(b: Both, o: Only):\n    b.cuda()\n    o.cuda()\n",
    }
    result = project(files)["use.py"]
    assert result.content == files["use.py"].replace("b.cuda", "b.npu").encode()
    assert [found.span.start_line for found in result.findings] == [3]


HANDED_ON = {
    "of a module": ("net = torch.nn.Linear(1, 2)\nmove = net.cuda if args.cuda else net.cpu\n", "net.npu if args.cuda"),
    "of a tensor": ("x = torch.zeros(1)\nrun(x.cuda)\n", "run(x.npu)"),
    "of self": ("class M(torch.nn.Module):\n    def f(self):\n        return self.cuda\n", "return self.npu"),
    "a flag of a module": (
        "class M(torch.nn.Module):\n    def __init__(self, cuda):\n        self.cuda = cuda\n"
        "    def f(self):\n        return self.cuda\n",
        "return self.cuda",
    ),
    "a flag of a class": (
        "class M(torch.nn.Module):\n    cuda: bool = False\n    x = lambda self: self.cuda\n",
        "self.cuda",
    ),
    "of what is not known": ("if model.cuda: ...\n", "if model.cuda"),
    "of what is called later": ("move = x.cuda\nmove()\n", "move = x.cuda"),
    "by name": ("ok = getattr(x, 'is_cuda', False)\n", "getattr(x, 'is_npu', False)"),
    "a flag by name": ("ok = getattr(args, 'is_cuda', False)\n", "getattr(args, 'is_cuda', False)"),
}


@pytest.mark.parametrize(("text", "expected"), HANDED_ON.values(), ids=HANDED_ON)
def test_members_that_are_not_called(migrate, text: str, expected: str) -> None:
    assert expected in migrate(f"import torch\n{text}")


@pytest.mark.parametrize(
    ("use", "text", "found"),
    [
        ("all = map(lambda v: v.cuda(), [Kit()])", "v.cuda()", 0),
        ("kits = Kit(), Kit()\nall = map(lambda v: v.cuda(), kits)", "v.cuda()", 0),
        ("all = map(lambda v: v.cuda(), (torch.zeros(1), torch.ones(1)))", "v.npu()", 0),
        ("all = map(lambda v, k: v.cuda() or k.cuda(), [torch.zeros(1)], [Kit()])", "v.npu() or k.cuda()", 0),
        ("kits = [Kit()]\nkits.append(x)\nall = map(lambda v: v.cuda(), kits)", "v.cuda()", 1),
        ("all = map(lambda v: v.cuda(), [Kit(), x])", "v.cuda()", 1),
        ("all = map(lambda v: v.cuda(), [Kit(), torch.zeros(1)])", "v.npu()", 1),
    ],
)
def test_what_a_function_is_mapped_over_says_what_it_is_given(project, use: str, text: str, found: int) -> None:
    migrated = project({"a.py": f"import torch\n{KIT}{use}\n"})["a.py"]
    assert text in (migrated.content or use.encode()).decode() and len(migrated.findings) == found


@pytest.mark.parametrize(("use", "line"), [("move()", [3]), ("print(move)", []), ("def f(move):\n    move()", [])])
def test_a_method_that_is_called_by_another_name_is_reported(project, use: str, line: list[int]) -> None:
    found = project({"a.py": f"import torch\n\nmove = x.cuda\n{use}\n"})["a.py"].findings
    assert [each.span.start_line for each in found] == line


def test_functions_of_the_projects_modules_keep_their_names(project) -> None:
    files = {
        "app/__init__.py": "",
        "app/tools/__init__.py": "from .moves import cuda, cpu\n__all__ = ['cuda', 'cpu']\n",
        "app/tools/moves.py": "def cuda(x): ...\ndef cpu(x): ...\n",
        "app/graph.py": "class Graph:\n    def cuda(self): ...\n",
        "app/train.py": "from app import tools\nbatch = tools.cuda(batch)\n",
    }
    assert all(result.content is None and not result.findings for result in project(files).values())


GUARDED = {
    "a condition": "def f(t):\n    if isinstance(t, torch.Tensor) and ok:\n        t = t.cuda()",
    "an earlier part of a condition": "def f(t):\n    return isinstance(t, (torch.Tensor, nn.Module)) and t.cuda()",
    "an attribute": "def f(b):\n    return b.x.cuda() if isinstance(b.x, torch.Tensor) else b",
}


@pytest.mark.parametrize("use", GUARDED.values(), ids=GUARDED)
def test_what_is_tested_to_be_a_tensor_is_one(project, use: str) -> None:
    migrated = project({"a.py": f"import torch\nfrom torch import nn\n{KIT}{use}\n"})["a.py"]
    assert b".npu()" in migrated.content and not migrated.findings


@pytest.mark.parametrize(
    "use",
    [
        "def f(t, u):\n    if isinstance(t, torch.Tensor):\n        u.cuda()",
        "def f(t):\n    if isinstance(t, torch.Tensor) or ok:\n        t.cuda()",
        "def f(t):\n    if isinstance(t, torch.Tensor):\n        pass\n    else:\n        t.cuda()",
        "def f(t):\n    if isinstance(t, (torch.Tensor, Kit)):\n        t.cuda()",
    ],
)
def test_what_may_be_something_else_is_reported(project, use: str) -> None:
    migrated = project({"a.py": f"import torch\nfrom torch import nn\n{KIT}{use}\n"})["a.py"]
    assert [finding.rule for finding in migrated.findings] == ["cuda-method"]


def test_a_graph_is_moved_where_a_file_that_makes_graphs_is_imported(project):
    loop = "import torch\nfrom data.{} import loaders\nfor batch in loaders():\n    net(batch.cuda())\n"
    files = {
        "data/graphs.py": "from torch_geometric.loader import DataLoader\ndef loaders(): ...\n",
        "data/images.py": "from torch.utils.data import DataLoader\ndef loaders(): ...\n",
        "train.py": loop.format("graphs"),
        "other.py": loop.format("images"),
    }
    after = {path: (migrated.content or b"").decode() for path, migrated in project(files).items()}
    assert 'net(batch.to("npu"))' in after["train.py"]
    assert "net(batch.npu())" in after["other.py"]


@pytest.mark.parametrize("member", ["is_cuda", "is_cuda()"])
def test_a_class_with_a_method_has_no_attribute_of_its_name(project, member: str) -> None:
    reads = f"def f(x, t):\n    return x.{member} and t.is_cuda\n"
    found = project({"a.py": "class Kit:\n    def is_cuda(self):\n        return 0\n" + reads})["a.py"].findings
    assert [each.rule for each in found] == ["is-cuda-method"] * ("(" in member)
