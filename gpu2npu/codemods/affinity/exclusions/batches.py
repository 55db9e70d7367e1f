"""Loaders of which the batches may be objects of other classes than tensors, with a `to` of their own."""

from __future__ import annotations

import ast

from gpu2npu.codemods.program.files import ParsedFile
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.meaning.types import TENSOR, TENSORS, ValueTypes
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import FUNCTIONS, arguments, is_unpacked, last_name, returned_values

_SETS = frozenset({"torch.utils.data.TensorDataset", "torch.utils.data.dataset.TensorDataset"})
_COLLATE = 6  # the position of collate_fn
# Data sets of pictures with the number of a class, and the arguments with which their items are (transform(picture),
# number): no transform of the number, no other targets.
_PICTURES = frozenset(
    f"torchvision.datasets.{name}"
    for name in ("CIFAR10", "CIFAR100", "FashionMNIST", "ImageFolder", "KMNIST", "MNIST", "QMNIST", "SVHN")
)
_PICTURE_OPTIONS = frozenset({"root", "train", "split", "transform", "download"})
# What makes a tensor of a picture, and what makes a tensor of a tensor.
_TO_TENSOR = frozenset({"ToTensor", "PILToTensor"})
_OF_TENSORS = frozenset({"Normalize", "RandomErasing", "ConvertImageDtype", "Resize", "CenterCrop", "RandomCrop", "Pad",
    "RandomResizedCrop", "RandomHorizontalFlip", "RandomVerticalFlip", "Grayscale", "ColorJitter"})  # fmt: skip
_NUMBERS = frozenset({"int", "float", "bool", "len"})
_INSTEAD = frozenset({"__iter__", "__getitems__"})  # what a loader takes items by, rather than by __getitem__


def gives_tensors(file: ParsedFile, loader: ast.Call) -> bool:
    """Return whether what a loader's batches hold are tensors: it collates by default what is known to be tensors and
    numbers."""
    given = {each.arg: each.value for each in loader.keywords}
    if len(loader.args) > _COLLATE or "collate_fn" in given or any(map(is_unpacked, arguments(loader))):
        return False
    scope = file.scope_of(loader)
    dataset = loader.args[0] if loader.args else given.get("dataset")
    made = scope.only_value(dataset.id) if isinstance(dataset, ast.Name) else dataset
    if not isinstance(made, ast.Call):
        return False
    name = file.qualified(made.func) or ""
    return name in _SETS or _is_of_pictures(file, made, name) or _is_of_tensors(file, made, scope)


def _is_of_pictures(file: ParsedFile, made: ast.Call, name: str) -> bool:
    """Return whether a data set is one of torchvision's that gives tensors of pictures, and numbers."""
    if name not in _PICTURES or len(made.args) > 1 or any(map(is_unpacked, made.args)):
        return False
    given = {each.arg: each.value for each in made.keywords}
    transform = given.get("transform")
    return transform is not None and given.keys() <= _PICTURE_OPTIONS and _makes_tensors(file, transform)


def _makes_tensors(file: ParsedFile, node: ast.expr) -> bool:
    """Return whether a transform of torchvision gives tensors, whatever it takes."""
    made = file.scope_of(node).only_value(node.id) if isinstance(node, ast.Name) else node
    if not isinstance(made, ast.Call):
        return False
    steps: list[ast.expr] = [made]
    if _transform(file, made) == "Compose":
        listed = made.args[0] if len(made.args) == 1 else None
        steps = listed.elts if isinstance(listed, ast.List) else []
    names = [_transform(file, each) for each in steps]
    while names and names[-1] in _OF_TENSORS:
        names.pop()
    return bool(names) and names[-1] in _TO_TENSOR


def _transform(file: ParsedFile, node: ast.expr) -> str:
    """The name of the transform of torchvision that a call makes, "" for all else."""
    name = (file.qualified(node.func) or "") if isinstance(node, ast.Call) else ""
    package, _, last = name.rpartition(".")
    return last if package in ("torchvision.transforms", "torchvision.transforms.transforms") else ""


def _is_of_tensors(file: ParsedFile, made: ast.Call, scope: Scope) -> bool:
    """Return whether a data set is of a class of the project that gives tensors and numbers by `__getitem__`."""
    found = file.names.definition(made.func, scope)
    if found is None or not isinstance(found.bound.node, ast.ClassDef):
        return False
    cls = found.bound.node
    methods = {each.name: each for each in cls.body if isinstance(each, FUNCTIONS)}
    item = methods.get("__getitem__")
    if item is None or not _INSTEAD.isdisjoint(methods) or any(last_name(each) != "Dataset" for each in cls.bases):
        return False
    values = list(returned_values(item))
    return bool(values) and all(_holds_tensors(found.names, each) for each in values)


def _holds_tensors(names: Names, node: ast.expr) -> bool:
    """Return whether a value is a tensor, a number, or a tuple of these."""
    if isinstance(node, ast.Tuple):
        return all(_holds_tensors(names, each) for each in node.elts)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _NUMBERS:
        return True
    types = ValueTypes(names).of(node, names.file.scope_of(node))
    return bool(types) and types <= {TENSOR, TENSORS}
