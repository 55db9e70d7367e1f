"""A DataLoader call as its parameters, and what its keyword dictionary holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import libcst as cst

from gpu2npu.codemods.dataflow import Dataflow
from gpu2npu.codemods.syntax import Place
from gpu2npu.engine.tree import last_name, string_value

# The parameters of torch.utils.data.DataLoader (PyTorch 2.1 to 2.13) that people give by position.
_POSITIONAL = (
    "dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory",
    "drop_last",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class LoaderCall:
    """`given` has the arguments by parameter, `keywords` the expression after `**`, and `keys` what that is known to
    hold (None: not known). `positional` counts the arguments without a name; -1 if one is starred."""

    place: Place
    given: Mapping[str, cst.Arg]
    keywords: cst.BaseExpression | None
    keys: frozenset[str] | None
    positional: int

    @property
    def call(self) -> cst.Call:
        assert isinstance(self.place.node, cst.Call)
        return self.place.node

    def code(self, parameter: str) -> str | None:
        """The text of what a parameter is given."""
        return self.place.file.code(self.given[parameter].value) if parameter in self.given else None

    def may_hold(self, key: str) -> bool:
        """Whether a parameter may come out of the keyword dictionary."""
        return self.keywords is not None and (self.keys is None or key in self.keys)


def read_call(flow: Dataflow, place: Place) -> LoaderCall:
    """Which parameter of DataLoader gets which argument."""
    assert isinstance(place.node, cst.Call)
    given: dict[str, cst.Arg] = {}
    keywords = None
    positional = 0
    for index, arg in enumerate(place.node.args):
        if arg.star == "**":
            keywords = arg.value
        elif arg.star:
            positional = -1
        elif arg.keyword is not None:
            given[arg.keyword.value] = arg
        elif index < len(_POSITIONAL):
            given[_POSITIONAL[index]] = arg
            positional += 1 if positional >= 0 else 0
    keys = _keys(flow, Place(place.file, keywords), 5) if keywords is not None else frozenset[str]()
    return LoaderCall(place, given, keywords, keys, positional)


def _keys(flow: Dataflow, place: Place, depth: int) -> frozenset[str] | None:
    """The keys that a dictionary may have; None if that cannot be told."""
    node, file = place.node, place.file
    if depth == 0:
        return None
    parts: list[frozenset[str] | None]
    if isinstance(node, cst.Dict):
        parts = [_keys_of_element(flow, place, element, depth) for element in node.elements]
    elif isinstance(node, cst.Call) and last_name(node.func) == "dict":
        parts = [
            frozenset({arg.keyword.value})
            if arg.keyword is not None
            else _keys(flow, Place(file, arg.value), depth - 1)
            for arg in node.args
        ]
    elif isinstance(node, cst.IfExp):
        parts = [_keys(flow, Place(file, part), depth - 1) for part in (node.body, node.orelse)]
    elif isinstance(node, cst.Name):
        values = flow.assigned(place)
        parts = [_keys(flow, value, depth - 1) for value in values] if values else [None]
        parts += [_keys_of_update(flow, update, depth) for update in flow.updates(place)]
    else:
        return None
    known = [part for part in parts if part is not None]
    return frozenset().union(*known) if len(known) == len(parts) else None


def _keys_of_element(flow: Dataflow, place: Place, element: cst.BaseDictElement, depth: int) -> frozenset[str] | None:
    if isinstance(element, cst.DictElement):
        key = string_value(element.key)
        return frozenset({key}) if key is not None else None
    return _keys(flow, Place(place.file, element.value), depth - 1)


def _keys_of_update(flow: Dataflow, update: Place, depth: int) -> frozenset[str] | None:
    """The keys that `x.update(...)` or `x[key] = ...` adds."""
    if isinstance(update.node, cst.Subscript):
        part = update.node.slice[0].slice
        key = string_value(part.value) if isinstance(part, cst.Index) else None
        return frozenset({key}) if key is not None else None
    assert isinstance(update.node, cst.Call)
    found: frozenset[str] = frozenset()
    for arg in update.node.args:
        if arg.keyword is not None:
            added: frozenset[str] | None = frozenset({arg.keyword.value})
        else:
            added = _keys(flow, Place(update.file, arg.value), depth - 1)
        if added is None:
            return None
        found |= added
    return found
