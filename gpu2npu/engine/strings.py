"""What a string means where it stands: a device, a backend, or something that only looks like one.

The judgement climbs from the string to what uses it: an argument, a comparison, a default, a list with its siblings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from gpu2npu.engine.names import Names
from gpu2npu.engine.prose import PROSE_KEYWORDS, SPOKEN
from gpu2npu.engine.scopes import Assigned, Defined, Scope, every_param
from gpu2npu.engine.tree import children, elements, last_name, string_value
from gpu2npu.engine.words import TRANSPARENT, holds, is_word, mentions
from gpu2npu.rulebook.rule import Role

YES = "yes"
NO = "no"
UNSURE = "unsure"

# Calls whose strings name files, modules or environment variables, or are looked for in texts.
_LOOKED_UP = frozenset(
    {"import_module", "__import__", "Path", "PurePath", "open", "glob", "joinpath", "exists", "find_spec",
     "importorskip", "getenv", "compile", "which", "system", "popen", "run", "check_output", "check_call", "Popen",
     "namedtuple", "Extension", "add_subparsers", "add_parser", "TypeVar", "sub", "search", "match", "fullmatch",
     "findall", "replace", "find", "rfind", "count", "index", "strip", "lstrip", "rstrip", "removeprefix",
     "removesuffix"}
)  # fmt: skip
_TESTS = frozenset({"startswith", "endswith", "__eq__", "__contains__"})
_CONTAINERS = frozenset({"append", "appendleft", "add", "insert", "extend", "remove", "discard"})
_FLAGS = frozenset({"add_argument", "add_option", "option"})
_NPU = "npu"  # a table with such a key has an entry for NPUs already


class Texts:
    """The strings directly inside displays and functions; remembered, since each of them may be asked for them all."""

    def __init__(self) -> None:
        self._inside: dict[int, frozenset[str]] = {}
        self._order: dict[int, dict[int, int]] = {}

    def inside(self, node: cst.CSTNode) -> frozenset[str]:
        """The strings that a list, tuple or set has as elements, a dict as keys, a function as returned values."""
        if id(node) not in self._inside:
            nodes: Sequence[cst.CSTNode]
            if isinstance(node, cst.Dict):
                nodes = [element.key for element in node.elements if isinstance(element, cst.DictElement)]
            elif isinstance(node, cst.FunctionDef):
                nodes = list(_returned_values(node.body))
            else:
                nodes = elements(node)
            self._inside[id(node)] = _strings(nodes)
        return self._inside[id(node)]

    def index(self, parts: Sequence[cst.CSTNode], part: cst.CSTNode, owner: cst.CSTNode) -> int:
        """Which of the parts of its owner, elements or arguments, one is."""
        if id(owner) not in self._order:
            self._order[id(owner)] = {id(part): index for index, part in enumerate(parts)}
        return self._order[id(owner)][id(part)]


@dataclass(frozen=True)
class Place:
    """A string's place: the nodes above it, outermost first, and the scope it is in."""

    node: cst.CSTNode
    above: Sequence[cst.CSTNode]
    scope: Scope
    names: Names
    replaced_by: str
    texts: Texts


def judge(place: Place, role: Role) -> str:
    """YES when the string certainly has the role, NO when it certainly has not, else UNSURE."""
    depth = len(place.above) - 1
    while depth > 0 and isinstance(place.above[depth], (cst.IfExp, cst.BooleanOperation)):
        depth -= 1
    if depth > 0 and isinstance(place.above[depth], cst.FormattedStringExpression) and _is_glued(place, depth):
        return NO if _climb(place, role, place.above[depth - 1], depth - 2) == NO else UNSURE
    return _climb(place, role, place.node, len(place.above) - 1)


def _is_glued(place: Place, depth: int) -> bool:
    """Whether more than a device's number stands beside the braces that the string is in: f"{'cuda'}_time"."""
    whole = place.above[depth - 1]
    assert isinstance(whole, cst.FormattedString)
    index = place.texts.index(whole.parts, place.above[depth], whole)
    after = whole.parts[index + 1] if index + 1 < len(whole.parts) else None
    return index > 0 or (after is not None and not (isinstance(after, cst.FormattedStringText) and after.value == ":"))


def _climb(place: Place, role: Role, child: cst.CSTNode, start: int) -> str:
    for depth in range(start, -1, -1):
        parent = place.above[depth]
        handler = _HANDLERS.get(type(parent))
        verdict = handler(parent, child, place, role, depth) if handler is not None else UNSURE
        if verdict is not None:
            return verdict
        child = parent
    return UNSURE


