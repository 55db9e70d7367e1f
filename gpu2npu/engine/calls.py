"""Rules about calls and their arguments: templates filled with the code of the call, values, removals, findings."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial

import libcst as cst

from gpu2npu.engine.edits import Bound, Code, Edit
from gpu2npu.engine.imports import import_of
from gpu2npu.engine.matches import Found, Matches
from gpu2npu.engine.names import Names
from gpu2npu.engine.scopes import Scope
from gpu2npu.engine.table import RuleTable
from gpu2npu.engine.tree import children, last_name, string_value
from gpu2npu.records import FindingKind, Operation
from gpu2npu.rulebook.rule import ArgumentMatch, CallMatch, Rule
from gpu2npu.rulebook.template import Piece, parse_template

# Expressions that need no parentheses wherever they are put.
_ATOMS = (
    cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.SimpleString, cst.FormattedString, cst.Integer, cst.Float,
    cst.List, cst.Dict, cst.Set, cst.ListComp, cst.DictComp, cst.SetComp,
)  # fmt: skip
# What may give something else, or do something more, the second time.
_DEEDS = (cst.Call, cst.Await, cst.Yield, cst.NamedExpr)
_COMMA = re.compile(r"\s*,\s*")
# The name that a dotted one begins with.
_FIRST = r"(?<![\w.'\"]){}(?=\.[A-Za-z_])"
_ANY_FIRST = re.compile(_FIRST.format(r"[A-Za-z_]\w*"))
# What holds a whole expression, so that no operator beside it can take a part of it.
_LOOSE = (cst.Expr, cst.Assign, cst.AnnAssign, cst.Return, cst.Arg)


class Calls:
    """Applies call and argument rules in one module. `above` is the walk's list of nodes, the call last."""

    def __init__(self, names: Names, table: RuleTable, matches: Matches, above: list[cst.CSTNode]) -> None:
        self.names = names
        self.table = table
        self.matches = matches
        self.above = above

    def call(self, node: cst.Call, scope: Scope) -> bool:
        """Apply the first rule for the call itself; tells whether the callee's own name is settled by that."""
        if not isinstance(node.func, (cst.Name, cst.Attribute)):
            return False
        for rule in (rule for name in self._callees(node, scope) for rule in self.table.calls.get(name, ())):
            assert isinstance(rule.match, CallMatch)
            if rule.match.arguments not in (None, len(node.args)) or _may_give(node, rule.match.without):
                continue
            if self._is(node, rule.match.call, scope):
                return self.apply(rule, node, scope)
        return False

    def _callees(self, node: cst.Call, scope: Scope) -> tuple[str, ...]:
        """The names a callee goes by: as it is written, and its own where it was imported under another."""
        written = last_name(node.func) or ""
        qualified = self.names.qualified(node.func, scope) if isinstance(node.func, cst.Name) else None
        own = (qualified or written).rpartition(".")[2]
        return (written,) if own == written else (written, own)

    def _is(self, node: cst.Call, wanted: str, scope: Scope) -> bool:
        if wanted.startswith("*"):
            return True
        return self.names.qualified(node.func, scope) == wanted

    def apply(self, rule: Rule, node: cst.Call, scope: Scope) -> bool:
        then = rule.then
        if then.keep:
            return True
        api = self.names.qualified(node.func, scope) or last_name(node.func) or ""
        self.matches.note(rule, node.func, api, self.above)
        if then.replace is not None:
            code = _fill(parse_template(then.replace), lambda piece: _part_of_call(piece, node))
            if code is None or _has_comment(node):  # which the replacement would lose
                self._misfit(rule, node, api)
                return False
            if not (_is_atom(then.replace) or isinstance(self.above[-2], _LOOSE)):
                code = ("(", *code, ")")
            inside = [*node.args, *_chain(node.func)]
            code, needs = self._spelled(code, rule, node, scope)
            code = _in_f_strings(code, self.above)
            if code is None:
                self._misfit(rule, node, api)
                return False
            self.matches.add(Edit(node, code, rule.id, rule.why, needs=needs), [*self.above, *inside])
            return True
        if then.rename is not None:
            name = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
            assert isinstance(rule.match, CallMatch)
            if last_name(name) != rule.match.call.rpartition(".")[2]:  # the file's own name for it
                return False
            if isinstance(name, cst.Name) and scope.lookup(name.value) is not None:
                message = f"{rule.why} This name is bound in the file: rename it there and here, to {then.rename}."
                self.matches.add(Found(name, rule.id, FindingKind.REVIEW, api, message), self.above)
                return False
            self.matches.add(Edit(name, then.rename, rule.id, rule.why), self.above)
            return True
        return False

    def _spelled(
        self, code: tuple[Code, ...], rule: Rule, node: cst.Call, scope: Scope
    ) -> tuple[tuple[Code, ...], tuple[str, ...]]:
        """The code of a template with its packages as the call spells them, and those that nothing here spells."""
        assert isinstance(rule.match, (CallMatch, ArgumentMatch))
        known = {rule.match.of if isinstance(rule.match, ArgumentMatch) else rule.match.call, rule.then.imports or ""}
        packages = {name.partition(".")[0] for name in known}
        needs = []
        for package in sorted({root for piece in code if isinstance(piece, str) for root in _ANY_FIRST.findall(piece)}):
            if package not in packages or self.names.binds(package, scope):
                continue
            owners = [owner for owner in _chain(node.func) if self.names.qualified(owner.value, scope) == package]
            if owners:  # import torch as th
                local = cst.Module(()).code_for_node(owners[0].value)
                spelled = partial(re.sub, _FIRST.format(package), local)
                code = tuple(spelled(piece) if isinstance(piece, str) else piece for piece in code)
            else:
                needs.append(import_of(package, rule.then.imports))
        return code, tuple(needs)

    def arguments(self, node: cst.Call, scope: Scope) -> frozenset[int]:
        """Apply the rules for the arguments of the call; gives the ids of those of which nothing stays."""
        removed: dict[int, Rule] = {}
        settled: set[int] = set()
        for rule in self._argument_rules(node, scope):
            assert isinstance(rule.match, ArgumentMatch)
            index = _argument_index(node.args, rule.match)
            if index is None or index in removed or not self._accepts(rule.match, node, index, scope):
                continue
            if rule.then.remove and "torch_npu" in cst.Module(()).code_for_node(node.args[index]):
                continue  # given for the NPU
            if rule.then.remove:
                removed[index] = rule
                self._note(rule, node.args[index])
            if rule.then.remove or self.argument(rule, node, index, scope):
                settled.add(id(node.args[index]))
        for first, last in _runs(sorted(removed)):
            self._remove(removed[first], node, first, last)
        return frozenset(settled)

    def _argument_rules(self, node: cst.Call, scope: Scope) -> list[Rule]:
        rules = [rule for name in (*self._callees(node, scope), "*") for rule in self.table.arguments.get(name, ())]
        for arg in node.args:
            if arg.keyword is not None and arg.keyword.value in self.table.keywords:
                rules += self.table.keywords[arg.keyword.value]
        return rules

    def _accepts(self, match: ArgumentMatch, node: cst.Call, index: int, scope: Scope) -> bool:
        value = node.args[index].value
        if match.value is not None and string_value(value) != match.value:
            return False
        if match.unless and cst.Module(()).code_for_node(value) in match.unless:
            return False
        if match.unless_found is not None:
            code = cst.Module(()).code_for_node(node.args[index])
            if re.search(match.unless_found, code, re.IGNORECASE) is not None:
                return False
        return self._is(node, match.of, scope)

    def argument(self, rule: Rule, node: cst.Call, index: int, scope: Scope) -> bool:
        """Apply a rule to an argument of a call; tells whether all of its value is replaced."""
        then, arg = rule.then, node.args[index]
        if then.keep:
            return False
        shown = self._note(rule, arg)
        if then.replace is not None:
            pieces = [Piece(text="("), *parse_template(then.replace), Piece(text=")")]  # those of the call
            code = _fill(pieces, lambda piece: arg.value if piece.field == "value" else None)
            needs: tuple[str, ...] = ()
            if code is not None:
                code, needs = self._spelled(code[1:-1], rule, node, scope)
                code = _in_f_strings(code, self.above)
            if code is None:
                self._misfit(rule, arg, shown)
            else:
                place = arg if _has_keyword(then.replace) else arg.value
                edit = Edit(place, code, rule.id, rule.why, shown=arg, end=(arg.value, 1), needs=needs)
                self.matches.add(edit, [*self.above, arg])
                return arg.value not in code
        elif then.rename is not None and isinstance(arg.value, cst.SimpleString):
            opening = arg.value.prefix + arg.value.quote
            text = f"{opening}{then.rename}{arg.value.quote}"
            self.matches.add(Edit(arg.value, text, rule.id, rule.why, shown=arg), [*self.above, arg])
            return True
        return False

    def _note(self, rule: Rule, arg: cst.Arg) -> str:
        shown = arg.keyword.value if arg.keyword is not None else cst.Module(()).code_for_node(arg.value)
        self.matches.note(rule, arg, shown, [*self.above, arg])
        return shown

    def _remove(self, rule: Rule, node: cst.Call, first: int, last: int) -> None:
        """Take arguments out with the comma that goes with them: the one behind, or at the end the one before."""
        args = node.args
        start: Bound | None = None
        end: Bound = (args[last], 1)
        if last + 1 < len(args):
            end = (args[last + 1], 0)
        elif first:
            start, end = (args[first - 1].value, 1), (args[last].value, 1)
        edit = Edit(args[first], "", rule.id, rule.why, node, operation=Operation.DELETE, start=start, end=end)
        self.matches.add(edit, [*self.above, *args])

    def _misfit(self, rule: Rule, node: cst.CSTNode, api: str) -> None:
        message = f"{rule.why} The arguments of this call do not fit the rule's replacement: change it by hand."
        self.matches.add(Found(node, rule.id, FindingKind.REVIEW, api, message), self.above)


