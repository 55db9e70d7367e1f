"""PyTorch as the model of Python needs to know it: its classes, and what its star imports bring in."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from pathlib import Path

from gpu2npu.engine.strings.value_effects import values_of
from gpu2npu.python.meaning.library import Library
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.meaning.types import OTHER, TENSOR, TENSORS, UNKNOWN
from gpu2npu.python.project.project import Project
from gpu2npu.python.project.search_path import search_folders
from gpu2npu.support.operators import torch_results
from gpu2npu.support.release_tables import has_cuda_name, without_repeats

_NAMES = Path(__file__).with_name("torch_library.json")  # those of functions, classes and methods, by their kind
# Modules that a star import of torch brings in, as far as rules are about them.
_OF_TORCH = frozenset({"cuda", "nn", "distributed", "backends", "version", "amp", "profiler"})
_OF_NN = frozenset({"torch.nn.DataParallel", "torch.nn.parallel.DataParallel"})
_TENSOR_CLASS = "torch.Tensor"
# Layers whose call gives several tensors, or whose result the arguments decide.
_NO_LAYERS = frozenset(
    {"ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "Sequential", "Module", "LSTM", "GRU", "RNN",
     "LSTMCell", "MultiheadAttention", "DataParallel", "AdaptiveLogSoftmaxWithLoss", "RNNBase"}
)  # fmt: skip


def _starred(module: str, name: str) -> str | None:
    dotted = f"{module}.{name}"
    brought = (module == "torch" and name in _OF_TORCH) or dotted in _OF_NN or has_cuda_name(dotted)
    return dotted if brought else None


def _is_module_class(qualified: str) -> bool:
    return qualified.startswith("torch.nn.") and qualified.rpartition(".")[2][:1].isupper()


def of_torch(qualified: str) -> bool:
    """Return whether a qualified name is one of torch or torch_npu."""
    return qualified.startswith(("torch.", "torch_npu.")) or qualified in ("torch", "torch_npu")


def _result(qualified: str) -> frozenset[str]:
    known = torch_results()
    found = {TENSOR} if qualified in known.tensor else set()
    if qualified in known.tensors:
        found.add(TENSORS)
    return frozenset(found)


def _assumed_result(qualified: str) -> frozenset[str]:
    """Most functions of torch give tensors, those that the table of results lacks too."""
    owner, _, name = qualified.rpartition(".")
    is_likely = owner in ("torch", "torch.nn.functional") and not name.startswith(("is_", "get_", "set_"))
    return _result(qualified) or frozenset({TENSOR} if is_likely and not name[:1].isupper() else ())


def _layer_result(qualified: str) -> frozenset[str]:
    is_layer = qualified.startswith("torch.nn.") and qualified.rpartition(".")[2] not in _NO_LAYERS
    return frozenset({TENSOR} if is_layer else {UNKNOWN})


def _tensor_method(name: str) -> frozenset[str]:
    return _result(f"{_TENSOR_CLASS}.{name}") or frozenset({OTHER})


def _tensor_attribute(name: str) -> frozenset[str]:
    if f"{_TENSOR_CLASS}.{name}" in torch_results().tensor:
        return frozenset({TENSOR})
    return frozenset({UNKNOWN if name == "grad" else OTHER})


def _called(names: Names, call: ast.Call) -> str | None:
    found = values_of(names.project).called(names, call)
    known = {each.text if each.kind == "outside" else "" for each in found if each.kind != "unknown"}
    known = {each for each in known if "()" not in each}
    name = known.pop() if len(known) == 1 else ""
    return name if of_torch(name) else None


TORCH = Library(
    **{name: frozenset(names) for name, names in json.loads(_NAMES.read_bytes()).items()},
    canonical=without_repeats,
    starred=_starred,
    is_module_class=_is_module_class,
    result=_result,
    layer_result=_layer_result,
    tensor_method=_tensor_method,
    tensor_attribute=_tensor_attribute,
    assumed_result=_assumed_result,
    parts=frozenset({"cuda", "distributed"}),
    object_calls=("__call__", "forward"),
    called=_called,
)


def torch_project(files: Mapping[str, bytes], root: Path | None = None) -> Project:
    """The project of the Python files among some files, given by path, all of which stay in memory once parsed."""
    python = frozenset(path for path in files if path.endswith(".py"))
    folders = search_folders({path: files[path] for path in python})
    return Project(python, files.__getitem__, root, TORCH, retained=None, folders=folders)
