"""The templates of `then.replace`: code with fields in braces, which the engine fills in.

`{0}` is a positional argument, `{name}` a keyword argument, `{args}` all arguments as they are written, `{receiver}`
what a method is called on, `{value}` the matched argument; `{{` and `}}` are braces of the code itself.
"""

from __future__ import annotations

import ast
import re
import warnings

from gpu2npu.python.text.templates import Piece

ARGS = "args"
RECEIVER = "receiver"
VALUE = "value"


class TemplateError(ValueError):
    """A template that cannot be used; the text is one sentence for the author of the rule."""


# Doubled braces before single ones; what is left over of the last two is a brace without its partner.
_TOKEN = re.compile(r"(?P<text>[^{}]+)|(?P<open>\{\{)|(?P<close>\}\})|\{(?P<field>[^{}]*)\}|(?P<stray>[{}])")
_POSITION = re.compile(r"0|[1-9][0-9]{0,2}")


def parse_template(text: str) -> tuple[Piece, ...]:
    """The pieces of a template, neighbouring text joined. Raises TemplateError: a brace has no partner, or a field is
    neither a number nor a name."""
    pieces: list[Piece] = []
    for token in _TOKEN.finditer(text):
        if token["stray"]:
            raise TemplateError(
                f"the brace {token['stray']!r} at character {token.start() + 1} has no partner; "
                f"write {token['stray'] * 2!r} for a brace of the code"
            )
        if token["field"] is not None:
            pieces.append(Piece(field=_field(token["field"], token.start() + 1)))
            continue
        plain = token["text"] or token[0][0]
        if pieces and pieces[-1].text is not None:
            plain = (pieces.pop().text or "") + plain
        pieces.append(Piece(text=plain))
    return tuple(pieces)


def _field(name: str, at: int) -> str | int:
    if _POSITION.fullmatch(name):
        return int(name)
    if name.isidentifier():
        return name
    raise TemplateError(
        f"the field {'{' + name + '}'!r} at character {at} is neither a position, such as {{0}}, nor a name, such as "
        f"{{device}}; write {{{{ and }}}} for braces of the code"
    )


def check_template(text: str, *, argument: bool = False) -> tuple[Piece, ...]:
    """The pieces of a template that gives one expression, or one argument of a call where `argument` is true. Raises
    TemplateError: as `parse_template`, or the code is not valid Python when each field is a name."""
    pieces = parse_template(text)
    code = "".join(_MARK + str(piece.field) if piece.text is None else piece.text for piece in pieces)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # The comma refuses what only reads as one expression between added brackets: `x) + (y`. On its own line it
            # refuses what closes the bracket and leaves it to a comment: `x,)#`.
            opening = "f(" if argument else "("
            ast.parse(f"{opening}{code}\n,)", mode="eval")
            tree = ast.parse(f"{opening}{code},)", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error) or "nested too deeply"
        raise TemplateError(f"{_shown(text)} is not Python when its fields are filled in ({reason})") from error
    if argument:
        one = isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and len(tree.args + tree.keywords) == 1
    else:
        one = isinstance(tree, ast.Tuple) and len(tree.elts) == 1 and not isinstance(tree.elts[0], ast.Starred)
    if not one:
        raise TemplateError(f"{_shown(text)} is not one {'argument' if argument else 'expression'}")
    _check_places(tree, sum(piece.text is None for piece in pieces))
    return pieces


_MARK = "_gpu2npu_field_"


def _check_places(tree: ast.AST, fields: int) -> None:
    """Fields are expressions: one within a string, or as the name of an attribute, would not be filled in as meant."""
    nodes = list(ast.walk(tree))
    found = sum(isinstance(node, ast.Name) and node.id.startswith(_MARK) for node in nodes)
    if found != fields:
        raise TemplateError("a field is within a string or a name; a field is a whole expression of the code")
    lists = [*(node.args for node in nodes if isinstance(node, ast.Call))]
    lists += [node.elts for node in nodes if isinstance(node, (ast.List, ast.Set))]
    inside = {id(item) for items in lists for item in items}
    for node in nodes:
        if isinstance(node, ast.Name) and node.id == _MARK + ARGS and id(node) not in inside:
            raise TemplateError(
                "the field {args} stands for several arguments and belongs between the brackets of a call"
            )


def _shown(text: str) -> str:
    limit = 80
    return repr(text if len(text) <= limit else text[:limit] + "...")
