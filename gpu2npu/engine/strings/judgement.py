"""Judges what a string means where it is: a device, a backend, or something that only looks like one.

The judgement climbs from the string to what uses it: an argument, a comparison, a default, a list with its siblings.
"""

from __future__ import annotations

import ast

from gpu2npu.engine.strings.enums import enum_of, is_enum, judge_member, made_enum, of_members
from gpu2npu.engine.strings.forms import FLAGS, chooses_column, indexes, is_cut, is_flag, is_glued, is_list_of_names
from gpu2npu.engine.strings.keys import is_key, sibling_keys, stays
from gpu2npu.engine.strings.parameters import by_signature, is_fixture
from gpu2npu.engine.strings.places import LEFT, NO, UNSURE, YES, StringPlace, allowed, by_siblings, chosen, strings_of
from gpu2npu.engine.strings.prose import PROSE_KEYWORDS, speaks
from gpu2npu.engine.strings.text_methods import LOOKUPS, MATCHES, PARTS, TESTS, TRIMS
from gpu2npu.engine.strings.words import PARAMETER_SETS, TRANSPARENT, holds, is_mode, is_word, mentions
from gpu2npu.python.tree.syntax import (
    FUNCTIONS,
    argument_keyword,
    argument_value,
    arguments,
    defaults,
    elements,
    last_name,
    string_value,
)
from gpu2npu.rulebook.rule import Role

# Calls whose strings name files, modules or environment variables, or are looked for in texts.
_LOOKED_UP = frozenset(
    {"import_module", "__import__", "Path", "PurePath", "open", "glob", "joinpath", "exists", "find_spec",
     "importorskip", "getenv", "compile", "which", "system", "popen", "run", "check_output", "check_call", "Popen",
     "namedtuple", "Extension", "add_subparsers", "add_parser", "TypeVar"}
)  # fmt: skip
_CONTAINERS = frozenset({"append", "appendleft", "add", "insert", "extend", "remove", "discard"})
# Assertions of unittest and NumPy that compare their arguments.
_COMPARED = frozenset({"assertEqual", "assertNotEqual", "assertIs", "assertIn", "assertNotIn", "assert_equal"})
_NPU = "npu"  # a table with such a key has an entry for NPUs already


def judge(place: StringPlace, role: Role) -> str:
    """YES when the string certainly has the role, NO when it certainly has not, LEFT if nobody can say, else UNSURE."""
    if "_" in place.replaced_by and place.names.project.naming(place.replaced_by, place.names.path):
        return NO  # MULTI_GPU, in a project that has MULTI_NPU
    child: ast.AST = place.node
    parent = place.parent(child)
    while isinstance(parent, (ast.IfExp, ast.BoolOp)):
        child, parent = parent, place.parent(parent)
    if isinstance(parent, ast.FormattedValue):
        whole = place.parent(parent)
        if isinstance(whole, ast.JoinedStr) and is_glued(whole, place.siblings.position(whole, parent)):
            return NO if _climb(place, role, whole) == NO else UNSURE
    return _climb(place, role, place.node)


def _climb(place: StringPlace, role: Role, child: ast.AST) -> str:
    parent = place.parent(child)
    while parent is not None:
        handler = _HANDLERS.get(type(parent))
        verdict = handler(parent, child, place, role) if handler is not None else UNSURE
        if verdict is not None:
            return verdict
        child, parent = parent, place.parent(parent)
    return UNSURE


# Each handler answers for one kind of parent: a verdict, or None to look further up.


def _statement(parent: ast.AST, child: ast.AST, place: StringPlace, role: Role) -> str:
    return NO


def _further(parent: ast.AST, child: ast.AST, place: StringPlace, role: Role) -> None:
    return None


def _condition(parent: ast.AST, child: ast.AST, place: StringPlace, role: Role) -> str | None:
    assert isinstance(parent, ast.IfExp)
    if child is parent.test:
        return UNSURE
    other = parent.orelse if child is parent.body else parent.body
    return YES if string_value(other) in role.siblings or holds(other, role) else None


def _either(parent: ast.AST, child: ast.AST, place: StringPlace, role: Role) -> str | None:
    assert isinstance(parent, ast.BoolOp)
    others = [value for value in parent.values if value is not child]
    return YES if any(string_value(other) in role.siblings or holds(other, role) for other in others) else None


