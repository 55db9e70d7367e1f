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
_DEFAULT = cst.MaybeSentinel.DEFAULT


class NotCodeError(ValueError):
    """New code is not what its place takes."""


# New code.


def module(code: str) -> cst.Module:
    """Parse a module. Raises NotCodeError: LibCST does not parse it."""
    try:
        return cst.parse_module(code)
    except (cst.ParserSyntaxError, RecursionError) as error:
        raise NotCodeError("LibCST does not parse it") from error


_new = lru_cache(maxsize=256)(module)


def lines(*texts: str) -> str:
    """New lines, which are statements of one block."""
    for text in texts:
        statements(text)
    return "".join(texts)


def statements(code: str) -> Sequence[Any]:
    """Parse lines of one block, which may be indented."""
    is_indented = code.lstrip("\r\n")[:1] in (" ", "\t")
    found = _new(f"if 0:\n{code}" if is_indented else code).body
    return found[0].body.body if is_indented else found  # type: ignore


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
    """Parse the arguments of a call. Raises NotCodeError: they are none."""
    call = expression(f"f({code})", indent)
    if not isinstance(call, cst.Call):
        raise NotCodeError(f"no arguments: {code}")
    return call.args


def elements(kind: type, code: str, indent: str = "") -> Sequence[Any]:
    """Parse elements of a list: arguments, parameters, imported names, small statements. Raises NotCodeError: they are
    none."""
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


def code_of(node: Any, level: int, module: cst.Module, indent: str) -> str:
    """The code of an expression, argument or small statement of a block, without its outer parentheses."""
    if isinstance(node, cst.BaseExpression):
        node = _inside(node, level)
    elif isinstance(node, cst.ClassDef):  # its name and bases
        empty = cst.SimpleStatementSuite([cst.Pass()])
        head = cst.ClassDef(node.name, empty, node.bases, node.keywords, lpar=node.lpar, rpar=node.rpar)
        return module.code_for_node(head).strip().removeprefix("class ").removesuffix(": pass")
    elif hasattr(node, "semicolon"):
        node = node.with_changes(semicolon=_DEFAULT)
    elif hasattr(node, "comma"):
        node = node.with_changes(comma=_DEFAULT)
    code = module.code_for_node(node)
    if not indent or not _NEWLINE.search(code):
        return code
    # Where its lines begin depends on the block that it is in.
    call = cst.Call(cst.Name("f"), [node]) if isinstance(node, cst.Arg) else node
    statement = cst.Expr(call) if isinstance(call, cst.BaseExpression) else call
    line: Any = statement if isinstance(node, cst.BaseCompoundStatement) else cst.SimpleStatementLine([statement])
    body = cst.IndentedBlock([line], indent=indent)
    whole = module.with_changes(header=[], body=[cst.If(cst.Name("x"), body)], footer=[]).code
    start = whole.index(indent) + len(indent)
    text = whole[start:].removesuffix(module.default_newline)
    return text[2:-1] if isinstance(node, cst.Arg) else text


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


def without(gone: Set[Any]) -> Change:
    """A call, a class with bases, a tuple, an import or a `with` without some of what it lists. Their commas go with
    them, and comments beside them stay; a class that lists nothing more has no brackets."""

    def change(old: Any) -> Any:
        row, (opening, closing) = listed(old), _brackets(old)
        left: list[Any] = []
        index = 0
        while index < len(row):
            index, first = index + 1, index
            if row[first] not in gone:
                left.append(row[first])
                continue
            while index < len(row) and row[index] in gone:
                index += 1
            is_last = index == len(row)
            before = left[-1].comma.whitespace_after if left else opening
            behind = [space for each in row[first:index] for space in _spaces_behind(each)]
            behind += [closing] if is_last else []
            comments = [line for space in behind for line in _comments(space)]
            if not comments and not (is_last and _comments(before)):
                if is_last:
                    opening, closing = (opening, closing) if left else (_NOTHING, _NOTHING)
                    left[-1:] = [each.with_changes(comma=row[-1].comma) for each in left[-1:]]
                continue
            space = _joined(before, behind)
            closing = _NOTHING if is_last else closing
            if not left:
                opening = space
            elif not is_last or isinstance(before, cst.ParenthesizedWhitespace) or row[-1].comma is not _DEFAULT:
                comma = left[-1].comma if isinstance(before, cst.ParenthesizedWhitespace) else cst.Comma()
                left[-1] = left[-1].with_changes(comma=comma.with_changes(whitespace_after=space))
            else:
                left[-1], closing = left[-1].with_changes(comma=_DEFAULT), space
        return _listing(old, left, opening, closing)

    return change


def listed(old: Any) -> Sequence[Any]:
    """The elements of a call, a class, a tuple, an import or a `with`; none for the star of an import."""
    if isinstance(old, (cst.ClassDef, cst.Tuple)):
        return old.elements if isinstance(old, cst.Tuple) else [*old.bases, *old.keywords]
    found = old.args if isinstance(old, cst.Call) else old.items if isinstance(old, cst.With) else old.names
    return () if isinstance(found, cst.ImportStar) else found


