"""The dataset of a DataLoader call, which a sampler needs too: it is made once and gets a name."""

from __future__ import annotations

import ast
import re
from typing import TypeGuard

from gpu2npu.codemods.places import Rewriting
from gpu2npu.codemods.program.files import ParsedFile
from gpu2npu.codemods.program.loader_call import LoaderCall
from gpu2npu.python.flow.dataflow import Dataflow
from gpu2npu.python.text.blocks import line_statement, same_line
from gpu2npu.python.text.concrete import outer_bounds
from gpu2npu.python.text.templates import code, plain
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.place import CallPlace
from gpu2npu.python.tree.syntax import (
    COMPREHENSIONS,
    FORS,
    FUNCTIONS,
    WITHS,
    blocks,
    dotted_name,
    elements,
    last_name,
    string_value,
)
from gpu2npu.records import Text

_ITERABLE = frozenset({"IterDataPipe", "IterableDataset"})


def is_plain(node: ast.AST) -> bool:
    """Return whether an expression can be written twice: names, attributes of names, and items of them under a key."""
    if isinstance(node, ast.Subscript):
        return is_plain(node.value) and isinstance(node.slice, (ast.Name, ast.Attribute, ast.Constant))
    return dotted_name(node) is not None


def is_iterable(flow: Dataflow, call: LoaderCall) -> bool:
    """Return whether the dataset is known to be one that is only iterated over."""
    dataset = call.value("dataset")
    if dataset is None:
        return False
    tested = _is_tested(flow, call, dataset)
    if tested is not None:
        return tested
    return any(_makes_iterable(flow, maker) for maker in flow.makers(call.place.at(dataset)))


def _is_tested(flow: Dataflow, call: LoaderCall, dataset: ast.expr) -> bool | None:
    """Return whether code says that the dataset is, or may be, an iterable one where the call is made: it is in
    `if isinstance(dataset, IterableDataset):` or below `if not isinstance(...): return`, or another place of the
    function tests it. None if nothing does."""
    file = call.place.file
    for node, below in file.steps(call.place.node):
        if isinstance(node, (ast.If, ast.IfExp)) and below is not node.test:
            body = [node.body] if isinstance(node, ast.IfExp) else node.body
            holds = below in body
            says = _says_iterable(flow, call, node.test, dataset)
            if says is not None and (holds or _is_about_dataset(file, node.test, dataset)):
                return says is holds
        for part in file.before(below) if isinstance(below, ast.stmt) else ():
            if isinstance(part, ast.If) and isinstance(part.body[-1], (ast.Return, ast.Raise, ast.Continue)):
                says = _says_iterable(flow, call, part.test, dataset)
                if says is not None and _is_about_dataset(file, part.test, dataset):
                    return not says
        if isinstance(node, FUNCTIONS):
            answers = (_says_iterable(flow, call, part, dataset) for part in walk(*node.body) if _is_question(part))
            return True if any(says is not None for says in answers) else None
    return None


def _is_question(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and last_name(node.func) in {"hasattr", "isinstance"} and len(node.args) == 2


def _is_about_dataset(file: ParsedFile, test: ast.expr, dataset: ast.expr) -> bool:
    """Return whether a test depends on nothing but the dataset, so that the other branch is known too."""
    if isinstance(test, ast.BoolOp):
        return all(_is_about_dataset(file, each, dataset) for each in test.values)
    tested = test.operand if isinstance(test, ast.UnaryOp) else test
    return not isinstance(tested, ast.Call) or file.code(tested.args[0]) == file.code(dataset)


def _says_iterable(flow: Dataflow, call: LoaderCall, test: ast.expr, dataset: ast.expr | None) -> bool | None:
    """Return whether the dataset is an iterable one where a test is true; None if the test says nothing about that."""
    file = call.place.file
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        found = _says_iterable(flow, call, test.operand, dataset)
        return None if found is None else not found
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return next((True for each in test.values if _says_iterable(flow, call, each, dataset)), None)
    if isinstance(test, (ast.Name, ast.Attribute)):
        makers = [maker.node for maker in flow.makers(call.place.at(test))]
        return _says_iterable(flow, call, makers[0], None) if len(makers) == 1 else None
    if not _is_question(test) or (dataset is not None and file.code(test.args[0]) != file.code(dataset)):
        return None
    if last_name(test.func) == "hasattr":
        return False if string_value(test.args[1]) in {"__getitem__", "__len__"} else None
    classes = elements(test.args[1]) or [test.args[1]]
    return True if all(last_name(each) in _ITERABLE for each in classes) else None


def _makes_iterable(flow: Dataflow, maker: CallPlace) -> bool:
    if any(keyword.arg == "streaming" for keyword in maker.node.keywords):
        return True
    name = maker.file.qualified(maker.node.func) or ""
    if name.partition(".")[0] in {"webdataset", "wds"} or last_name(maker.node.func) == "IterableDataset":
        return True
    classes = [target.node for target in flow.targets(maker) if isinstance(target.node, ast.ClassDef)]
    return any(_is_iterable_class(node) for node in classes)


def _is_iterable_class(node: ast.ClassDef) -> bool:
    methods = {part.name for part in node.body if isinstance(part, FUNCTIONS)}
    based = any(last_name(base) == "IterableDataset" for base in node.bases)
    return based or ("__iter__" in methods and "__getitem__" not in methods)


def can_be_moved(call: LoaderCall) -> bool:
    """Return whether the dataset can be made in a line above the call's statement."""
    file = call.place.file
    statement = line_statement(file, call.call)
    if statement is None or len(same_line(file, statement)) > 1:
        return False
    if any(blocks(statement)) and not isinstance(statement, (*FORS, *WITHS)):
        return False
    for node in call.place.above():
        if node is statement:
            return True
        if isinstance(node, (ast.Lambda, ast.IfExp, ast.BoolOp, *COMPREHENSIONS)):
            return False
    return False


def name_dataset(call: LoaderCall, rewriting: Rewriting) -> tuple[str, list[Text]]:
    """The sampler's text for the dataset, and the line above the call that makes it, if the call itself made it."""
    file, dataset = call.place.file, call.value("dataset")
    assert dataset is not None
    if is_plain(dataset):
        return file.code(dataset), []
    name = free_name(call, "dataset")
    start, end = outer_bounds(file, dataset)
    text = file.text[start:end]
    rewriting.put(file, start, end, plain(name), "The dataset is made once, for the loader and for its sampler.")
    template = "{name} = {made}" if _needs_no_parentheses(text) else "{name} = ({made})"
    return name, [code(template, name=name, made=(start, end))]


def _needs_no_parentheses(text: str) -> bool:
    try:
        ast.parse(f"x = {text}")
    except SyntaxError:
        return False
    return True


def free_name(call: LoaderCall, noun: str) -> str:
    """A name for what a loader is made of, by the loader's: train_dataset of train_loader, trainset of trainloader."""
    file = call.place.file
    line = file.parents[call.call]
    name = f"train_{noun}"
    if isinstance(line, ast.Assign) and isinstance(line.targets[0], (ast.Name, ast.Attribute)):
        assigned = last_name(line.targets[0]) or ""
        stem = re.fullmatch(r"(.*?)(?:data_?)?(?:loader|dl)", assigned)
        if stem is not None:
            short = {"dataset": "set"}.get(noun, noun) if stem[1] and not stem[1].endswith("_") else noun
            name = f"{stem[1]}{short}"
    taken = {bound for scope in file.scopes.values() for bound in scope.bindings}
    while name in taken:
        name += "_"
    return name