def _beside(values: frozenset[str], place: Place, role: Role) -> str | None:
    """YES when a sibling has the role; NO when the replacement stands there already: the code knows the NPU."""
    if place.replaced_by in values:
        return NO
    if values & role.strangers:
        return None
    return YES if values & role.siblings else None


# Each handler answers for one kind of parent: a verdict, or None to look further up.


def _statement(parent: cst.CSTNode, child: cst.CSTNode, place: Place, role: Role, depth: int) -> str:
    return NO


def _condition(parent: cst.CSTNode, child: cst.CSTNode, place: Place, role: Role, depth: int) -> str | None:
    assert isinstance(parent, cst.IfExp)
    if child is parent.test:
        return UNSURE
    other = parent.orelse if child is parent.body else parent.body
    return YES if string_value(other) in role.siblings or holds(other, role) else None


def _either(parent: cst.CSTNode, child: cst.CSTNode, place: Place, role: Role, depth: int) -> str | None:
    assert isinstance(parent, (cst.BooleanOperation, cst.BinaryOperation))
    other = parent.right if child is parent.left else parent.left
    if isinstance(parent, cst.BooleanOperation) and (string_value(other) in role.siblings or holds(other, role)):
        return YES
    return None


def _element(parent: cst.CSTNode, child: cst.CSTNode, place: Place, role: Role, depth: int) -> str | None:
    display = place.above[depth - 1]
    assert isinstance(display, (cst.List, cst.Tuple, cst.Set))
    index = place.texts.index(display.elements, parent, display)
    option = string_value(display.elements[index - 1].value) if index else None
    if option is not None and option.startswith("-") and is_word(option, role):  # ["--device", "cuda"]
        return YES
    verdict = _beside(place.texts.inside(display), place, role)
    if verdict is not None or depth < 2:
        return verdict
    assignment = place.above[depth - 2]
    if isinstance(assignment, cst.Assign) and isinstance(display, cst.Tuple):
        return _unpacked(assignment, place.texts.index(display.elements, parent, display), role)
    return None


def _unpacked(assignment: cst.Assign, index: int, role: Role) -> str | None:
    for target in assignment.targets:
        names = elements(target.target)
        if index < len(names) and holds(names[index], role):
            return YES
    return None


def _dictionary(parent: cst.CSTNode, child: cst.CSTNode, place: Place, role: Role, depth: int) -> str | None:
    assert isinstance(parent, cst.DictElement)
    display = place.above[depth - 1]
    assert isinstance(display, cst.Dict)
    if child is parent.key:
        if last_name(parent.value) == string_value(parent.key):  # {"cuda": cuda}: a field of the user's own
            return UNSURE
        return _beside(place.texts.inside(display), place, role) or UNSURE
    if is_word(string_value(parent.key), role) or holds(parent.key, role):
        return YES
    if string_value(parent.key) in role.siblings:
        return YES
    values = _strings([element.value for element in display.elements if isinstance(element, cst.DictElement)])
    if (values - {place.replaced_by}) & role.siblings:  # {"cuda": "nccl", "cpu": "gloo"}
        return NO if _NPU in place.texts.inside(display) else YES
    return _of_name(place.above[depth - 2], role) if depth > 1 else UNSURE


def _of_name(holder: cst.CSTNode, role: Role) -> str:
    """YES for what a name is given that has the role: `device_map={"": "cuda"}`."""
    if isinstance(holder, cst.Arg):
        return YES if holder.keyword is not None and is_word(holder.keyword.value, role) else UNSURE
    targets = [target.target for target in holder.targets] if isinstance(holder, cst.Assign) else []
    return YES if any(holds(target, role) for target in targets) else UNSURE


def _subscript(parent: cst.CSTNode, child: cst.CSTNode, place: Place, role: Role, depth: int) -> str | None:
    assert isinstance(parent, cst.Subscript)
    if child is parent.value:
        return None
    verdict = _beside(_strings(_indexes(parent)), place, role)
    if last_name(parent.value) == "Literal":  # the name it annotates may tell
        return verdict
    return verdict or _beside(_keys(parent.value, place), place, role) or UNSURE


def _keys(table: cst.CSTNode, place: Place) -> frozenset[str]:
    """The keys of a dict display that a name stands for everywhere: they are renamed alike."""
    found = place.scope.lookup(table.value) if isinstance(table, cst.Name) else None
    bound = found[1][0] if found is not None and len(found[1]) == 1 else None
    value = bound.value if isinstance(bound, Assigned) else None
    return place.texts.inside(value) if isinstance(value, cst.Dict) else frozenset()


