"""The tool that traces APIs and reads releases of torch."""

import sys
import zipfile
from pathlib import Path

import pytest
import torch
import torchgen

from gpu2npu.support.spellings import api_variants
from tools.api_map import __main__ as api_map
from tools.api_map import releases
from tools.api_map.wheels import Listed, WheelError, torch_wheel

if str(api_map.EMULATED) not in sys.path:
    sys.path.insert(0, str(api_map.EMULATED))
import torch_npu  # noqa: F401

from tools.api_map.calls import Call, all_calls
from tools.api_map.record import Book
from tools.api_map.samples import samples
from tools.api_map.tracing import Node, trace, trace_as_is

NATIVE = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native" / "native_functions.yaml"
YAML = """
- func: linear(Tensor input, Tensor weight) -> Tensor
- func: mm(Tensor self, Tensor mat2) -> Tensor
  structured_delegate: mm.out
- func: mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)
  structured: True
  dispatch:
    CPU, CUDA: mm_out
- func: ones_like(Tensor self) -> Tensor
  dispatch:
    CPU, CUDA: ones_like_fast
    CompositeExplicitAutograd: ones_like
- func: dropout(Tensor input) -> Tensor
  dispatch:
    CompositeImplicitAutograd: dropout
    NestedTensorCPU, NestedTensorCUDA: dropout_nested
"""


@pytest.fixture(scope="module")
def kinds():
    return releases.operator_kinds(NATIVE.read_text(encoding="utf-8"))


@pytest.fixture
def tensor():
    return torch.rand(3, 4).to("npu")


def test_kinds_are_read_from_native_functions():
    assert releases.operator_kinds(YAML) == {
        "aten::linear": "implicit",
        "aten::mm": "structured aten::mm.out",
        "aten::mm.out": "kernel",
        "aten::ones_like": "explicit",
        "aten::dropout": "implicit",
    }


def test_kinds_are_those_of_the_dispatcher(kinds):
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    keys = {"implicit": "CompositeImplicitAutograd", "explicit": "CompositeExplicitAutograd"}
    wrong = [
        name
        for name, kind in kinds.items()
        if kind in keys and not (has(name, keys[kind]) or has(name, "CompositeExplicitAutogradNonFunctional"))
    ]
    assert len(kinds) > 2400 and wrong == []


def test_changes_from_release_to_release():
    assert releases.change({}, {"a": "x"}) == {"a": "x"}
    assert releases.change({"a": "x", "b": "y", "c": "z"}, {"a": "x", "b": "w"}) == {"b": "w", "c": ""}


def test_public_names_are_read_from_stubs_and_sources(tmp_path):
    files = {
        "torch/__init__.py": "__all__ = ['compile']\nfrom torch.amp import autocast\n__all__.extend(['cond'])",
        "torch/_C/_VariableFunctions.pyi": "def add(input, other): ...\ndef _private(): ...",
        "torch/_C/__init__.pyi": "def wait(fut): ...\ndef _log(): ...\n"
        "class TensorBase:\n    def relu(self): ...\n    shape: Size\nfloat32: dtype = ...",
        "torch/_tensor.py": "class Tensor(TensorBase):\n    def backward(self): ...\n    __iadd__ = 1\n",
        "torch/nn/__init__.py": "from torch.nn.modules import *",
        "torch/nn/modules/__init__.py": "from .linear import Linear\n__all__ = ['Linear']",
        "torch/nn/modules/linear.py": "class Linear: ...\nclass _Base: ...",
        "torch/random.py": "def fork_rng(): ...",
    }
    wheel = tmp_path / "torch.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for member, text in files.items():
            archive.writestr(member, text)
    with zipfile.ZipFile(wheel) as archive:
        names = releases.public_names(archive)
    functions = {
        "torch.add",
        "torch.wait",
        "torch.compile",
        "torch.cond",
        "torch.autocast",
        "torch.float32",
        "torch.random.fork_rng",
    }
    methods = {"torch.Tensor.relu", "torch.Tensor.shape", "torch.Tensor.backward"}
    modules = {"torch.nn.Linear", "torch.nn.modules.Linear", "torch.nn.modules.linear.Linear"}
    assert names == functions | methods | modules


def test_a_wheel_of_torch_is_chosen_by_minor_release():
    names = ["torch-2.1.0-cp310-none-macosx_11_0_arm64.whl", "torch-2.1.0-cp310-manylinux1_x86_64.whl"]
    wheels = [Listed(name, "", "") for name in names]
    assert torch_wheel(wheels, "2.1.0").filename == names[0]
    with pytest.raises(WheelError, match=r"2\.2"):
        torch_wheel(wheels, "2.2.0")


def test_a_trace_is_a_tree(kinds, tensor):
    found = trace(lambda: torch.nn.functional.linear(tensor, tensor), kinds)
    assert [node.operator for node in found] == ["aten::linear"]
    assert {part.operator for part in found[0].parts} >= {"aten::t"}
    assert trace(lambda: torch.relu(tensor), kinds) == (Node("aten::relu"),)
    assert trace(lambda: tensor.shape, kinds) == ()


def test_a_composition_that_ends_in_what_only_a_kernel_does_is_run_all_the_same(kinds):
    image, weight = torch.rand(1, 2, 4, 4).to("npu"), torch.rand(3, 2, 3, 3).to("npu")
    found = trace(lambda: torch.nn.functional.conv2d(image, weight), kinds)
    assert found[0].operator == "aten::conv2d"
    assert [part.operator for part in found[0].parts] == ["aten::convolution"]


def test_gradients_are_traced_as_autograd_runs_them(kinds, tensor):
    tensor.requires_grad_()
    loss = torch.nn.functional.gelu(tensor).sum()
    assert "aten::gelu_backward" in {node.operator for node in trace_as_is(loss.backward, kinds)}


def test_what_cannot_be_called_is_noted(kinds):
    def prepare():
        raise RuntimeError("no such thing")

    book = Book(kinds)
    book.add(Call("torch.nothing", "", prepare))
    assert book.as_data()["apis"] == {} and book.refused == {"torch.nothing": ["RuntimeError: no such thing"]}


def test_the_shipped_map_is_what_is_traced(kinds):
    """Compares a few APIs of each source; the whole map takes minutes."""
    chosen = ("torch.nn.functional.linear", "torch.nn.LayerNorm", "torch.optim.AdamW", "torch.nn.utils.clip_grad_norm_")
    book = Book(kinds)
    for call in all_calls(only=chosen):
        book.add(call)
    made = book.as_data()

    def tree(number):
        operator, *parts = made["nodes"][number]
        return (made["operators"][operator], *map(tree, parts))

    def shipped_tree(node):
        return (node.operator, *map(shipped_tree, node.parts))

    for api in chosen:
        traced = [[samples, label, list(map(tree, nodes))] for samples, _, label, nodes, _ in made["apis"][api]]
        shipped = [[each.samples, each.label, list(map(shipped_tree, each.nodes))] for each in api_variants()[api]]
        assert traced == shipped


def test_sample_lines_name_apis_that_exist():
    for api, _, _ in samples():
        value = torch
        for part in api.split(".")[1:]:
            value = getattr(value, part)
        assert callable(value)