def _brackets(old: Any) -> tuple[Any, Any]:
    """The white space behind the opening bracket and before the closing one."""
    if isinstance(old, cst.Call):
        return old.whitespace_before_args, old.args[-1].whitespace_after_arg
    if isinstance(old, cst.Tuple) and old.lpar:
        return old.lpar[-1].whitespace_after, old.rpar[0].whitespace_before
    if not isinstance(getattr(old, "lpar", None), cst.LeftParen):
        return _NOTHING, _NOTHING
    return old.lpar.whitespace_after, old.rpar.whitespace_before


def _listing(old: Any, row: Sequence[Any], opening: Any, closing: Any) -> Any:
    """A node that lists other elements, with white space at its brackets."""
    if isinstance(old, cst.Call):
        row = [*row[:-1], *(each.with_changes(whitespace_after_arg=closing) for each in row[-1:])]
        return old.with_changes(args=row, whitespace_before_args=opening)
    if isinstance(old, cst.Tuple):
        lpar = [*old.lpar[:-1], *(each.with_changes(whitespace_after=opening) for each in old.lpar[-1:])]
        rpar = [*(each.with_changes(whitespace_before=closing) for each in old.rpar[:1]), *old.rpar[1:]]
        return old.with_changes(elements=row, lpar=lpar, rpar=rpar)
    if isinstance(old, cst.ClassDef):
        bases = [each for each in row if any(each.value is base.value for base in old.bases)]
        new = old.with_changes(bases=bases, keywords=row[len(bases) :])
        if not row and not _comments(opening):
            return new.with_changes(lpar=_DEFAULT, rpar=_DEFAULT)
    else:
        new = old.with_changes(**{"items" if isinstance(old, cst.With) else "names": row})
    if not isinstance(getattr(new, "lpar", None), cst.LeftParen):
        return new
    lpar, rpar = old.lpar.with_changes(whitespace_after=opening), old.rpar.with_changes(whitespace_before=closing)
    return new.with_changes(lpar=lpar, rpar=rpar)


def _spaces_behind(element: Any) -> list[Any]:
    """The white space beside the comma of an element."""
    comma = element.comma
    return [comma.whitespace_before, comma.whitespace_after] if isinstance(comma, cst.Comma) else []


def _comments(space: Any) -> list[cst.EmptyLine]:
    """The comments in white space, as lines of their own."""
    if not isinstance(space, cst.ParenthesizedWhitespace):
        return []
    first = space.first_line.comment
    above = [cst.EmptyLine(indent=space.indent, whitespace=space.last_line, comment=first)] if first else []
    return [*above, *(line for line in space.empty_lines if line.comment)]


def _joined(before: Any, behind: Sequence[Any]) -> Any:
    """White space with the comments of further one, which ends as the last of that does."""
    spaces = [each for each in (before, *behind) if isinstance(each, cst.ParenthesizedWhitespace)]
    first, *others = spaces
    lines = [line for space in others for line in _comments(space)]
    lines = [line.with_changes(indent=first.indent, whitespace=first.last_line) for line in lines]
    last = spaces[-1]
    return first.with_changes(empty_lines=[*first.empty_lines, *lines], indent=last.indent, last_line=last.last_line)


def without_decorators(gone: Set[Any]) -> Change:
    """A definition without some of its decorators; the lines above each stay."""

    def change(old: Any) -> Any:
        left: list[cst.Decorator] = []
        above: list[cst.EmptyLine] = []
        for each in old.decorators:
            above += each.leading_lines
            if each not in gone:
                left.append(each.with_changes(leading_lines=above))
                above = []
        return old.with_changes(decorators=left, lines_after_decorators=[*above, *old.lines_after_decorators])

    return change


def instead(kind: type, code: str, indent: str) -> Change:
    """Other elements in the place of one."""
    new = elements(kind, code, indent)
    return lambda old: cst.FlattenSentinel([*new[:-1], new[-1].with_changes(**_ending(old))])


def more_elements(kind: type, code: str, is_behind: bool) -> Change:
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
    if first.keyword is not None:  # the code is not behind a value
        raise NotCodeError(f"no arguments: {code}")

    def change(old: cst.Arg) -> Any:
        value = first.value.visit(_Filling([old.value]))
        row = [first.with_changes(value=value, star=old.star, keyword=old.keyword, equal=old.equal), *others]
        return cst.FlattenSentinel([*row[:-1], row[-1].with_changes(**_ending(old))])

    return change


def named(keyword: str | None) -> Change:
    """An argument with a keyword, or without one."""
    if keyword is None:
        return lambda old: old.with_changes(keyword=None, equal=_DEFAULT)
    equal = cst.AssignEqual(whitespace_before=_NOTHING, whitespace_after=_NOTHING)
    return lambda old: old.with_changes(keyword=cst.Name(keyword), equal=equal)


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
