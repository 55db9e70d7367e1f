"""Turns an expression before and after into a pattern of code: what both have becomes a metavariable."""

from __future__ import annotations

import ast
import re
from collections import Counter

from gpu2npu.project.learn.meaning import FileMeanings
from gpu2npu.rulebook.code_pattern import PatternError, check_pattern, parse_code
from gpu2npu.rulebook.match import Json

_VARIABLES = ("X", "Y", "Z", "U", "V", "W")
_MARK = "METAVARIABLE_"
_REST = ast.Name(f"{_MARK}REST")


class UnsaidError(ValueError):
    """No pattern says a difference."""


def code_rule(before: ast.expr, after: ast.expr, old: FileMeanings, new: FileMeanings) -> tuple[Json, Json]:
    """Return what a rule for code matches and does that makes `after` of `before`. Raises UnsaidError: there is none,
    or it would be for any code."""
    variables = _Variables(before, old)
    replacement = variables.written(after, new)
    pattern = variables.written(before, old, matches=True)
    types = variables.types(pattern, replacement)
    match = {"code": _text(pattern), **({"types": types} if types else {})}
    return _checked(match, {"replace": _text(replacement)})


def call_rule(
    name: str, keyword: ast.keyword | None, after: ast.keyword | None, old: FileMeanings, new: FileMeanings
) -> tuple[Json, Json]:
    """The rule for calls of a function that adds an argument, or writes another value for one. Raises UnsaidError: a
    value has a local name."""
    if after is None:
        raise UnsaidError
    empty = _Variables(ast.Constant(None), old)
    value = ast.keyword(after.arg, empty.written(after.value, new))
    function = ast.Name(name)
    if keyword is None:
        match = ast.Call(function, [_REST], [])
        replacement = ast.Call(function, [_REST], [value])
    else:
        match = ast.Call(
            function, [], [ast.keyword(keyword.arg, empty.written(keyword.value, old)), ast.keyword(None, _REST)]
        )
        replacement = ast.Call(function, [], [value, ast.keyword(None, _REST)])
    return _checked({"code": _text(match)}, {"replace": _text(replacement)})


def statement_text(statement: ast.Expr, new: FileMeanings) -> str:
    """A statement that is a call, with qualified names. Raises UnsaidError: it has a local name."""
    return _text(_Variables(ast.Constant(None), new).written(statement.value, new))


def _checked(match: Json, then: Json) -> tuple[Json, Json]:
    try:
        check_pattern(match["code"])
        parse_code(then["replace"])
    except PatternError as error:
        raise UnsaidError from error
    return match, then


def _text(node: ast.expr) -> str:
    text = ast.unparse(ast.fix_missing_locations(node))
    return re.sub(rf"(?:\*\*)?{_MARK}REST", "...", text).replace(_MARK, "$")


class _Variables:
    """The metavariables for what an expression before and its replacement have in common."""

    def __init__(self, before: ast.expr, meaning: FileMeanings) -> None:
        parts = [part for part in ast.walk(before) if part is not before and isinstance(part, ast.expr)]
        self._shared = {ast.dump(part): part for part in parts if meaning.qualified(part) is None}
        self._names: dict[str, str] = {}
        self._meaning = meaning

    def written(self, node: ast.expr, meaning: FileMeanings, *, matches: bool = False) -> ast.expr:
        """An expression with metavariables and qualified names; where it `matches`, what is left is any code. Raises
        UnsaidError: it has a local name, or is of a form that patterns have not."""
        qualified = meaning.qualified(node)
        if qualified is not None:
            return ast.Name(qualified)
        dump = ast.dump(node)
        if dump in self._names or (not matches and dump in self._shared):
            return ast.Name(_MARK + self._name(dump))
        if isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and meaning.is_builtin(node)):
            return node
        if isinstance(node, ast.Attribute):
            return ast.Attribute(self.written(node.value, meaning, matches=matches), node.attr)
        if isinstance(node, ast.Call):
            return self._call(node, meaning, matches)
        if matches:
            return ast.Name(_MARK + "_")
        raise UnsaidError

    def _call(self, node: ast.Call, meaning: FileMeanings, matches: bool) -> ast.expr:
        if (
            isinstance(node.func, ast.Name)
            and meaning.qualified(node.func) is None
            and not meaning.is_builtin(node.func)
        ):
            raise UnsaidError
        if any(isinstance(each, ast.Starred) for each in node.args) or any(each.arg is None for each in node.keywords):
            raise UnsaidError
        function = self.written(node.func, meaning, matches=matches)
        values = [self.written(each, meaning, matches=matches) for each in node.args]
        keywords = [ast.keyword(each.arg, self.written(each.value, meaning, matches=matches)) for each in node.keywords]
        return ast.Call(function, values, keywords)

    def _name(self, dump: str) -> str:
        if dump not in self._names and len(self._names) == len(_VARIABLES):
            raise UnsaidError
        return self._names.setdefault(dump, _VARIABLES[len(self._names)] if dump not in self._names else "")

    def types(self, pattern: ast.expr, replacement: ast.expr) -> dict[str, str]:
        """Return the types of metavariables: names and literals where they are written twice, the class of an object
        whose member is the first thing that the pattern has. Raises UnsaidError: the pattern would match code of any
        library, or run code twice."""
        found = {}
        times = Counter(each.id for each in ast.walk(replacement) if isinstance(each, ast.Name))
        is_named = any(isinstance(each, ast.Name) and "." in each.id for each in ast.walk(pattern))
        owner = pattern.func if isinstance(pattern, ast.Call) else pattern
        root = owner.value if isinstance(owner, ast.Attribute) else None
        for dump, name in self._names.items():
            part = self._shared[dump]
            if times[_MARK + name] > 1:
                if not isinstance(part, (ast.Name, ast.Constant)):
                    raise UnsaidError
                found[name] = "name" if isinstance(part, ast.Name) else "literal"
            elif isinstance(root, ast.Name) and root.id == _MARK + name:
                cls = self._meaning.class_of(part)
                if cls is not None:
                    found[name], is_named = cls, True
        if not is_named:
            raise UnsaidError
        return found