def _may_give(node: cst.Call, keyword: str | None) -> bool:
    """Whether a call gives that argument, or may: by position, or in what a star unpacks."""
    return keyword is not None and any(arg.keyword is None or arg.keyword.value == keyword for arg in node.args)


def _argument_index(args: Sequence[cst.Arg], match: ArgumentMatch) -> int | None:
    if isinstance(match.argument, int):
        plain = match.argument < len(args) and not any(arg.star for arg in args[: match.argument + 1])
        return match.argument if plain and args[match.argument].keyword is None else None
    for index, arg in enumerate(args):
        if arg.keyword is not None and arg.keyword.value == match.argument:
            return index
    return None


def _runs(indexes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The runs of neighbours in a sorted list, as their first and last: one removal each."""
    start = 0
    for place, index in enumerate(indexes):
        if place + 1 == len(indexes) or indexes[place + 1] != index + 1:
            yield indexes[start], index
            start = place + 1


def _part_of_call(piece: Piece, node: cst.Call) -> cst.CSTNode | Sequence[cst.Arg] | None:
    """What a placeholder stands for in a call; None when the call has no such thing."""
    if piece.field == "args":
        return node.args
    if piece.field == "receiver":
        return node.func.value if isinstance(node.func, cst.Attribute) else None
    if isinstance(piece.field, int):
        before = node.args[: piece.field + 1]  # behind a star no one can count
        plain = len(before) > piece.field and not any(arg.star or arg.keyword for arg in before)
        return before[-1].value if plain else None
    named = (arg.value for arg in node.args if arg.keyword is not None and arg.keyword.value == piece.field)
    return next(named, None)


def _fill(
    pieces: Sequence[Piece], part: Callable[[Piece], cst.CSTNode | Sequence[cst.Arg] | None]
) -> tuple[Code, ...] | None:
    code: list[Code] = []
    lone = False  # nothing was put before a comma
    for index, piece in enumerate(pieces):
        if piece.text is not None:
            code.append(_COMMA.sub("", piece.text, count=1) if lone and _COMMA.match(piece.text) else piece.text)
            lone = False
            continue
        found = part(piece)
        if found is None or (pieces.count(piece) > 1 and _does_something(found)):
            return None
        if not isinstance(found, cst.CSTNode):
            before = code[-1] if code else ""
            if len(found) == 1 and isinstance(found[0].value, cst.GeneratorExp) and not found[0].value.lpar:
                code += ["(", found[0].value, ")"]
            elif found:
                code.append((found[0], found[-1].value))
            elif isinstance(before, str) and before.rstrip().endswith(","):
                code[-1] = before.rstrip()[:-1]
            else:
                lone = True
        elif _is_operand(pieces, index, found) or _is_enclosed(pieces, index, found):
            code.append(found)
        else:
            code += ["(", found, ")"]
    return tuple(code)


def _does_something(found: cst.CSTNode | Sequence[cst.Arg]) -> bool:
    """Whether evaluating the code twice may differ from evaluating it once: `next(batches)`."""
    if not isinstance(found, cst.CSTNode):
        return any(map(_does_something, found))
    return isinstance(found, _DEEDS) or any(map(_does_something, children(found)))


def _is_operand(pieces: Sequence[Piece], index: int, found: cst.CSTNode) -> bool:
    """Whether no operator beside it can take a part of it."""
    if isinstance(found, cst.Integer) and not found.lpar:  # 1.npu() is no code
        return index + 1 == len(pieces) or not (pieces[index + 1].text or "").lstrip().startswith(".")
    return isinstance(found, _ATOMS) or bool(getattr(found, "lpar", None))


def _in_f_strings(code: tuple[Code, ...], above: Sequence[cst.CSTNode]) -> tuple[Code, ...] | None:
    """The code of a template as the f-strings around it can hold it: before Python 3.12 without their own quotes and
    without backslashes. None where that needs more than the other quotes."""
    around = [node.quote for node in above if isinstance(node, cst.FormattedString)]
    if not around:
        return code
    if isinstance(code[0], str) and code[0].startswith("{"):  # two braces are one of the text
        code = ("(", *code, ")")
    fitting: list[Code] = []
    for piece in code:
        if isinstance(piece, str) and any(quote in piece for quote in around):
            kinds = {quote for quote in "\"'" if quote in piece}
            other = "'" if kinds == {'"'} else '"'
            piece = piece.translate({ord('"'): other, ord("'"): other})
            if len(kinds) > 1 or any(quote in piece for quote in around):
                return None
        if isinstance(piece, str) and ("\\" in piece or "\n" in piece):
            return None
        fitting.append(piece)
    return tuple(fitting)


def _is_enclosed(pieces: Sequence[Piece], index: int, found: cst.CSTNode) -> bool:
    """Whether brackets or commas keep what is put here apart from its neighbours."""
    if isinstance(found, (cst.GeneratorExp, cst.NamedExpr)):
        return False
    before = (pieces[index - 1].text or "").rstrip() if index else ""
    after = (pieces[index + 1].text or "").lstrip() if index + 1 < len(pieces) else ""
    return before.endswith(("(", "[", "{", ",", "=")) and after.startswith((")", "]", "}", ","))


def _has_comment(node: cst.Call) -> bool:
    code = cst.Module(()).code_for_node(node)
    if "#" not in code:
        return False
    tokens = tokenize.generate_tokens(io.StringIO(f"({code})").readline)
    return any(token.type == tokenize.COMMENT for token in tokens)


@lru_cache
def _is_atom(template: str) -> bool:
    """Whether what the template gives is one operand, whatever it is filled with."""
    text = "".join(piece.text if piece.text is not None else "x" for piece in parse_template(template))
    return isinstance(cst.parse_expression(text), _ATOMS)


@lru_cache
def _has_keyword(template: str) -> bool:
    """Whether the template of an argument says its keyword itself."""
    text = "".join(piece.text if piece.text is not None else "x" for piece in parse_template(template))
    call = cst.parse_expression(f"f({text})")
    return isinstance(call, cst.Call) and any(arg.keyword is not None for arg in call.args)


def _chain(node: cst.CSTNode) -> Iterator[cst.Attribute]:
    while isinstance(node, cst.Attribute):
        yield node
        node = node.value
