"""Rules whose new code comes from a function of a rule pack: from LibCST's node of a call to the node in its place."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpu2npu.engine.rewriting.filling import is_loose
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.meaning.types import ValueTypes
from gpu2npu.python.text.templates import generated, parenthesized
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.records import Text

if TYPE_CHECKING:
    import libcst as cst


class TransformError(ValueError):
    """A function of a rule pack cannot be loaded, fails, or gives what cannot be in the place of a call."""


@dataclass(frozen=True)
class TransformContext:
    """The answers that a function of a rule pack gets about the code. `release` is that of PyTorch, such as "2.7.1".

    Nodes are those of the call that the function is given; about new ones nothing is known.
    """

    release: str
    _names: Names
    _scope: Scope
    _nodes: Mapping[cst.CSTNode, ast.expr]

    def qualified(self, node: cst.CSTNode) -> str | None:
        """The qualified name that an expression means through the imports of the project, such as "torch.nn.Linear"."""
        found = self._nodes.get(node)
        return self._names.qualified(found, self._scope) if found is not None else None

    def types(self, node: cst.CSTNode) -> frozenset[str]:
        """The types that the value of an expression may have: "tensor", "unknown", "other", the qualified name of a
        class of a library, or the name of a class of the project."""
        found = self._nodes.get(node)
        types = ValueTypes(self._names).of(found, self._scope)
        return frozenset(each if isinstance(each, str) else getattr(each.cls.node, "name", "") for each in types)


def transformed(function: str, node: ast.Call, names: Names, scope: Scope, release: str) -> Text | None:
    """The code that a function, `module:name`, gives for a call: text, and parts of the call that stay as they are;
    None where it leaves the call as it is.

    Raises:
        TransformError: See there.
    """
    import libcst as cst

    from gpu2npu.python.text.changes import parts_of
    from gpu2npu.python.text.statements import Fragment, FragmentNodes

    file = names.file
    start, end = file.bounds(node)
    nodes = FragmentNodes(Fragment(start, end, "(", "\n)\n"), file.text)
    places = {file.bounds(each): each for each in ast.walk(node) if isinstance(each, ast.expr)}
    expressions = ((each, at) for each, at in nodes.bounds.items() if isinstance(each, cst.BaseExpression))
    known: dict[cst.CSTNode, ast.expr] = {each: places[at] for each, at in expressions if at in places}
    old, _ = nodes.expressions[start, end]
    old = old.with_changes(lpar=[], rpar=[])
    known[old] = node
    try:
        new = _loaded(function)(old, TransformContext(release, names, scope, known))
    except TransformError:
        raise
    except Exception as error:  # whatever the author's code raises
        raise TransformError(f"{function} fails: {type(error).__name__}: {error}") from error
    if new is None or new is old:
        return None
    pieces = parts_of(new, {each: nodes.outer(each) for each in known if each is not old})
    if pieces is None:
        raise TransformError(f"{function} gives no expression, but {type(new).__name__}")
    is_operand = isinstance(new, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) or bool(new.lpar)
    code = generated(pieces)
    return code if is_operand or is_loose(file, node) else parenthesized(code)


@lru_cache(maxsize=64)
def _loaded(function: str) -> Callable[..., Any]:
    module, _, name = function.partition(":")
    try:
        found: Callable[..., Any] = getattr(import_module(module), name)
    except Exception as error:  # whatever its module raises
        raise TransformError(f"{function} cannot be loaded: {type(error).__name__}: {error}") from error
    return found
