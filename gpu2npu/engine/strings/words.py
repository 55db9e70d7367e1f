"""Judges a value by the words of the code itself: the name it has, the call it comes from."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from functools import lru_cache

from gpu2npu.engine.strings.text_methods import SAME_TEXT
from gpu2npu.python.tree.syntax import argument_value, arguments, last_name, string_value
from gpu2npu.rulebook.rule import Role

# Calls that hand a string on: what their result means, the string means.
TRANSPARENT = SAME_TEXT | {"str", "cast", "field", "Field", "Option", "attrib"}
# Calls that stand for their positional arguments in a list of a test's parameters, beside `id` and `marks`.
PARAMETER_SETS = frozenset({"pytest.param", "parameterized.param"})
# Words that may follow the one that says what a name holds: `device_type`, `device_to_use`.
_TAILS = frozenset(
    {"type", "types", "name", "names", "str", "string", "id", "ids", "idx", "list", "map", "arg", "args", "option",
     "options", "choice", "choices", "default", "spec", "key", "keys", "value", "values", "kind", "index", "param",
     "params", "set", "tuple", "module", "opt", "info", ""}
)  # fmt: skip
_LINKS = frozenset({"to", "for", "in", "on", "of", "from", "with", "without", "or", "and", "used", "requested"})


@lru_cache(maxsize=20_000)  # files ask about the same names
def is_word(name: str | None, role: Role) -> bool:
    """Return whether a name says that it holds such a value: `map_location`, `teacher_device`, `DEVICE`, `deviceType`.

    The last word says what a thing is: a `device_dir` is not a device; but a `device_type` is as good as one.
    """
    if name and "," in name:  # pytest's parametrize("device, dtype", ...)
        return any(is_word(part.strip(), role) for part in name.split(","))
    words = list(_words(name))
    while len(words) > 1 and words[-1] in _TAILS:
        words.pop()
    ends = [index for index, word in enumerate(words) if index and word in _LINKS] + [len(words)]
    return any(_names_role(words[:end][-length:], role) for end in ends for length in (1, 2))


def mentions(name: str | None, role: Role) -> bool:
    """Return whether a function's name says that it is about such a value: `move_to_device`, `device_count`."""
    words = _words(name)
    return any(_names_role(words[start : start + length], role) for start in range(len(words)) for length in (1, 2))


@lru_cache(maxsize=10_000)  # each role asks about the same names
def _words(name: str | None) -> tuple[str, ...]:
    split = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name or "").lower().replace("-", "_")
    return tuple(word.rstrip("0123456789") for word in split.strip("_").split("_"))


def is_mode(name: str | None) -> bool:
    """Return whether a name says that it holds a way of working, such as the `prefetch_mode` of a program's options."""
    return _words(name)[-1] in ("mode", "modes")


def _names_role(words: Sequence[str], role: Role) -> bool:
    joined = "_".join(words)
    return joined in role.words or joined.removesuffix("s") in role.words


def holds(node: ast.AST, role: Role) -> bool:
    """Return whether an expression's own words say that its value has the role."""
    if isinstance(node, ast.Name):
        return is_word(node.id, role)
    if isinstance(node, ast.Attribute):
        return is_word(node.attr, role) or node.attr in role.attributes
    if isinstance(node, ast.Call):
        return _result_holds(node, role)
    if isinstance(node, ast.Subscript):
        key = string_value(node.slice)
        return is_word(key, role) if key is not None else holds(node.value, role)
    if isinstance(node, ast.BoolOp):
        return any(holds(value, role) for value in node.values)
    if isinstance(node, ast.BinOp):
        return holds(node.left, role) or holds(node.right, role)
    if isinstance(node, ast.IfExp):
        return holds(node.body, role) or holds(node.orelse, role)
    if isinstance(node, ast.NamedExpr):
        return holds(node.target, role) or holds(node.value, role)
    return False


def _result_holds(node: ast.Call, role: Role) -> bool:
    name = last_name(node.func)
    given = [argument_value(argument) for argument in arguments(node)]
    if name in TRANSPARENT:
        inner = given[0] if isinstance(node.func, ast.Name) and given else None
        inner = node.func.value if isinstance(node.func, ast.Attribute) else inner
        return inner is not None and holds(inner, role)
    if name in ("getattr", "get", "pop") and given:
        keys = [string_value(value) for value in given[:2]]
        return any(is_word(key, role) or (name == "getattr" and key in role.attributes) for key in keys)
    return mentions(name, role)