def _element(parent: ast.AST, child: ast.AST, place: StringPlace, role: Role) -> str | None:
    assert isinstance(parent, (ast.List, ast.Tuple, ast.Set))
    above = place.parent(parent)
    if isinstance(above, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and is_list_of_names(above):
        return NO
    if isinstance(child, ast.Starred):  # ["cpu", *(["cuda"] if is_gpu else [])]
        return by_siblings(place.siblings.inside(parent), place, role)
    if isinstance(above, ast.Subscript) and above.slice is parent:
        return None
    if isinstance(above, ast.keyword) and chooses_column(place.parent(above)):
        return LEFT
    index = place.siblings.position(parent, child)
    option = string_value(parent.elts[index - 1]) if index else None
    if option is not None and option.startswith("-") and is_word(option, role):  # ["--device", "cuda"]
        return YES
    columns = _column(above, index) if isinstance(parent, ast.Tuple) else frozenset()
    verdict = by_siblings(place.siblings.inside(parent) | of_members(parent, place) | columns, place, role)
    if verdict is None and isinstance(above, ast.Assign) and isinstance(parent, ast.Tuple):
        return _unpacked(above, index, role)
    return verdict


def _column(table: ast.AST | None, index: int) -> frozenset[str]:
    """The strings in one column of a list of rows: `[("cuda", 1), ("cpu", 2)]`."""
    rows = [each.elts for each in elements(table) if isinstance(each, ast.Tuple)]
    return strings_of(row[index] for row in rows if index < len(row))


def _joined(parent: ast.AST, child: ast.AST, place: StringPlace, role: Role) -> str | None:
    """Judge an element of a list by those of a list that is added: `["cpu"] + (["cuda"] if is_gpu else [])`.

    A path is what a text divides: `folder / "cuda"`.
    """
    assert isinstance(parent, ast.BinOp)
    if isinstance(parent.op, ast.Div):
        return NO
    if not isinstance(parent.op, ast.Add):
        return None
    other = parent.right if child is parent.left else parent.left
    branches = [other.body, other.orelse] if isinstance(other, ast.IfExp) else [other]
    return by_siblings(frozenset().union(*map(place.siblings.inside, branches)), place, role)


def _unpacked(assignment: ast.Assign, index: int, role: Role) -> str | None:
    for target in assignment.targets:
        names = elements(target)
        if index < len(names) and holds(names[index], role):
            return YES
    return None


def _dictionary(parent: ast.AST, child: ast.AST, place: StringPlace, role: Role) -> str | None:
    assert isinstance(parent, ast.Dict)
    index = place.siblings.position(parent, child)
    key, value = parent.keys[index], parent.values[index]
    if key is None:  # {**other}
        return UNSURE
    if key is child:
        verdict = by_siblings(place.siblings.inside(parent), place, role) or UNSURE
        is_field = last_name(value) == string_value(key)  # {"cuda": cuda}: of the user's own
        if is_field and verdict != NO and place.names.qualified(value, place.scope) != "torch.cuda":
            return LEFT
        return UNSURE if stays(place) else verdict
    if is_word(string_value(key), role) or holds(key, role) or string_value(key) in role.siblings:
        return YES
    if string_value(key) == string_value(value) and by_siblings(place.siblings.inside(parent), place, role) == YES:
        return YES  # {"nccl": "nccl", "gloo": own}: both or none
    values = place.siblings.values(parent)
    if (values - {place.replaced_by}) & role.siblings:  # {"cuda": "nccl", "cpu": "gloo"}
        return NO if _NPU in place.siblings.inside(parent) else YES
    return chosen(string_value(key), parent.values, place, role) or _of_name(place.parent(parent), role)


def _of_name(holder: ast.AST | None, role: Role) -> str:
    """YES for what a name is given that has the role: `device_map={"": "cuda"}`."""
    if isinstance(holder, ast.keyword):
        return YES if is_word(holder.arg, role) else UNSURE
    targets = holder.targets if isinstance(holder, ast.Assign) else []
    return YES if any(holds(target, role) for target in targets) else UNSURE


def _subscript(parent: ast.AST, child: ast.AST, place: StringPlace, role: Role) -> str | None:
    assert isinstance(parent, ast.Subscript)
    if child is parent.value:
        return None
    if last_name(parent.value) == "Literal":  # the name it annotates may decide
        return by_siblings(allowed(_whole_type(parent, place)), place, role)
    verdict = by_siblings(strings_of(indexes(parent)), place, role)
    return verdict or by_siblings(sibling_keys(place), place, role) or UNSURE


def _whole_type(part: ast.expr, place: StringPlace) -> ast.expr:
    """`torch.device | Literal["cuda"] | Literal["cpu"]` of one of its parts."""
    above = place.parent(part)
    return _whole_type(above, place) if isinstance(above, ast.expr) else part


def _comparison(parent: ast.AST, child: ast.AST, place: StringPlace, role: Role) -> str:
    assert isinstance(parent, ast.Compare)
    sides = [parent.left, *parent.comparators]
    others = [part for side in sides if side is not child for part in (side, *elements(side))]  # in (device, other)
    if place.enables_feature(parent, role) or any(map(is_cut, sides)):
        return LEFT
    if isinstance(parent.ops[0], (ast.In, ast.NotIn)) and is_key(place):  # judged as where it is looked up
        return LEFT if stays(place) else by_siblings(sibling_keys(place), place, role) or UNSURE
    owner = next((found for part in others if (found := enum_of(part, place)) is not None), None)
    if owner is not None:
        return judge_member(owner.names, owner.cls.node, place, role, _has_role) or UNSURE
    return YES if any(_has_role(part, place, role) for part in others) else UNSURE


def _has_role(node: ast.AST, place: StringPlace, role: Role) -> bool:
    """Return whether a value has the role by its own words, by what it is bound to, or by what else it is compared
    with: `x == "cpu"` beside `x == "cuda"`; that alone makes no device of a mode."""
    if holds(node, role) or is_fixture(place.names.file.above(node), role):
        return True
    if is_mode(last_name(node)):
        return False
    return by_siblings(place.siblings.compared(node, place.names.file), place, role) == YES


def _assignment(parent: ast.AST, child: ast.AST, place: StringPlace, role: Role) -> str:
    if isinstance(parent, ast.Assign):
        targets = parent.targets
    else:
        assert isinstance(parent, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr))
        targets = [parent.target]
    cls = place.parent(parent) if isinstance(parent, ast.Assign) else None
    verdict = judge_member(place.names, cls, place, role, _has_role) if cls is not None and is_enum(cls) else None
    if isinstance(parent, ast.AnnAssign) and child is not parent.annotation:
        verdict = by_siblings(allowed(parent.annotation), place, role)
    if verdict is not None:
        return verdict
    return YES if any(holds(target, role) for target in targets) else UNSURE


