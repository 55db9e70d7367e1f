"""The dataset of a DataLoader call, which a sampler needs too: it is made once and gets a name."""

from __future__ import annotations

import ast
import re

import libcst as cst

from gpu2npu.codemods.dataflow import Dataflow
from gpu2npu.codemods.loader_call import LoaderCall
from gpu2npu.codemods.loader_roles import COMPREHENSIONS
from gpu2npu.codemods.rewriting import Rewriting, statement_of
from gpu2npu.codemods.syntax import Place, above
from gpu2npu.engine.tree import children, dotted_name, last_name


def is_plain(node: cst.CSTNode) -> bool:
    """Whether an expression can be written twice: names, attributes of names, and items of them under a key."""
    if isinstance(node, cst.Subscript):
        return is_plain(node.value) and all(
            isinstance(part.slice, cst.Index)
            and isinstance(part.slice.value, (cst.Name, cst.Attribute, cst.SimpleString, cst.Integer))
            for part in node.slice
        )
    return dotted_name(node) is not None


def is_iterable(flow: Dataflow, call: LoaderCall) -> bool:
    """Whether the dataset is known to be one that is only iterated over."""
    dataset = Place(call.place.file, call.given["dataset"].value)
    return any(_makes_iterable(flow, maker) for maker in flow.makers(dataset))


def _makes_iterable(flow: Dataflow, maker: Place) -> bool:
    assert isinstance(maker.node, cst.Call)
    if any(arg.keyword is not None and arg.keyword.value == "streaming" for arg in maker.node.args):
        return True
    name = maker.file.names.qualified(maker.node.func, maker.file.scope_of(maker.node)) or ""
    if name.partition(".")[0] in {"webdataset", "wds"} or last_name(maker.node.func) == "IterableDataset":
        return True
    classes = [target.node for target in flow.targets(maker) if isinstance(target.node, cst.ClassDef)]
    return any(_is_iterable_class(node) for node in classes)


def _is_iterable_class(node: cst.ClassDef) -> bool:
    methods = {part.name.value for part in children(node.body) if isinstance(part, cst.FunctionDef)}
    based = any(last_name(base.value) == "IterableDataset" for base in node.bases)
    return based or ("__iter__" in methods and "__getitem__" not in methods)


def can_be_moved(call: LoaderCall) -> bool:
    """Whether the dataset can be made in a line above the call's statement."""
    place = call.place
    statement = statement_of(place.file, place.node)
    if not isinstance(statement, (cst.SimpleStatementLine, cst.For, cst.With)):
        return False
    if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) > 1:
        return False
    for node in above(place):
        if node is statement:
            return True
        if isinstance(node, (cst.Lambda, cst.IfExp, cst.BooleanOperation, *COMPREHENSIONS)):
            return False
    return False


def name_dataset(call: LoaderCall, rewriting: Rewriting) -> tuple[str, list[str]]:
    """The text by which the sampler names the dataset, and the line above the call that makes it, if it was made in the
    call itself."""
    file, dataset = call.place.file, call.given["dataset"].value
    text = file.code(dataset)
    if is_plain(dataset):
        return text, []
    name = free_name(call, "dataset")
    rewriting.replace(file, dataset, name, "The dataset is made once, for the loader and for its sampler.")
    return name, [f"{name} = {text if _stands_alone(text) else f'({text})'}"]


def _stands_alone(text: str) -> bool:
    try:
        ast.parse(f"x = {text}")
    except SyntaxError:
        return False
    return True


def free_name(call: LoaderCall, thing: str) -> str:
    """A name for a thing of a loader, after the loader's: train_dataset of train_loader, trainset of trainloader."""
    file = call.place.file
    line = file.parents.get(id(call.place.node))
    name = f"train_{thing}"
    if isinstance(line, cst.Assign) and isinstance(line.targets[0].target, (cst.Name, cst.Attribute)):
        assigned = last_name(line.targets[0].target) or ""
        stem = re.fullmatch(r"(.*?)(?:data_?)?(?:loader|dl)", assigned)
        if stem is not None:
            short = {"dataset": "set"}.get(thing, thing) if stem[1] and not stem[1].endswith("_") else thing
            name = f"{stem[1]}{short}"
    taken = {bound for scope in file.names.scopes.by_node.values() for bound in scope.bindings}
    while name in taken:
        name += "_"
    return name
