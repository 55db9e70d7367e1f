"""Places in the code of a program, and what stands above, below and inside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import libcst as cst

from gpu2npu.codemods.program import ParsedFile
from gpu2npu.engine.tree import children, dotted_name, last_name, string_value

# The way into a container: a dictionary's key, an index, None for any element.
Key = str | int | None


@dataclass(frozen=True, eq=False)
class Place:
    """An expression or a statement, and the file it stands in."""

    file: ParsedFile
    node: cst.CSTNode

    @property
    def key(self) -> tuple[str, int]:
        return self.file.path, id(self.node)


def argument(call: Place, function: Place, parameter: str) -> Place | None:
    """The expression that a call gives to a parameter; None where it gives none, or in a starred argument."""
    assert isinstance(call.node, cst.Call) and isinstance(function.node, cst.FunctionDef)
    params = function.node.params
    names = [param.name.value for param in (*params.posonly_params, *params.params)]
    if enclosing_class(function) is not None and not is_static(function.node):
        if names[:1] == [parameter] and isinstance(call.node.func, cst.Attribute):
            return Place(call.file, call.node.func.value)
        names = names[1:]
    for index, arg in enumerate(call.node.args):
        if arg.star:
            return None
        if arg.keyword is not None:
            if arg.keyword.value == parameter:
                return Place(call.file, arg.value)
        elif index < len(names) and names[index] == parameter:
            return Place(call.file, arg.value)
    return None


def returned(function: Place) -> list[Place]:
    """The expressions that a function returns, and what a generator takes from elsewhere and yields on."""
    assert isinstance(function.node, cst.FunctionDef)
    nodes = list(walk(function.node.body, into_functions=False))
    found: list[cst.CSTNode] = [node.value for node in nodes if isinstance(node, cst.Return) and node.value is not None]
    yielded = [node.value for node in nodes if isinstance(node, cst.Yield) and node.value is not None]
    found += [value.item for value in yielded if isinstance(value, cst.From)]
    names = {last_name(value) for value in yielded if isinstance(value, cst.Name)}
    loops = [node for node in nodes if isinstance(node, cst.For)]
    found += [loop.iter for loop in loops if any(last_name(part) in names for part in walk(loop.target))]
    return [Place(function.file, value) for value in found]


def walk(node: cst.CSTNode, into_functions: bool = True) -> Iterator[cst.CSTNode]:
    """A node and all below it, in the order of the source."""
    pending = [node]
    while pending:
        found = pending.pop()
        yield found
        below = [
            child
            for child in children(found)
            if into_functions or not isinstance(child, (cst.FunctionDef, cst.Lambda, cst.ClassDef))
        ]
        pending += reversed(below)


def above(place: Place) -> Iterator[cst.CSTNode]:
    """The nodes above one, the nearest first."""
    node = place.file.parents.get(id(place.node))
    while node is not None:
        yield node
        node = place.file.parents.get(id(node))


def enclosing_function(place: Place) -> Place | None:
    """The function whose body a place is in."""
    node = next((node for node in above(place) if isinstance(node, cst.FunctionDef)), None)
    return Place(place.file, node) if node is not None else None


def enclosing_class(place: Place) -> cst.ClassDef | None:
    """The class of the method that a place is in, or is."""
    for node in above(place):
        if isinstance(node, cst.ClassDef):
            return node
        if isinstance(node, cst.FunctionDef) and isinstance(place.node, cst.FunctionDef):
            return None  # a function within a function
    return None


def elements_under(node: cst.CSTNode, key: Key) -> Iterable[cst.CSTNode]:
    """The values of a display or comprehension under a key; all of them under None."""
    if isinstance(node, (cst.Tuple, cst.List, cst.Set)):
        values = [element.value for element in node.elements]
        return values[key : key + 1 or None] if isinstance(key, int) else values
    if isinstance(node, cst.Dict):
        pairs = [element for element in node.elements if isinstance(element, cst.DictElement)]
        return [pair.value for pair in pairs if key is None or string_value(pair.key) in (None, key)]
    if isinstance(node, cst.DictComp):
        return [node.value]
    return [node.elt] if isinstance(node, (cst.ListComp, cst.GeneratorExp)) else []


def key_of(node: cst.Subscript) -> Key:
    part = node.slice[0].slice if len(node.slice) == 1 else None
    if not isinstance(part, cst.Index):
        return None
    if isinstance(part.value, cst.Integer):
        return int(part.value.value, 0)
    return string_value(part.value)


def is_property(function: cst.FunctionDef) -> bool:
    return any(last_name(decorator.decorator) in {"property", "cached_property"} for decorator in function.decorators)


def is_static(function: cst.FunctionDef) -> bool:
    return any(dotted_name(decorator.decorator) == "staticmethod" for decorator in function.decorators)
