"""Rules for calls of functions, whose new code may come from a function of a rule pack: from LibCST's node of a call to
the node in its place."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from gpu2npu.engine.file_rules import FileRules, Handlers
from gpu2npu.engine.rewriting.arguments import Argument, Callees
from gpu2npu.engine.rewriting.filling import in_f_strings, is_loose, is_operand_template
from gpu2npu.kinds.method import MethodMatch
from gpu2npu.kinds.name import NameMatch
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.meaning.types import ValueTypes
from gpu2npu.python.text.concrete import has_comment
from gpu2npu.python.text.templates import Piece, fill, generated, parenthesized, parsed, plain
from gpu2npu.python.text.tokens import name_bounds
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import argument_keyword, argument_value, arguments, is_unpacked, last_name
from gpu2npu.records import Edit, Text
from gpu2npu.rulebook.match import IDENTIFIER, Json, Match, ReferenceMatch, callee_text, leaf, may_be_one
from gpu2npu.rulebook.rule import Rule
from gpu2npu.rulebook.template import ARGS, RECEIVER, TemplateError, check_template, parse_template

if TYPE_CHECKING:
    import libcst as cst

    from gpu2npu.engine.line_sites import Site


class CallMatch(ReferenceMatch, frozen=True):
    """A call of a function; `"*.load"` is any function or method of that name, `"arguments": 2` requires this
    number, `"without": "device"` for a call that leaves this one to its default, with its `"position": 1` where
    those before it may be given by position."""

    call: str
    arguments: int | None = None
    without: str | None = None
    position: int = 0

    key = "call"
    shape: ClassVar[Json] = {
        "call": {"description": "A function that is called.", "$ref": "#/$defs/callee"},
        "arguments": {"description": "Only with so many arguments.", "type": "integer", "minimum": 0},
        "without": {"description": "Only where this keyword is left to its default.", "$ref": "#/$defs/identifier"},
        "position": {"description": "The position of that keyword, from 0.", "type": "integer", "minimum": 0},
    }
    actions = ("rename", "replace", "codemod", "imports")
    new_name = (IDENTIFIER, "an identifier")
    order = 3
    starter: ClassVar[Json] = {
        "$comment": "A call as a whole: {0} and {name} in replace are its arguments, {args} all of them.",
        "why": "On the NPU the communicator is made by another function, which takes the rank first.",
        "match": {"call": "fastlib.init_nccl"},
        "then": {"replace": "fastlib.init_hccl({rank}, {0})"},
        "examples": [
            {
                "before": "import fastlib\nfastlib.init_nccl(size, rank=3)\n",
                "after": "import fastlib\nfastlib.init_hccl(3, size)\n",
            }
        ],
    }

    @property
    def text(self) -> str:
        number = f" with {self.arguments} arguments" if self.arguments is not None else ""
        number += f" without `{self.without}=`" if self.without is not None else ""
        return f"calls of {callee_text(self.call)}{number}"

    @property
    def subject(self) -> str:
        return f"{self.call}()"

    def meets(self, other: Match) -> bool:
        if not isinstance(other, CallMatch) or not may_be_one(self.call, other.call):
            return False
        return self.arguments is None or other.arguments is None or self.arguments == other.arguments

    def before(self, other: Match) -> str | None:
        if isinstance(other, NameMatch) and may_be_one(self.call, other.name):
            return "rules for calls come before rules for names"
        if isinstance(other, MethodMatch) and other.method == leaf(self.call):
            return "rules for calls come before rules for methods"
        return None

    @classmethod
    def problems(cls, entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        if "replace" in entry["then"]:
            try:
                check_template(entry["then"]["replace"])
            except TemplateError as error:
                yield "then.replace", str(error)

    def why_not(self, site: Site, names: Names) -> str | None:
        return super().why_not(site, names) if site.call is not None else f"`{site.shown}` is not called here"

    @classmethod
    def handlers(cls, work: FileRules) -> Handlers:
        return {ast.Call: Calls(work).call}


class Calls(Callees):
    """Applies rules for calls in one file."""

    def call(self, node: ast.Call, scope: Scope) -> bool:
        """Apply the first rule for the call itself; gives whether the callee's own name is handled by that."""
        is_handled = self._apply_first(node, scope)
        if is_handled:
            self.work.called.add(node.func)
        return is_handled

    def _apply_first(self, node: ast.Call, scope: Scope) -> bool:
        for rule in (rule for name in self.callees(node, scope) for rule in self.table.calls.get(name, ())):
            assert isinstance(rule.match, CallMatch)
            given = arguments(node)
            if rule.match.arguments not in (None, len(given)) or _may_give(given, rule.match):
                continue
            if self.is_call_of(node, rule.match.call, scope):
                return self.apply(rule, node, scope)
        return False

    def apply(self, rule: Rule, node: ast.Call, scope: Scope) -> bool:
        """Apply a rule to a call that it matches; gives whether the callee's own name is handled."""
        then = rule.then
        if then.keep:
            return True
        api = self.names.qualified(node.func, scope) or last_name(node.func) or ""
        assert isinstance(rule.match, CallMatch)
        # An edit anywhere in the call may give what it is without.
        place = node.func if rule.match.without is None else node
        self.matches.note(rule, self.file.bounds(place), api)
        if then.replace is not None:
            return self._replace(rule, then.replace, node, api, scope)
        if then.codemod is not None:
            return self._transform(rule, then.codemod, node, api, scope)
        return then.rename is not None and self._rename(rule, then.rename, node, api, scope)

    def _replace(self, rule: Rule, template: str, node: ast.Call, api: str, scope: Scope) -> bool:
        code = fill(self.file, parse_template(template), partial(_part_of_call, node=node))
        if code is not None and has_comment(self.file, node):  # which the replacement would lose
            code = None
        if code is not None and not (is_operand_template(template) or is_loose(self.file, node)):
            code = parenthesized(code)
        return self._put(rule, code, node, api, scope)

    def _put(self, rule: Rule, code: Text | None, node: ast.Call, api: str, scope: Scope) -> bool:
        """Put code in the place of a call, or report that there is none or that it does not fit."""
        needs: tuple[str, ...] = ()
        place, fitting = self.file.bounds(node), None
        if code is not None:
            code, needs = self.spelled(code, rule, node, scope)
            fitting = in_f_strings(self.file, node, code)
        if fitting is None:
            self.misfit(rule, place, api)
            return False
        self.matches.edit(Edit(place, parsed(fitting), rule.id, rule.why, needs=needs))
        return True

    def _transform(self, rule: Rule, function: str, node: ast.Call, api: str, scope: Scope) -> bool:
        """Put what a function of a rule pack gives in the place of a call, or report that it cannot."""
        try:
            code = transformed(function, node, self.names, scope, self.work.context.version)
        except TransformError as error:
            message = f"{rule.why} {error}. Change it by hand."
            self.matches.review(rule, self.file.bounds(node), api, message)
            return False
        return code is not None and self._put(rule, code, node, api, scope)

    def _rename(self, rule: Rule, name: str, node: ast.Call, api: str, scope: Scope) -> bool:
        assert isinstance(rule.match, CallMatch)
        if last_name(node.func) != rule.match.call.rpartition(".")[2]:  # the file's own name for it
            return False
        place = name_bounds(self.file, node.func)
        if isinstance(node.func, ast.Name) and scope.lookup(node.func.id) is not None:
            message = f"{rule.why} This name is bound in the file: rename it there and here, to {name}."
            self.matches.review(rule, place, api, message)
            return False
        self.matches.edit(Edit(place, plain(name), rule.id, rule.why))
        return True


def _may_give(given: Sequence[Argument], match: CallMatch) -> bool:
    """Return whether a call gives the argument that `match` is without, or may: by position, or in a star."""
    return match.without is not None and any(
        argument_keyword(each) == match.without
        or is_unpacked(each)
        or (argument_keyword(each) is None and at >= match.position)
        for at, each in enumerate(given)
    )


def _part_of_call(piece: Piece, node: ast.Call) -> ast.expr | list[Argument] | None:
    """The code of a call that takes the place of a placeholder; None when the call has no such thing."""
    if piece.field == ARGS:
        return arguments(node)
    if piece.field == RECEIVER:
        return node.func.value if isinstance(node.func, ast.Attribute) else None
    if isinstance(piece.field, int):
        before = arguments(node)[: piece.field + 1]  # behind a star no one can count
        plain = len(before) > piece.field and not any(isinstance(each, (ast.Starred, ast.keyword)) for each in before)
        return argument_value(before[-1]) if plain else None
    return next((each.value for each in node.keywords if each.arg == piece.field), None)


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
    None where it leaves the call as it is. Raises TransformError: see there."""
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
