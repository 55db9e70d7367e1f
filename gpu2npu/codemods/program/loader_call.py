"""A DataLoader call as its parameters, and what its keyword dictionary holds."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from msgspec import Struct

from gpu2npu.python.flow.dataflow import Dataflow
from gpu2npu.python.tree.place import AnyPlace, CallPlace
from gpu2npu.python.tree.syntax import argument_value, arguments, last_name, string_value

# The parameters of torch.utils.data.DataLoader (PyTorch 2.1 to 2.13) that people give by position.
_POSITIONAL = (
    "dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory",
    "drop_last",
)  # fmt: skip


class LoaderCall(Struct, frozen=True, eq=False):
    """`given` has the arguments by parameter, `keywords` the expression after `**`, and `keys` what that is known to
    hold (None: not known). `positional` counts the arguments without a name; -1 if one is starred."""

    place: CallPlace
    given: Mapping[str, ast.expr | ast.keyword]
    keywords: ast.expr | None
    keys: frozenset[str] | None
    positional: int

    @property
    def call(self) -> ast.Call:
        return self.place.node

    def value(self, parameter: str) -> ast.expr | None:
        """Return the value that a parameter is given; None if it is given none."""
        return argument_value(self.given[parameter]) if parameter in self.given else None

    def code(self, parameter: str) -> str | None:
        """The text of what a parameter is given."""
        value = self.value(parameter)
        return self.place.file.code(value) if value is not None else None

    def may_hold(self, key: str) -> bool:
        """Return whether a parameter may come out of the keyword dictionary."""
        return self.keywords is not None and (self.keys is None or key in self.keys)


def read_call(flow: Dataflow, place: CallPlace) -> LoaderCall:
    """Read which argument of a call each parameter of DataLoader gets."""
    given: dict[str, ast.expr | ast.keyword] = {}
    keywords = None
    positional = 0
    for index, each in enumerate(arguments(place.node)):
        if isinstance(each, ast.Starred):
            positional = -1
        elif isinstance(each, ast.keyword):
            if each.arg is None:
                keywords = each.value
            else:
                given[each.arg] = each
        elif 0 <= positional == index < len(_POSITIONAL):  # behind a starred one no one can count
            given[_POSITIONAL[index]] = each
            positional += 1
    keys = _keys(flow, place.at(keywords), 5) if keywords is not None else frozenset[str]()
    return LoaderCall(place, given, keywords, keys, positional)


def _keys(flow: Dataflow, place: AnyPlace, depth: int) -> frozenset[str] | None:
    """The keys that a dictionary may have; None if that is not known."""
    node = place.node
    if depth == 0:
        return None
    parts: list[frozenset[str] | None]
    if isinstance(node, ast.Dict):
        parts = [
            _key(key) if key is not None else _keys(flow, place.at(value), depth - 1)
            for key, value in zip(node.keys, node.values, strict=True)
        ]
    elif isinstance(node, ast.Call) and last_name(node.func) == "dict":
        parts = _keys_of_arguments(flow, place.at(node), depth)
    elif isinstance(node, ast.IfExp):
        parts = [_keys(flow, place.at(part), depth - 1) for part in (node.body, node.orelse)]
    elif isinstance(node, ast.Name):
        name = place.at(node)
        values = flow.assigned(name)
        parts = [_keys(flow, value, depth - 1) for value in values] if values else [None]
        for update in flow.updates(name):
            target = update.node
            if isinstance(target, ast.Subscript):
                parts.append(_key(target.slice))
            else:
                parts += _keys_of_arguments(flow, update.at(target), depth)
    else:
        return None
    known = [part for part in parts if part is not None]
    return frozenset().union(*known) if len(known) == len(parts) else None


def _keys_of_arguments(flow: Dataflow, call: CallPlace, depth: int) -> list[frozenset[str] | None]:
    """The keys that the arguments of `dict(...)` or `x.update(...)` add."""
    return [
        frozenset({each.arg})
        if isinstance(each, ast.keyword) and each.arg is not None
        else _keys(flow, call.at(argument_value(each)), depth - 1)
        for each in arguments(call.node)
    ]


def _key(node: ast.AST) -> frozenset[str] | None:
    key = string_value(node)
    return frozenset({key}) if key is not None else None
