"""Rules about calls and their arguments: templates filled with the code of the call, values, removals, findings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial

from gpu2npu.engine.imports import import_of
from gpu2npu.engine.kinds.filling import fill, in_f_strings, is_loose, is_operand_template
from gpu2npu.engine.kinds.removal import without_arguments
from gpu2npu.engine.kinds.unpacked import UnpackedArguments
from gpu2npu.engine.matches import Matches
from gpu2npu.engine.strings.texts import StringText
from gpu2npu.engine.table import RuleTable
from gpu2npu.kinds.argument import ArgumentMatch
from gpu2npu.kinds.call import CallMatch
from gpu2npu.python.meaning.instances import Constructed, constructed
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.text.concrete import argument_bounds, has_comment
from gpu2npu.python.text.tokens import name_bounds
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import (
    argument_keyword,
    argument_value,
    arguments,
    chain,
    is_unpacked,
    last_name,
    string_value,
)
from gpu2npu.python.tree.syntax_tree import parse_expression
from gpu2npu.records import Bounds, Code, Edit, FindingKind, Found, Operation
from gpu2npu.rulebook.rule import Rule
from gpu2npu.rulebook.template import Piece, parse_template

# The name that a dotted one begins with.
_FIRST = r"(?<![\w.'\"]){}(?=\.[A-Za-z_])"
_ANY_FIRST = re.compile(_FIRST.format(r"[A-Za-z_]\w*"))

Argument = ast.expr | ast.keyword


class Calls:
    """Applies call and argument rules in one file."""

    def __init__(self, names: Names, table: RuleTable, matches: Matches) -> None:
        self.names = names
        self.file = names.file
        self.table = table
        self.matches = matches
        self.dictionaries = UnpackedArguments(names.file)
        self._reported: set[tuple[str, Bounds]] = set()  # rules with the places in unpacked dictionaries

    def call(self, node: ast.Call, scope: Scope) -> bool:
        """Apply the first rule for the call itself; gives whether the callee's own name is settled by that."""
        for rule in (rule for name in self._callees(node, scope) for rule in self.table.calls.get(name, ())):
            assert isinstance(rule.match, CallMatch)
            given = arguments(node)
            if rule.match.arguments not in (None, len(given)) or _may_give(given, rule.match.without):
                continue
            if self._is(node, rule.match.call, scope):
                return self.apply(rule, node, scope)
        return False

    def _callees(self, node: ast.Call, scope: Scope) -> tuple[str, ...]:
        """The names a callee goes by: as it is written, and its own where it was imported under another."""
        if not isinstance(node.func, (ast.Name, ast.Attribute)):
            return ()
        written = last_name(node.func) or ""
        qualified = self.names.qualified(node.func, scope) if isinstance(node.func, ast.Name) else None
        own = (qualified or written).rpartition(".")[2]
        return (written,) if own == written else (written, own)

    def _is(self, node: ast.Call, wanted: str, scope: Scope) -> bool:
        return wanted.startswith("*") or self.names.qualified(node.func, scope) == wanted

    def apply(self, rule: Rule, node: ast.Call, scope: Scope) -> bool:
        """Apply a rule to a call that it matches; gives whether the callee's own name is settled."""
        then = rule.then
        if then.keep:
            return True
        api = self.names.qualified(node.func, scope) or last_name(node.func) or ""
        self.matches.note(rule, self.file.bounds(node.func), api)
        if then.replace is not None:
            return self._replace(rule, then.replace, node, api, scope)
        return then.rename is not None and self._rename(rule, then.rename, node, api, scope)

    def _replace(self, rule: Rule, template: str, node: ast.Call, api: str, scope: Scope) -> bool:
        place = self.file.bounds(node)
        code = fill(self.file, parse_template(template), partial(_part_of_call, node=node))
        if code is not None and has_comment(self.file, node):  # which the replacement would lose
            code = None
        if code is not None:
            if not (is_operand_template(template) or is_loose(self.file, node)):
                code = ("(", *code, ")")
            code, needs = self._spelled(code, rule, node, scope)
            code = in_f_strings(self.file, node, code)
        if code is None:
            self._misfit(rule, place, api)
            return False
        self.matches.edits.append(Edit(place, code, rule.id, rule.why, needs=needs))
        return True

    def _rename(self, rule: Rule, name: str, node: ast.Call, api: str, scope: Scope) -> bool:
        assert isinstance(rule.match, CallMatch)
        if last_name(node.func) != rule.match.call.rpartition(".")[2]:  # the file's own name for it
            return False
        place = name_bounds(self.file, node.func)
        if isinstance(node.func, ast.Name) and scope.lookup(node.func.id) is not None:
            message = f"{rule.why} This name is bound in the file: rename it there and here, to {name}."
            self.matches.found.append(Found(place, rule.id, FindingKind.REVIEW, api, message))
            return False
        self.matches.edits.append(Edit(place, name, rule.id, rule.why))
        return True

    def _spelled(
        self, code: tuple[Code, ...], rule: Rule, node: ast.Call, scope: Scope
    ) -> tuple[tuple[Code, ...], tuple[str, ...]]:
        """The code of a template with its packages as the call spells them, and those that nothing here spells."""
        assert isinstance(rule.match, (CallMatch, ArgumentMatch))
        known = {rule.match.of if isinstance(rule.match, ArgumentMatch) else rule.match.call, rule.then.imports or ""}
        packages = {name.partition(".")[0] for name in known}
        needs = []
        for package in sorted({root for piece in code if isinstance(piece, str) for root in _ANY_FIRST.findall(piece)}):
            if package not in packages or self.names.binds(package, scope):
                continue
            owners = [part for part in chain(node.func)[:-1] if self.names.qualified(part, scope) == package]
            if owners:  # import torch as th
                spelled = partial(re.sub, _FIRST.format(package), self.file.code(owners[-1]))
                code = tuple(spelled(piece) if isinstance(piece, str) else piece for piece in code)
            else:
                needs.append(import_of(package, rule.then.imports))
        return code, tuple(needs)

    # Arguments

    def arguments(self, node: ast.Call, scope: Scope) -> list[Argument]:
        """Apply the rules for the arguments of the call; gives those of which nothing stays."""
        reached = self._constructed(node, scope, [keyword.arg for keyword in node.keywords])
        rules = self._argument_rules(node, reached, scope)
        if not rules:  # as for most calls
            return []
        given = arguments(node)
        removed: dict[int, Rule] = {}
        settled: list[Argument] = []
        for rule in rules:
            assert isinstance(rule.match, ArgumentMatch)
            index = _argument_index(given, rule.match)
            if index is None or index in removed or not self._accepts(rule, rule.match, given[index]):
                continue
            is_of = self._is(node, rule.match.of, scope) or rule.match.of == reached.first
            if not is_of:
                self._report_handed_on(rule, node, index, reached)
                continue
            if rule.then.remove and "torch_npu" in self.file.code(given[index]):
                continue  # given for the NPU
            if rule.then.remove:
                removed[index] = rule
                self._note(rule, given[index], self._bounds(node, index))
            if rule.then.remove or self.argument(rule, node, given[index], self._bounds(node, index), scope):
                settled.append(given[index])
        for first, last in _runs(sorted(removed)):
            self._remove(removed[first], node, first, last)
        return settled

    def unpacked(self, node: ast.Call, scope: Scope) -> None:
        """Report the arguments that rules are for and that come out of a dictionary: `Trainer(**{"gpus": 2})`."""
        given = self.dictionaries.of(node, scope)
        if not given:
            return
        reached = self._constructed(node, scope, [name for name, _, _ in given])
        callees = (*self._callees(node, scope), *_leaves(reached), "*")
        for name, key, value in given:
            of_callee = (rule for callee in callees for rule in self.table.arguments.get(callee, ()))
            for rule in (*of_callee, *self.table.keywords.get(name, ())):
                assert isinstance(rule.match, ArgumentMatch)
                is_of = self._is(node, rule.match.of, scope) or rule.match.of in (reached.first, *reached.further)
                if rule.match.argument == name and is_of and self._accepts(rule, rule.match, value):
                    self._report_unpacked(rule, name, self.file.bounds(key))

    def _report_unpacked(self, rule: Rule, name: str, place: Bounds) -> None:
        then = rule.then
        if then.keep or then.rename is not None or (rule.id, place) in self._reported:
            return  # a string that is renamed is found by what it means
        self._reported.add((rule.id, place))
        if then.report is not None and then.replace is None and not then.remove:
            self.matches.note(rule, place, name)
        else:
            message = f"{rule.why} This dictionary is unpacked into a call: change it by hand."
            self.matches.found.append(Found(place, rule.id, FindingKind.REVIEW, name, message))

    def _argument_rules(self, node: ast.Call, reached: Constructed, scope: Scope) -> list[Rule]:
        callees = (*self._callees(node, scope), *_leaves(reached), "*")
        rules = [rule for name in dict.fromkeys(callees) for rule in self.table.arguments.get(name, ())]
        for keyword in node.keywords:
            if keyword.arg in self.table.keywords:
                rules += self.table.keywords[keyword.arg]
        return rules

    def _constructed(self, node: ast.Call, scope: Scope, keywords: Sequence[str | None]) -> Constructed:
        """The classes outside the project whose `__init__` the call reaches, if it has keywords that rules are for."""
        name = last_name(node.func) or ""
        is_class = name == "__init__" or name[:1].isupper()
        is_asked = is_class and not self.table.argument_names.isdisjoint(keywords)
        return constructed(self.names, node, scope) if is_asked else Constructed()

    def _accepts(self, rule: Rule, match: ArgumentMatch, argument: Argument) -> bool:
        """Return whether a rule is for what is written as an argument."""
        value = argument_value(argument)
        if match.value is not None and string_value(value) != match.value:
            return False
        if match.unless and self.file.code(value) in match.unless:
            return False
        if match.unless_found is not None:
            unless = rule.expression(match.unless_found, ignores_case=True)
            return unless.search(self.file.code(argument)) is None
        return True

    def _report_handed_on(self, rule: Rule, node: ast.Call, index: int, reached: Constructed) -> None:
        """Report an argument that may come to the class that a rule is for by way of another."""
        assert isinstance(rule.match, ArgumentMatch)
        if rule.match.of in reached.further and not rule.then.keep:
            message = f"{rule.why} This argument may be handed on to {rule.match.of}: change it by hand."
            place, shown = self._bounds(node, index), str(rule.match.argument)
            self.matches.found.append(Found(place, rule.id, FindingKind.REVIEW, shown, message))

    def argument(self, rule: Rule, node: ast.Call, argument: Argument, place: Bounds, scope: Scope) -> bool:
        """Apply a rule to an argument of a call; gives whether no further rule is for its value."""
        then, value = rule.then, argument_value(argument)
        if then.keep:
            return True
        shown = self._note(rule, argument, place)
        if then.replace is not None:
            return self._replace_argument(rule, then.replace, node, argument, place, shown, scope)
        text = StringText.of(self.file, value) if then.rename is not None else None
        if text is not None:
            new = text.quoted(then.rename or "")
            self.matches.edits.append(Edit(text.place, new, rule.id, rule.why, shown=place))
            return True
        return False

    def _replace_argument(
        self, rule: Rule, template: str, node: ast.Call, argument: Argument, place: Bounds, shown: str, scope: Scope
    ) -> bool:
        pieces = [Piece(text="("), *parse_template(template), Piece(text=")")]  # those of the call
        value = argument_value(argument)
        code = fill(self.file, pieces, lambda piece: value if piece.field == "value" else None)
        needs: tuple[str, ...] = ()
        if code is not None:
            code, needs = self._spelled(code[1:-1], rule, node, scope)
            code = in_f_strings(self.file, node, code)
        if code is None:
            self._misfit(rule, place, shown)
            return False
        start = place[0]
        if isinstance(argument, ast.keyword) and not _has_keyword(template):
            start = self.file.value_start(argument)
        edit = Edit((start, place[1]), code, rule.id, rule.why, shown=place, needs=needs)
        self.matches.edits.append(edit)
        return all(isinstance(piece, str) for piece in code)

    def _bounds(self, node: ast.Call, index: int) -> Bounds:
        """The bounds of an argument with its keyword, stars and parentheses."""
        found = argument_bounds(self.file, node)
        return found[index] if found is not None else self.file.bounds(arguments(node)[index])

    def _note(self, rule: Rule, argument: Argument, place: Bounds) -> str:
        shown = argument_keyword(argument) or self.file.text[place[0] : place[1]]
        self.matches.note(rule, place, shown)
        return shown

    def _remove(self, rule: Rule, node: ast.Call, first: int, last: int) -> None:
        """Take arguments out with the comma that goes with them."""
        bounds = argument_bounds(self.file, node)
        cut = without_arguments(self.file, node, bounds, first, last) if bounds is not None else None
        if bounds is None or cut is None:
            self._misfit(rule, self.file.bounds(node), last_name(node.func) or "")
            return
        replaced, kept = cut
        edit = Edit(
            bounds[first],
            kept,
            rule.id,
            rule.why,
            shown=self.file.bounds(node),
            replaced=replaced,
            operation=Operation.DELETE,
        )
        self.matches.edits.append(edit)

    def _misfit(self, rule: Rule, place: Bounds, api: str) -> None:
        message = f"{rule.why} The arguments of this call do not fit the rule's replacement: change it by hand."
        self.matches.found.append(Found(place, rule.id, FindingKind.REVIEW, api, message))