def _default(parent: ast.AST, child: ast.AST, place: StringPlace, role: Role) -> str:
    assert isinstance(parent, ast.arguments)
    function = place.parent(parent)
    assert isinstance(function, (*FUNCTIONS, ast.Lambda))
    parameter = next(parameter for parameter, default in defaults(function) if default is child)
    verdict = by_siblings(allowed(parameter.annotation), place, role)
    return verdict or (YES if is_word(parameter.arg, role) else UNSURE)


def _annotation(parent: ast.AST, child: ast.AST, place: StringPlace, role: Role) -> str:
    """Judge the only string of a `Literal`, or one whose others decide nothing, by the name that is annotated."""
    assert isinstance(parent, ast.arg)
    return YES if is_word(parent.arg, role) else UNSURE


def _returned(parent: ast.AST, child: ast.AST, place: StringPlace, role: Role) -> str:
    function = next((node for node in place.names.file.above(parent) if isinstance(node, FUNCTIONS)), None)
    if function is None:
        return UNSURE
    verdict = by_siblings(allowed(function.returns), place, role)
    if verdict is not None:
        return verdict
    named = is_word(function.name, role) or place.siblings.inside(function) & role.siblings
    return YES if named else UNSURE


def _case(parent: ast.AST, child: ast.AST, place: StringPlace, role: Role) -> str | None:
    match = place.parent(parent)
    return YES if isinstance(match, ast.Match) and holds(match.subject, role) else UNSURE


def _called(parent: ast.AST, child: ast.AST, place: StringPlace, role: Role) -> str | None:
    assert isinstance(parent, ast.Call)
    # Of `"cuda:{}".format(i)` the call's result is what the string means.
    return None if child is parent.func else _argument(parent, child, place, role)


def _keyword(parent: ast.AST, child: ast.AST, place: StringPlace, role: Role) -> str | None:
    call = place.parent(parent)
    return _argument(call, parent, place, role) if isinstance(call, ast.Call) else UNSURE


