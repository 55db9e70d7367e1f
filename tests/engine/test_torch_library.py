"""The knowledge of PyTorch that the model of Python asks for: names, results, layers."""

from __future__ import annotations

import pytest

from gpu2npu.engine.torch_library import TORCH, of_torch, torch_project
from gpu2npu.python.meaning.types import OTHER, TENSOR, TENSORS, UNKNOWN


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("torch.relu", True),
        ("torch_npu.npu_format_cast", True),
        ("torch", True),
        ("torch_npu", True),
        ("torchvision.ops.nms", False),
        ("torch_geometric", False),
        ("lib.torch.relu", False),
        ("x", False),
    ],
)
def test_names_of_torch_and_of_torch_npu(name: str, expected: bool) -> None:
    assert of_torch(name) is expected


@pytest.mark.parametrize(
    ("module", "name", "brought"),
    [
        ("torch", "cuda", "torch.cuda"),
        ("torch", "nn", "torch.nn"),
        ("torch", "mean", None),
        ("lib", "cuda", None),
        ("torch.nn", "cuda", None),
        ("torch.nn", "DataParallel", "torch.nn.DataParallel"),
        ("torch.nn", "Linear", None),
        ("torch.cuda", "synchronize", "torch.cuda.synchronize"),
        ("torch.cuda", "nonsense", None),
    ],
)
def test_what_a_star_import_brings_in(module: str, name: str, brought: str | None) -> None:
    assert TORCH.starred(module, name) == brought


@pytest.mark.parametrize(
    ("name", "attribute", "method"),
    [
        ("T", TENSOR, TENSOR),
        ("data", TENSOR, TENSOR),
        ("grad", UNKNOWN, OTHER),
        ("shape", OTHER, OTHER),
        ("relu", TENSOR, TENSOR),
        ("split", OTHER, TENSORS),
        ("nonsense", OTHER, OTHER),
    ],
)
def test_the_members_of_a_tensor(name: str, attribute: str, method: str) -> None:
    assert TORCH.tensor_attribute(name) == {attribute}
    assert TORCH.tensor_method(name) == {method}


@pytest.mark.parametrize(
    ("function", "result", "assumed"),
    [
        ("torch.relu", {TENSOR}, {TENSOR}),
        ("torch.split", {TENSORS}, {TENSORS}),
        ("torch.nonsense", set(), {TENSOR}),
        ("torch.nn.functional.nonsense", set(), {TENSOR}),
        ("torch.Nonsense", set(), set()),
        ("torch.is_nonsense", set(), set()),
        ("torch.get_nonsense", set(), set()),
        ("torch.set_nonsense", set(), set()),
        ("torch.cuda.nonsense", set(), set()),
    ],
)
def test_the_results_of_functions(function: str, result: set[str], assumed: set[str]) -> None:
    assert TORCH.result(function) == result
    assert TORCH.assumed_result(function) == assumed


@pytest.mark.parametrize(
    ("layer", "result"),
    [
        ("torch.nn.Linear", TENSOR),
        ("torch.nn.modules.conv.Conv2d", TENSOR),
        ("torch.nn.LSTM", UNKNOWN),
        ("torch.nn.Sequential", UNKNOWN),
        ("torch.optim.Adam", UNKNOWN),
    ],
)
def test_the_results_of_layers(layer: str, result: str) -> None:
    assert TORCH.layer_result(layer) == {result}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("torch.nn.Linear", True),
        ("torch.nn.modules.conv.Conv2d", True),
        ("torch.nn.init", False),
        ("torch.nn.functional.relu", False),
        ("torch.optim.Adam", False),
    ],
)
def test_the_classes_of_layers(name: str, expected: bool) -> None:
    assert TORCH.is_module_class(name) is expected


def test_a_project_has_the_python_files_of_some_files() -> None:
    project = torch_project({"a.py": b"x = 1\n", "b.yaml": b"x: 1\n", "c/d.py": b""})
    assert project.files == {"a.py", "c/d.py"}
    assert project.names("a.py") is not None and project.library is TORCH
