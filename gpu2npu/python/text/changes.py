"""Changes of code as functions from nodes of LibCST to nodes, and the templates that new code is made of."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from functools import lru_cache
from typing import Any

import libcst as cst

from gpu2npu.records import Bounds

# From a node to what is in its place: a node, several, or none.
Change = Callable[[Any], Any]
_PART = re.compile(r"_gpu2npu_(\d+)_")
_NEWLINE = re.compile(r"[\r\n]")
_SPACE = cst.SimpleWhitespace(" ")
_EMPTY = cst.Module([])
_NOTHING = cst.SimpleWhitespace("")


class NotCodeError(ValueError):
    """New code is not what its place takes."""


# New code.


def module(code: str) -> cst.Module:
    """Parse a module.

    Raises:
        NotCodeError: LibCST does not parse it.
    """
    try:
        return cst.parse_module(code)
    except (cst.ParserSyntaxError, RecursionError) as error:
        raise NotCodeError("LibCST does not parse it") from error


_new = lru_cache(maxsize=256)(module)


def lines(*texts: str) -> str:
    """New lines, which are statements of one block."""
    code = []
    for text in texts:
        indented = text.lstrip("\r\n")[:1] in (" ", "\t")
        head = "if 0:\n" if indented else ""
        if _new(head + text).code != head + text:  # a last line that ends with \\r
            raise NotCodeError("LibCST writes it otherwise")
        code.append(text)
    return "".join(code)


def template(pieces: Sequence[str | Bounds]) -> tuple[str, list[Bounds]]:
    """The code of an expression with names in the place of its parts, and these."""
    parts = [piece for piece in pieces if not isinstance(piece, str)]
    numbers = iter(range(len(parts)))
    return "".join(each if isinstance(each, str) else f"_gpu2npu_{next(numbers)}_" for each in pieces), parts


@lru_cache(maxsize=1024)
def expression(code: str, indent: str = "") -> Any:
    """Parse an expression that is written where lines are indented so far; None where it is none."""
    try:
        if not _NEWLINE.search(code):
            return cst.parse_expression(code)
        whole = cst.parse_module(f"if 0:\n{indent}({code}\n)\n" if indent else f"({code}\n)\n").body[0]
    except (cst.ParserSyntaxError, RecursionError):
        return None
    line = whole.body.body[0] if isinstance(whole, cst.If) else whole
    statement = line.body[0] if isinstance(line, cst.SimpleStatementLine) else line
    if not isinstance(statement, cst.Expr):
        return None
    value: Any = statement.value
    return value.with_changes(lpar=value.lpar[1:], rpar=value.rpar[:-1])


def arguments(code: str, indent: str = "") -> Sequence[cst.Arg]:
    """Parse the arguments of a call.

    Raises:
        NotCodeError: They are none.
    """
    call = expression(f"f({code})", indent)
    if not isinstance(call, cst.Call):
        raise NotCodeError(f"no arguments: {code}")
    return call.args


def elements(kind: type, code: str, indent: str = "") -> Sequence[Any]:
    """Parse elements of a list: arguments, parameters, imported names, small statements.

    Raises:
        NotCodeError: They are none.
    """
    if issubclass(kind, cst.Arg):
        return arguments(code, indent)
    if issubclass(kind, cst.ImportAlias):
        return _new(f"import {code}").body[0].body[0].names  # type: ignore
    if issubclass(kind, cst.Param):
        return _new(f"def f({code}): pass").body[0].params.params  # type: ignore
    found = _new(code).body
    if len(found) != 1 or not isinstance(found[0], cst.SimpleStatementLine):
        raise NotCodeError("several lines in the place of one")
    return found[0].body


class _Parts(cst.CSTTransformer):
    """Puts names in the place of the nodes that have a place in the file."""

    def __init__(self, bounds: Mapping[cst.CSTNode, Bounds]) -> None:
        super().__init__()
        self.bounds = bounds
        self.found: list[Bounds] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        return node not in self.bounds

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        if original_node not in self.bounds:
            return updated_node
        self.found.append(self.bounds[original_node])
        return cst.Name(f"_gpu2npu_{len(self.found) - 1}_")


def parts_of(new: Any, bounds: Mapping[cst.CSTNode, Bounds]) -> tuple[str | Bounds, ...] | None:
    """The code of an expression, with the places of nodes of the file that it has; None for any other node."""
    if not isinstance(new, cst.BaseExpression):
        return None
    parts = _Parts(bounds)
    code = _EMPTY.code_for_node(new.visit(parts))  # type: ignore[arg-type]
    texts = _PART.split(code)  # text and number by turns
    pieces = [parts.found[int(text)] if index % 2 else text for index, text in enumerate(texts)]
    return tuple(piece for piece in pieces if piece != "")


class _Filling(cst.CSTTransformer):
    def __init__(self, parts: Sequence[Any]) -> None:
        super().__init__()
        self.parts = parts

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        found = _PART.fullmatch(original_node.value) if isinstance(original_node, cst.Name) else None
        if found is None:
            return updated_node
        part = self.parts[int(found[1])]
        return part.with_changes(lpar=[*updated_node.lpar, *part.lpar], rpar=[*part.rpar, *updated_node.rpar])


# Changes.


def replaced(old: Any, level: int, new: Any, parts: Sequence[tuple[Any, int]] = ()) -> Any:
    """A new expression in the outer parentheses of the old one, `level` in number, filled with parts without theirs."""
    if parts:
        new = new.visit(_Filling([_inside(part, outer) for part, outer in parts]))
    return new.with_changes(lpar=[*old.lpar[:level], *new.lpar], rpar=[*new.rpar, *old.rpar[len(old.rpar) - level :]])


def _inside(node: Any, level: int) -> Any:
    """An expression without its outer parentheses, `level` in number."""
    return node.with_changes(lpar=node.lpar[level:], rpar=node.rpar[: len(node.rpar) - level]) if level else node


def reworded(start: int, end: int, text: str) -> Change:
    """Another text between two offsets in a string; its prefix and quotes stay where they are outside of them."""
    return lambda old: old.with_changes(value=old.value[:start] + text + old.value[end:])


def owner(old: cst.Attribute) -> Any:
    """`x` of `x.y`."""
    return old.value


def removed(old: Any) -> Any:
    """Nothing in the place of an element or a small statement."""
    return cst.RemoveFromParent()


def followed_by(gap: str, is_last: bool, indent: str) -> Change:
    """An argument with another comma and white space behind it, up to the next or to the bracket."""
    found = arguments(f"a{gap}{'' if is_last else 'b'}", indent)[0]
    return lambda old: old.with_changes(comma=found.comma, whitespace_after_arg=found.whitespace_after_arg)


def opened_by(gap: str, is_empty: bool, indent: str) -> Change:
    """A call, or a class with bases, with other white space behind its opening bracket; a class without bases has no
    brackets."""
    found = expression(f"f({gap}{'' if is_empty else 'b'})", indent)
    if not isinstance(found, cst.Call):
        raise NotCodeError(f"no white space: {gap}")
    space = found.whitespace_before_args

    def change(old: Any) -> Any:
        if isinstance(old, cst.Call):
            return old.with_changes(whitespace_before_args=space)
        if not old.bases and not old.keywords:
            return old.with_changes(lpar=cst.MaybeSentinel.DEFAULT, rpar=cst.MaybeSentinel.DEFAULT)
        return old.with_changes(lpar=old.lpar.with_changes(whitespace_after=space))

    return change


def without(name: str, gone: Set[int]) -> Change:
    """A node without some elements of a list, by their index; the last one ends as the last one did."""

    def change(old: Any) -> Any:
        row = getattr(old, name)
        left = [each for index, each in enumerate(row) if index not in gone]
        if left and len(row) - 1 in gone:
            left[-1] = left[-1].with_changes(comma=row[-1].comma)
        return old.with_changes(**{name: left})

    return change


def without_decorators(gone: Set[int]) -> Change:
    """A definition without some of its decorators, by their index; the lines above each stay."""

    def change(old: Any) -> Any:
        left: list[cst.Decorator] = []
        above: list[cst.EmptyLine] = []
        for index, each in enumerate(old.decorators):
            above += each.leading_lines
            if index not in gone:
                left.append(each.with_changes(leading_lines=above))
                above = []
        return old.with_changes(decorators=left, lines_after_decorators=[*above, *old.lines_after_decorators])

    return change


def instead(kind: type, code: str, indent: str) -> Change:
    """Other elements in the place of one."""
    new = elements(kind, code, indent)
    return lambda old: cst.FlattenSentinel([*new[:-1], new[-1].with_changes(**_ending(old))])


def lines_instead(code: str, indent: str) -> Change:
    """Lines of statements in the place of a line with one."""
    found = _new(f"if 0:\n{indent}{code}" if indent else code).body
    new = found[0].body.body if indent and isinstance(found[0], cst.If) else found

    def change(old: cst.SimpleStatementLine) -> Any:
        if len(old.body) != 1:
            raise NotCodeError("several lines in the place of a part of one")
        row = [new[0].with_changes(leading_lines=old.leading_lines), *new[1:]]
        return cst.FlattenSentinel([*row[:-1], row[-1].with_changes(trailing_whitespace=old.trailing_whitespace)])

    return change


def beside(kind: type, code: str, is_behind: bool) -> Change:
    """Further elements behind one or before it; their code has the comma or semicolon between."""
    mark = ";" if issubclass(kind, cst.BaseSmallStatement) else ","
    text = code.strip()
    if not (text.startswith(mark) if is_behind else text.endswith(mark)):
        raise NotCodeError(f"no {mark} in {code}")
    new = elements(kind, text.strip(f"{mark} "))

    def change(old: Any) -> Any:
        first, last = ([old], new) if is_behind else (new, [old])
        row = [*first[:-1], first[-1].with_changes(**_between(old)), *last]
        return cst.FlattenSentinel([*row[:-1], row[-1].with_changes(**_ending(old))])

    return change


def argument_behind(code: str, indent: str) -> Change:
    """An argument with code behind its value, or with further arguments behind it."""
    first, *others = arguments(f"_gpu2npu_0_{code}", indent)

    def change(old: cst.Arg) -> Any:
        value = first.value.visit(_Filling([old.value]))
        row = [first.with_changes(value=value, star=old.star, keyword=old.keyword, equal=old.equal), *others]
        return cst.FlattenSentinel([*row[:-1], row[-1].with_changes(**_ending(old))])

    return change


def renamed_alias(code: str) -> Change:
    """Another name in an import, which may have an `as`, or names before it."""
    new = elements(cst.ImportAlias, code)

    def change(old: cst.ImportAlias) -> Any:
        last = new[-1].with_changes(comma=old.comma, asname=old.asname or new[-1].asname)
        return cst.FlattenSentinel([*new[:-1], last])

    return change


def decorated(code: str) -> Change:
    """A definition with further decorators above its own."""
    found = _new(f"{code.rstrip()}\ndef f(): pass").body[0]
    assert isinstance(found, cst.FunctionDef)
    new = found.decorators
    return lambda old: old.with_changes(decorators=[*new, *old.decorators])


def _ending(old: Any) -> dict[str, Any]:
    """The comma or semicolon, and the white space, behind an element of a list."""
    names = ("comma", "semicolon", "whitespace_after_arg", "whitespace_after_param")
    return {name: getattr(old, name) for name in names if hasattr(old, name)}


def _between(old: Any) -> dict[str, Any]:
    """The comma or semicolon, and the white space, behind an element that another one follows."""
    found: dict[str, Any] = {name: _NOTHING for name in _ending(old) if name.startswith("whitespace")}
    if isinstance(old, cst.BaseSmallStatement):
        return {**found, "semicolon": cst.Semicolon(whitespace_after=_SPACE)}
    return {**found, "comma": cst.Comma(whitespace_after=_SPACE)}


# Blocks.


def in_fragment(whole: cst.Module, indent: str | None, change: Change) -> cst.Module:
    """A module whose statements, or those of its only block, are changed together."""
    if not indent:
        return whole.with_changes(body=change(whole.body))
    outer = whole.body[0]
    assert isinstance(outer, cst.If)
    return whole.with_changes(body=[outer.with_changes(body=outer.body.with_changes(body=change(outer.body.body)))])


def enclosed(head: str, outer: str) -> Change:
    """The head of a compound statement around statements; its code ends with the indentation of its block."""
    code, _, inner = head.rpartition("\n")
    compound = _new(f"{code.rstrip()}\n pass").body[0]

    def change(old: Sequence[Any]) -> Sequence[Any]:
        first, *others = old
        body = [first.with_changes(leading_lines=[]), *others]
        block = cst.IndentedBlock(body, indent=inner[len(outer) :])
        return [compound.with_changes(leading_lines=first.leading_lines, body=block)]

    return change


def unwrapped(old: Any) -> Any:
    """The statements of a block in the place of the compound statement around them."""
    first, *others = old.body.body
    above = [*old.leading_lines, *first.leading_lines]
    return cst.FlattenSentinel([first.with_changes(leading_lines=above), *others])


def lines_before(code: str) -> Change:
    """A statement with further lines above it, and below its comments."""
    new = _statements(code)

    def change(old: Any) -> Any:
        first, *others = new
        first = first.with_changes(leading_lines=[*old.leading_lines, *first.leading_lines])
        return cst.FlattenSentinel([first, *others, old.with_changes(leading_lines=[])])

    return change


def lines_behind(code: str) -> Change:
    """A statement with further lines below it."""
    new = _statements(code)
    return lambda old: cst.FlattenSentinel([old, *new])


def _statements(code: str) -> Sequence[Any]:
    found = _new(f"if 0:\n{code}" if code.lstrip("\r\n")[:1] in (" ", "\t") else code).body
    return found[0].body.body if isinstance(found[0], cst.If) and code[:1] in (" ", "\t") else found
