"""Enums whose members are devices: a member and what it is compared with are renamed together, or neither."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from msgspec.structs import replace

from gpu2npu.engine.strings.places import UNSURE, YES, Siblings, StringPlace, by_siblings, strings_of
from gpu2npu.engine.strings.words import is_word
from gpu2npu.python.meaning.module_names import Definition
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.meaning.types import Own, ValueTypes
from gpu2npu.python.project.project import EVERY_FILE
from gpu2npu.python.tree.syntax import last_name, string_value
from gpu2npu.rulebook.rule import Role

RoleJudge = Callable[[ast.AST, StringPlace, Role], bool]


def is_enum(node: ast.AST | None) -> bool:
    """Return whether a node defines an `Enum`."""
    return isinstance(node, ast.ClassDef) and any((last_name(base) or "").endswith("Enum") for base in node.bases)


def enum_of(node: ast.AST, place: StringPlace) -> Own | None:
    """The project's Enum that a value is a member of, or the value of one: `kind: Device` of `kind.value`."""
    if isinstance(node, ast.Attribute) and node.attr == "value":
        node = node.value
    scope = place.names.file.scope_of(node)
    if isinstance(node, ast.Attribute) and (made := made_enum(node.value, place)) is not None:  # Device.CUDA
        return Own(made.names, made.bound.scope)
    types = ValueTypes(place.names).of(node, scope)
    (found,) = types if len(types) == 1 else (None,)
    return found if isinstance(found, Own) and is_enum(found.cls.node) else None


def made_enum(node: ast.AST, place: StringPlace) -> Definition | None:
    """The project's Enum that an expression names."""
    found = place.names.definition(node, place.names.file.scope_of(node))
    return found if found is not None and is_enum(found.bound.node) else None


def of_members(display: ast.List | ast.Tuple | ast.Set, place: StringPlace) -> frozenset[str]:
    """The values of the project's Enums that elements are members of: of `Device` for `("cuda", Device.CUDA)`."""
    known = place.siblings.of_members
    if display not in known:
        found = [made_enum(node.value, place) for node in display.elts if isinstance(node, ast.Attribute)]
        classes = [made.bound.node for made in found if made is not None]
        bodies = (each.body for each in classes if isinstance(each, ast.ClassDef))
        known[display] = strings_of(each.value for body in bodies for each in body if isinstance(each, ast.Assign))
    return known[display]


def judge_member(names: Names, cls: ast.AST, place: StringPlace, role: Role, has_role: RoleJudge) -> str | None:
    """Judge a string that is a member of an Enum by the others and by the name of the class: `CUDA = "cuda"`. UNSURE
    where the project compares with it what may be a member."""
    text = string_value(place.node)
    if not isinstance(cls, ast.ClassDef) or text is None:
        return None
    values = strings_of(each.value for each in cls.body if isinstance(each, ast.Assign))
    verdict = by_siblings(values, place, role) or (YES if is_word(cls.name, role) else None)
    if verdict != YES or text not in values:
        return verdict
    project = names.project
    project.consult(place.names.path, EVERY_FILE)

    def ask() -> bool:
        return any(not has_role(side, where, role) for side, where in _compared(text, names, cls, place))

    is_unsure = project.cached(("compared with a member", names.path, cls.name, text, place.replaced_by), ask)
    return UNSURE if is_unsure else YES


def _compared(text: str, names: Names, cls: ast.ClassDef, place: StringPlace) -> Iterator[tuple[ast.expr, StringPlace]]:
    """The values that the project compares with a text, of no known class, that may be a member of an Enum; each with
    its place."""
    project = names.project
    naming = project.naming(cls.name, place.names.path) | {names.path}
    reading = project.naming("value", place.names.path) & project.naming(text, place.names.path)
    is_str = any((last_name(base) or "") in ("str", "StrEnum") for base in cls.bases)
    for path in sorted(naming | reading):
        other = names if path == names.path else project.names(path, names.path)
        for node in other.file.unordered().get(ast.Compare, ()) if other is not None else ():
            sides = [node.left, *node.comparators]
            string = next((each for each in sides if string_value(each) == text), None)
            if other is None or string is None:
                continue
            for side in sides:
                may_be = _is_value(side) or (is_str and path in naming and isinstance(side, (ast.Name, ast.Attribute)))
                where = replace(place, names=other, node=string, scope=other.file.scope_of(side), siblings=Siblings())
                if may_be and enum_of(side, where) is None:
                    yield side, where


def _is_value(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "value"