def _may_give(given: Sequence[Argument], keyword: str | None) -> bool:
    """Return whether a call gives that argument, or may: by position, or in what a star unpacks."""
    return keyword is not None and any(argument_keyword(each) in (None, keyword) for each in given)


def _argument_index(given: Sequence[Argument], match: ArgumentMatch) -> int | None:
    if isinstance(match.argument, int):
        plain = match.argument < len(given) and not any(map(is_unpacked, given[: match.argument + 1]))
        return match.argument if plain and not isinstance(given[match.argument], ast.keyword) else None
    return next((at for at, each in enumerate(given) if argument_keyword(each) == match.argument), None)


def _leaves(reached: Constructed) -> list[str]:
    return [name.rpartition(".")[2] for name in (reached.first, *reached.further) if name is not None]


def _runs(indexes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The runs of neighbours in a sorted list, as their first and last: one removal each."""
    start = 0
    for place, index in enumerate(indexes):
        if place + 1 == len(indexes) or indexes[place + 1] != index + 1:
            yield indexes[start], index
            start = place + 1


def _part_of_call(piece: Piece, node: ast.Call) -> ast.expr | list[Argument] | None:
    """The code of a call that a placeholder stands for; None when the call has no such thing."""
    if piece.field == "args":
        return arguments(node)
    if piece.field == "receiver":
        return node.func.value if isinstance(node.func, ast.Attribute) else None
    if isinstance(piece.field, int):
        before = arguments(node)[: piece.field + 1]  # behind a star no one can count
        plain = len(before) > piece.field and not any(isinstance(each, (ast.Starred, ast.keyword)) for each in before)
        return argument_value(before[-1]) if plain else None
    return next((each.value for each in node.keywords if each.arg == piece.field), None)


@lru_cache
def _has_keyword(template: str) -> bool:
    """Return whether the template of an argument says its keyword itself."""
    text = "".join(piece.text if piece.text is not None else "x" for piece in parse_template(template))
    call = parse_expression(f"f({text})")
    return isinstance(call, ast.Call) and bool(call.keywords)
