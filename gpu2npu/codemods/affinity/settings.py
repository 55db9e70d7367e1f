"""Settings that are certain: gradients as views of buckets, and copies of batches of tensors without waiting."""

from __future__ import annotations

import ast

from gpu2npu.codemods.affinity.edit import ProgramReader
from gpu2npu.codemods.program.files import ParsedFile
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.meaning.types import TENSOR, TENSORS, ValueTypes
from gpu2npu.python.text.concrete import argument_bounds
from gpu2npu.python.text.templates import code
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import FUNCTIONS, argument_keyword, arguments, is_unpacked, last_name, returned_values
from gpu2npu.shapes.kind import AffinityReplacement

_LOADERS = frozenset({"torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"})
_DDP = frozenset({"torch.nn.parallel.DistributedDataParallel", "torch.nn.parallel.distributed.DistributedDataParallel"})
# Files that may replace or detach a gradient, or lay gradients into memory of their own, and what does so.
_GRADIENTS = rb"\bgrad\b|detach_|apex|torch_npu|deepspeed"
_NAMES = frozenset({"grad", "detach_"})
_LAYERS = ("apex.", "deepspeed.", "torch_npu.optim.")
_VIEWS = 9  # the position of gradient_as_bucket_view


def find_copy(reading: ProgramReader, node: ast.Call) -> AffinityReplacement | None:
    """`x = x.to(device)` of a batch that a loader pinned, with which nothing was done before."""
    file = reading.file
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    if not isinstance(owner, ast.Name) or len(node.args) != 1 or node.keywords or is_unpacked(node.args[0]):
        return None
    statement = file.statement(node)
    loop = file.parents[statement]
    if not isinstance(loop, ast.For) or statement not in loop.body or not _rebinds(statement, node, owner.id):
        return None
    before = loop.body[: loop.body.index(statement)]
    named = {part.id for each in before for part in ast.walk(each) if isinstance(part, ast.Name)}
    targets = [part.id for part in ast.walk(loop.target) if isinstance(part, ast.Name)]
    if owner.id in named or targets.count(owner.id) != 1 or not _is_pinned(file, loop.iter):
        return None
    return _with_argument(file, node, "non_blocking=True")


def _rebinds(statement: ast.stmt, node: ast.Call, name: str) -> bool:
    """Return whether an assignment gives a name its own copy: `x = x.to(d)`, `x, y = x.to(d), y.to(d)`."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    target, value = statement.targets[0], statement.value
    pairs = [(target, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        pairs = list(zip(target.elts, value.elts, strict=True))
    uses = [part for part in ast.walk(value) if isinstance(part, ast.Name) and part.id == name]
    return len(uses) == 1 and any(each is node and isinstance(one, ast.Name) and one.id == name for one, each in pairs)


def _is_pinned(file: ParsedFile, node: ast.expr) -> bool:
    """Return whether a loop visits a DataLoader of tensors with pin_memory=True, or its numbered batches."""
    scope = file.scope_of(node)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "enumerate" and node.args:
        node = node.args[0]
    made = scope.only_value(node.id) if isinstance(node, ast.Name) else node
    if not isinstance(made, ast.Call) or file.qualified(made.func) not in _LOADERS:
        return False
    given = {each.arg: each.value for each in made.keywords}
    pinned = given.get("pin_memory")
    return isinstance(pinned, ast.Constant) and pinned.value is True and gives_tensors(file, made)


def find_views(reading: ProgramReader, node: ast.Call) -> AffinityReplacement | None:
    """DistributedDataParallel in a program that never touches a gradient itself."""
    given = arguments(node)
    if not given or len(node.args) > _VIEWS or reading.qualified(node.func) not in _DDP:
        return None
    if any(is_unpacked(each) or argument_keyword(each) == "gradient_as_bucket_view" for each in given):
        return None
    if any(
        _names_gradient(file, part) for file in reading.program.with_word(_GRADIENTS) for part in ast.walk(file.tree)
    ):
        return None
    return _with_argument(reading.file, node, "gradient_as_bucket_view=True")


def _with_argument(file: ParsedFile, call: ast.Call, text: str) -> AffinityReplacement | None:
    """The last argument of a call, with the parentheses around it, and one more behind it."""
    written = argument_bounds(file, call)
    if not written:
        return None
    return AffinityReplacement(text=code("{last}, {more}", last=written[-1], more=text), at=written[-1])


def _names_gradient(file: ParsedFile, node: ast.AST) -> bool:
    """Return whether code names `.grad`, or "grad", detaches in place, or is of a library that moves gradients."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):  # getattr(p, "grad"), attrgetter("weight.grad")
        return not _NAMES.isdisjoint(node.value.split("."))
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return False
    qualified = file.qualified(node) or ""
    named = isinstance(node, ast.Attribute) and node.attr in _NAMES and qualified != "torch.autograd.grad"
    return named or qualified.startswith(_LAYERS)


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
    """Return whether a loader's batches hold tensors: it collates by default tensors and numbers."""
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