def _indexes(node: cst.Subscript) -> list[cst.CSTNode]:
    return [element.slice.value for element in node.slice if isinstance(element.slice, cst.Index)]


def _allowed(annotation: cst.CSTNode | None) -> frozenset[str]:
    """The strings that a type admits: those of a `Literal` anywhere in it."""
    if annotation is None:
        return frozenset()
    if isinstance(annotation, cst.Subscript) and last_name(annotation.value) == "Literal":
        return _strings(_indexes(annotation))
    return frozenset().union(*map(_allowed, children(annotation)))


def _comparison(parent: cst.CSTNode, child: cst.CSTNode, place: Place, role: Role, depth: int) -> str:
    assert isinstance(parent, cst.Comparison)
    sides = [parent.left, *(target.comparator for target in parent.comparisons)]
    others = [part for side in sides if side is not child for part in (side, *elements(side))]  # in (device, other)
    return YES if any(holds(part, role) or _stands_for(part, place, role) for part in others) else UNSURE


def _stands_for(name: cst.CSTNode, place: Place, role: Role) -> bool:
    """Whether a name is bound to such values alone: `kind = x.device.type`."""
    found = place.scope.lookup(name.value) if isinstance(name, cst.Name) else None
    values = [getattr(binding, "value", None) for binding in found[1]] if found is not None else []
    return bool(values) and all(value is not None and holds(value, role) for value in values)


def _assignment(parent: cst.CSTNode, child: cst.CSTNode, place: Place, role: Role, depth: int) -> str:
    if isinstance(parent, cst.Assign):
        targets: list[cst.CSTNode] = [target.target for target in parent.targets]
    else:
        assert isinstance(parent, (cst.AnnAssign, cst.AugAssign, cst.NamedExpr))
        targets = [parent.target]
    if isinstance(parent, cst.AnnAssign) and (verdict := _beside(_allowed(parent.annotation), place, role)):
        return verdict
    return YES if any(holds(target, role) for target in targets) else UNSURE


def _default(parent: cst.CSTNode, child: cst.CSTNode, place: Place, role: Role, depth: int) -> str:
    assert isinstance(parent, cst.Param)
    if verdict := _beside(_allowed(parent.annotation), place, role):
        return verdict
    return YES if child is parent.default and is_word(parent.name.value, role) else UNSURE


def _annotation(parent: cst.CSTNode, child: cst.CSTNode, place: Place, role: Role, depth: int) -> str:
    """The string of a `Literal` with no other that tells: the name that is annotated may."""
    holder = place.above[depth - 1]
    name = holder.name if isinstance(holder, cst.Param) else getattr(holder, "target", None)
    return YES if name is not None and holds(name, role) else UNSURE


def _returned(parent: cst.CSTNode, child: cst.CSTNode, place: Place, role: Role, depth: int) -> str:
    function = next((node for node in reversed(place.above[:depth]) if isinstance(node, cst.FunctionDef)), None)
    if function is None:
        return UNSURE
    returns = function.returns.annotation if function.returns is not None else None
    if verdict := _beside(_allowed(returns), place, role):
        return verdict
    if is_word(function.name.value, role):
        return YES
    return YES if place.texts.inside(function) & role.siblings else UNSURE


def _returned_values(body: cst.CSTNode) -> Iterator[cst.CSTNode]:
    for node in children(body):
        if isinstance(node, cst.Return) and node.value is not None:
            yield node.value
        elif not isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            yield from _returned_values(node)


def _case(parent: cst.CSTNode, child: cst.CSTNode, place: Place, role: Role, depth: int) -> str | None:
    match = next((node for node in reversed(place.above[:depth]) if isinstance(node, cst.Match)), None)
    return YES if match is not None and holds(match.subject, role) else UNSURE