def _argument(call: ast.Call, argument: ast.AST, place: StringPlace, role: Role) -> str | None:
    assert isinstance(argument, (ast.expr, ast.keyword))
    callee = last_name(call.func) or ""
    made = made_enum(call.func, place)
    if made is not None:
        return judge_member(made.names, made.bound.node, place, role, _has_role) or UNSURE
    qualified = place.names.qualified(call.func, place.scope) or ""
    if qualified in role.others:
        return NO
    keyword = argument_keyword(argument)
    if callee in FLAGS or (callee == "add" and is_flag(call)):
        return _flag(call, keyword, place, role)
    if callee in _COMPARED | MATCHES and any(
        _has_role(each, place, role) for each in call.args if each is not argument
    ):
        return YES
    if keyword is not None:
        if keyword in PROSE_KEYWORDS:
            return NO
        if is_word(keyword, role):
            return YES
    if qualified in role.callables:
        return YES
    if qualified in PARAMETER_SETS:
        return None if keyword is None else NO
    if callee in ("fixture", "parametrize") and keyword == "ids":
        return NO
    if callee == "fixture" and keyword == "params":  # @pytest.fixture(params=["cuda"])
        return YES if is_fixture([place.parent(call) or call], role) else UNSURE
    if isinstance(call.func, ast.Attribute) and not qualified.startswith("torch."):
        verdict = _of_method(call, call.func, argument, place, role)
        if verdict is not None:
            return verdict
    others = (argument_value(each) for each in arguments(call) if each is not argument)
    verdict = chosen(keyword, others, place, role)
    if verdict is not None:
        return verdict
    if callee in TRANSPARENT:
        return None
    # d.get("device", "cuda"), getattr(args, "device", "cuda"), parametrize("device", ["cuda"])
    given = arguments(call)
    key = given[1 if callee in ("getattr", "setattr") and len(given) > 2 else 0]
    if argument is not key and is_word(string_value(argument_value(key)), role):
        return YES
    if speaks(callee) or callee in _LOOKED_UP or (keyword is None and callee in LOOKUPS):
        return NO
    if keyword is None and mentions(callee, role):
        return YES
    return by_signature(call, argument, place, role)


def _of_method(call: ast.Call, func: ast.Attribute, argument: ast.AST, place: StringPlace, role: Role) -> str | None:
    """Judge an argument of a method by the method and what it is called on; None where they say nothing."""
    if func.attr in role.methods:
        return YES
    if func.attr in TESTS or func.attr in _CONTAINERS:
        return YES if _has_role(func.value, place, role) else UNSURE
    if func.attr in PARTS and _has_role(func.value, place, role):  # device.replace("cuda:", "")
        return YES
    if func.attr in TRIMS:
        if strings_of(call.args) & role.siblings - {string_value(place.node)}:  # x.replace("cuda", "cpu")
            return YES
        if (string_value(place.node) or "").endswith(":"):  # x.replace("cuda:", ""), as certain as x.strip("cuda:")
            return LEFT
    if func.attr in ("get", "pop") and call.args and argument is call.args[0]:
        return by_siblings(sibling_keys(place), place, role) or UNSURE
    if (func.attr == "join" and string_value(func.value) != ":") or "logg" in (last_name(func.value) or "").lower():
        return NO
    return None


def _flag(call: ast.Call, keyword: str | None, place: StringPlace, role: Role) -> str:
    """`add_argument("--device", default="cuda", choices=["cuda", "cpu"])`: the flag's name or the choices decide."""
    if keyword not in ("default", "choices", "const"):
        return NO
    names = [*call.args, *(each.value for each in call.keywords if each.arg == "dest")]
    if any(is_word(name.lstrip("-"), role) for name in map(string_value, names) if name):
        return YES
    if chooses_column(call):
        return LEFT
    values = [each.value for each in call.keywords]
    choices = [choice for value in values for choice in elements(value)]
    return by_siblings(strings_of([*values, *choices]), place, role) or UNSURE


def _method_of_string(parent: ast.AST, child: ast.AST, place: StringPlace, role: Role) -> str | None:
    """`"cuda:{}".format(i)`: the call's result is what the string means."""
    assert isinstance(parent, ast.Attribute)
    return None if parent.attr == "format" else UNSURE


_HANDLERS = {
    ast.Expr: _statement,
    ast.Raise: _statement,
    ast.Assert: _statement,
    ast.arg: _annotation,
    ast.IfExp: _condition,
    ast.BoolOp: _either,
    ast.BinOp: _joined,
    ast.Starred: _further,
    ast.List: _element,
    ast.Tuple: _element,
    ast.Set: _element,
    ast.Dict: _dictionary,
    ast.Subscript: _subscript,
    ast.Compare: _comparison,
    ast.Assign: _assignment,
    ast.AnnAssign: _assignment,
    ast.AugAssign: _assignment,
    ast.NamedExpr: _assignment,
    ast.arguments: _default,
    ast.Return: _returned,
    ast.Yield: _returned,
    ast.MatchValue: _further,
    ast.MatchOr: _further,
    ast.match_case: _case,
    ast.Call: _called,
    ast.keyword: _keyword,
    ast.Attribute: _method_of_string,
}