def _argument(parent: cst.CSTNode, child: cst.CSTNode, place: Place, role: Role, depth: int) -> str | None:
    assert isinstance(parent, cst.Arg)
    call = place.above[depth - 1]
    if isinstance(call, cst.ClassDef):
        return UNSURE
    assert isinstance(call, cst.Call)
    callee = last_name(call.func) or ""
    if callee in _FLAGS:
        return _flag(call, parent, place, role)
    if parent.keyword is not None:
        if parent.keyword.value in PROSE_KEYWORDS:
            return NO
        if is_word(parent.keyword.value, role):
            return YES
    qualified = place.names.qualified(call.func, place.scope) or ""
    if qualified in role.callables:
        return YES
    if isinstance(call.func, cst.Attribute) and not qualified.startswith("torch."):
        if callee in role.methods:
            return YES
        if callee in _TESTS or callee in _CONTAINERS:
            return YES if holds(call.func.value, role) else UNSURE
        if callee in ("get", "pop") and parent is call.args[0]:
            return _beside(_keys(call.func.value, place), place, role) or UNSURE
        if callee == "join" or "logg" in (last_name(call.func.value) or "").lower():
            return NO
    if callee in TRANSPARENT:
        return None
    # d.get("device", "cuda"), getattr(args, "device", "cuda"), parametrize("device", ["cuda"])
    key = call.args[1 if callee in ("getattr", "setattr") and len(call.args) > 2 else 0]
    if parent is not key and is_word(string_value(key.value), role):
        return YES
    if callee in SPOKEN or callee in _LOOKED_UP or callee.endswith(("Error", "Exception", "Warning")):
        return NO
    if parent.keyword is None and mentions(callee, role):
        return YES
    return _by_signature(call, parent, place, role)


def _flag(call: cst.Call, argument: cst.Arg, place: Place, role: Role) -> str:
    """`add_argument("--device", default="cuda", choices=["cuda", "cpu"])`: the flag's name or the choices tell."""
    if argument.keyword is None or argument.keyword.value not in ("default", "choices", "const"):
        return NO
    flags = [string_value(arg.value) for arg in call.args if arg.keyword is None]
    dest = [string_value(arg.value) for arg in call.args if arg.keyword is not None and arg.keyword.value == "dest"]
    if any(is_word(name.lstrip("-"), role) for name in (*flags, *dest) if name):
        return YES
    values = [arg.value for arg in call.args if arg.keyword is not None]
    choices = [choice for value in values for choice in elements(value)]
    return _beside(_strings([*values, *choices]), place, role) or UNSURE


def _strings(nodes: Sequence[cst.CSTNode]) -> frozenset[str]:
    return frozenset(value for value in map(string_value, nodes) if value is not None)


def _by_signature(call: cst.Call, argument: cst.Arg, place: Place, role: Role) -> str:
    """Ask the project's own function which parameter the argument is for."""
    if argument.keyword is not None or argument.star:
        return UNSURE
    found = place.names.definition(call.func, place.scope)
    function, bound = (_signature(found[1]), isinstance(found[1].node, cst.ClassDef)) if found else (None, False)
    if function is None and isinstance(call.func, cst.Attribute):
        function, bound = place.names.method(call.func, place.scope) or (None, False)
    if function is None:
        return UNSURE
    params = [param.name.value for param in every_param(function.params)][bound:]
    index = place.texts.index(call.args, argument, call)
    return YES if index < len(params) and is_word(params[index], role) else UNSURE


def _signature(defined: Defined) -> cst.FunctionDef | None:
    if isinstance(defined.node, cst.FunctionDef):
        return defined.node
    for binding in defined.scope.bindings.get("__init__", ()):
        if isinstance(binding, Defined) and isinstance(binding.node, cst.FunctionDef):
            return binding.node
    return None


def _further(parent: cst.CSTNode, child: cst.CSTNode, place: Place, role: Role, depth: int) -> None:
    return None


def _method_of_string(parent: cst.CSTNode, child: cst.CSTNode, place: Place, role: Role, depth: int) -> str | None:
    """`"cuda:{}".format(i)`: the call's result is what the string means."""
    assert isinstance(parent, cst.Attribute)
    return None if parent.attr.value == "format" else UNSURE


_HANDLERS = {
    cst.Expr: _statement,
    cst.Raise: _statement,
    cst.Assert: _statement,
    cst.Annotation: _annotation,
    cst.IfExp: _condition,
    cst.BooleanOperation: _either,
    cst.BinaryOperation: _either,
    cst.Element: _element,
    cst.StarredElement: _further,
    cst.List: _further,
    cst.Tuple: _further,
    cst.Set: _further,
    cst.Dict: _further,
    cst.DictElement: _dictionary,
    cst.Index: _further,
    cst.SubscriptElement: _further,
    cst.Subscript: _subscript,
    cst.ComparisonTarget: _further,
    cst.Comparison: _comparison,
    cst.Assign: _assignment,
    cst.AnnAssign: _assignment,
    cst.AugAssign: _assignment,
    cst.NamedExpr: _assignment,
    cst.Param: _default,
    cst.Return: _returned,
    cst.MatchValue: _further,
    cst.MatchOrElement: _further,
    cst.MatchOr: _further,
    cst.MatchCase: _case,
    cst.Arg: _argument,
    cst.Call: _further,
    cst.Attribute: _method_of_string,
}
