"""Rules for arguments of calls, and for keys of configurations and options of commands."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar

from gpu2npu.engine.code_matching import is_written_as, type_problem, with_article
from gpu2npu.engine.file_rules import FileRules, Handlers
from gpu2npu.engine.knowledge import KeyedValue, Knowledge, PlaceHandlers
from gpu2npu.engine.marks import option_marks
from gpu2npu.engine.rewriting.arguments import (
    Argument,
    Callees,
    TypedArguments,
    UnpackedArguments,
    argument_index,
    runs,
    with_number,
)
from gpu2npu.engine.rewriting.filling import in_f_strings
from gpu2npu.engine.strings.texts import StringText
from gpu2npu.python.meaning.inheritance import Constructed, constructed
from gpu2npu.python.text.concrete import argument_bounds
from gpu2npu.python.text.templates import fill, parsed, pieces_of
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import argument_keyword, argument_value, arguments, last_name, string_value
from gpu2npu.python.tree.syntax_tree import parse_expression
from gpu2npu.records import Bounds, Edit, Operation
from gpu2npu.rulebook.match import (
    Evidence,
    Json,
    Match,
    callee_text,
    leaf,
    listed,
    may_be_one,
    spellings,
)
from gpu2npu.rulebook.rule import Rule
from gpu2npu.rulebook.template import TemplateError, check_template, parse_template

if TYPE_CHECKING:
    from gpu2npu.engine.line_sites import Site
    from gpu2npu.python.meaning.names import Names

# What is left between brackets, of more than one line.
_LINE_ENDS = re.compile(r"[ \t\f,\\]*[\r\n][\s,\\]*")


class ArgumentMatch(Match, frozen=True):
    """An argument, by keyword or by position from 0; with `"value": "cuda"` only that string; `"unless": ["None"]`
    excludes values that are written so, in any quotes; `"of": "*"` is any call, a key of a configuration and an option
    of a command."""

    argument: str | int
    of: str
    value: str | None = None
    unless: frozenset[str] = frozenset()
    unless_found: str | None = None
    type: str | None = None

    key = "argument"
    shape: ClassVar[Json] = {
        "argument": {
            "description": "A keyword, or a position counted from 0.",
            "oneOf": [{"$ref": "#/$defs/identifier"}, {"type": "integer", "minimum": 0}],
        },
        "of": {"description": "The function that is called.", "$ref": "#/$defs/callee"},
        "value": {"description": "The argument is this string.", "type": "string", "minLength": 1},
        "unless": {
            "description": "Arguments, as they are written, in any quotes, that the rule leaves alone.",
            "$ref": "#/$defs/words",
        },
        "type": {
            "description": "What the argument must be, as in types of code: integer, literal, tensor, ...",
            "$ref": "#/$defs/qualified_name",
        },
    }
    actions = ("rename", "replace", "remove", "imports")
    order = 1
    starter: ClassVar[Json] = {
        "$comment": "An argument of a call, by keyword or by position counted from 0.",
        "why": "The NPU build has no graph capture.",
        "match": {"argument": "cuda_graph", "of": "fastlib.compile"},
        "then": {"remove": True},
        "examples": [
            {
                "before": "import fastlib\nfastlib.compile(net, cuda_graph=True)\n",
                "after": "import fastlib\nfastlib.compile(net)\n",
            }
        ],
    }

    @property
    def index(self) -> str:
        return f"*.{self.argument}" if self.is_of_any else leaf(self.of)

    @property
    def argument_name(self) -> str | int:
        return self.argument

    @property
    def is_of_any(self) -> bool:
        return self.of.endswith("*") and isinstance(self.argument, str)

    @property
    def evidence(self) -> Evidence:
        words = (self.argument, self.value, self.of)
        return Evidence(" ".join(leaf(word) for word in words if isinstance(word, str) and word != "*"))

    @property
    def qualified(self) -> str:
        return self.of

    @property
    def outside_python(self) -> tuple[Evidence, ...]:
        return () if "." in self.of or isinstance(self.argument, int) else spellings(self.value or self.argument)

    @property
    def callee_leaves(self) -> frozenset[str]:
        return frozenset({leaf(self.of)}) if "." in self.of else frozenset()

    @property
    def text(self) -> str:
        number = isinstance(self.argument, int)
        which = f"argument {self.argument} (from 0)" if number else f"argument `{self.argument}`"
        text = f"the {which} of calls of {'any function' if self.of == '*' else callee_text(self.of)}"
        if self.value is not None:
            text += f", where it is the string `{self.value}`"
        if self.unless:
            text += f", unless it is written {listed(self.unless)}"
        if self.unless_found is not None:
            text += f", unless `{self.unless_found}` is found in it"
        if self.type is not None:
            text += f", where it is {with_article(self.type)}"
        return text

    @property
    def subject(self) -> str:
        return f"{self.of}({self.argument}{f'={self.value!r}' if self.value else ''})"

    @property
    def word(self) -> str:
        return leaf(self.of) if self.of != "*" else str(self.argument)

    def is_on(self, line: str) -> bool:
        return (self.value is None or self.value in line) and super().is_on(line)

    def meets(self, other: Match) -> bool:
        if not isinstance(other, ArgumentMatch) or self.argument != other.argument:
            return False
        same_value = self.value is None or other.value is None or self.value == other.value
        if self.type != other.type:
            return False
        return may_be_one(self.of, other.of) and same_value

    @classmethod
    def problems(cls, entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        then = entry["then"]
        if "rename" in then and "value" not in entry["match"]:
            yield "then.rename", "renames the value of an argument, so the match must say which: give 'value'"
        if (problem := type_problem(entry["match"].get("type", "literal"))) is not None:
            yield "match.type", problem
        try:
            pieces = check_template(then["replace"], argument=True) if "replace" in then else ()
        except TemplateError as error:
            yield "then.replace", str(error)
            return
        for piece in pieces:
            if piece.field not in (None, "value"):
                yield "then.replace", f"the field {{{piece.field}}} does not exist for an argument; use {{value}}"

    def why_not(self, site: Site, names: Names) -> str | None:
        if site.call is None:
            return f"`{site.shown}` is not called here"
        return super().why_not(site, names) or f"this call has no such argument: the rule matches {self.text}"

    @classmethod
    def place_handlers(cls, rules: Knowledge) -> PlaceHandlers:
        return {KeyedValue: partial(option_marks, rules.table)}

    @classmethod
    def handlers(cls, work: FileRules) -> Handlers:
        return {ast.Call: Arguments(work).call}


class Arguments(Callees):
    """Applies rules for arguments in one file."""

    def __init__(self, work: FileRules) -> None:
        super().__init__(work)
        self.typed = TypedArguments(work)
        self.dictionaries = UnpackedArguments(self.file)
        self._reported: set[tuple[str, Bounds]] = set()  # rules with the places in unpacked dictionaries
        self._replaced: set[tuple[str | None, Bounds]] = set()  # what is written with the values of conditions

    def call(self, node: ast.Call, scope: Scope) -> None:
        """Apply the rules for what a call is given."""
        if node in self.work.refused or not self._may_match(node):
            return
        self.work.handled.update(self.given(node, scope))
        self.unpacked(node, scope)

    def _may_match(self, node: ast.Call) -> bool:
        """Return whether a rule may be for the call, as for few: by what is called, or by a keyword."""
        func, name, rules = node.func, last_name(node.func), self.table.arguments
        if name in rules or "*" in rules or (isinstance(func, ast.Name) and name in self.names.leading):
            return True
        return any(each.arg is None or each.arg in self.table.argument_names for each in node.keywords)

    def given(self, node: ast.Call, scope: Scope) -> list[Argument]:
        """Apply the rules for the arguments of the call; return the arguments that are taken out whole."""
        reached = self._constructed(node, scope, [keyword.arg for keyword in node.keywords])
        rules = self._argument_rules(node, reached, scope)
        if not rules:  # as for most calls
            return []
        given = arguments(node)
        removed: dict[int, Rule] = {}
        handled: list[Argument] = []
        for rule in rules:
            assert isinstance(rule.match, ArgumentMatch)
            index = argument_index(given, rule.match.argument)
            if index is None or index in removed or not self._accepts(rule, rule.match, given[index]):
                continue
            is_of = self.is_call_of(node, rule.match.of, scope) or rule.match.of == reached.first
            if not is_of:
                self._report_forwarded(rule, node, index, reached)
                continue
            place, value = self._bounds(node, index), argument_value(given[index])
            numbers = self.typed.numbers(rule.match.type, value, scope) if rule.then.replace is not None else ()
            for number in numbers:
                self._replace_number(rule, node, number, scope)
            if numbers or not self.typed.accept(rule, rule.match.type, value, place, scope):
                continue
            if rule.then.remove and "torch_npu" in self.file.code(given[index]):
                continue  # given for the NPU
            if rule.then.remove:
                removed[index] = rule
                self._note(rule, given[index], self._bounds(node, index))
            if rule.then.remove or self.argument(rule, node, given[index], self._bounds(node, index), scope):
                handled.append(given[index])
        for first, last in runs(sorted(removed)):
            self._remove(removed[first], node, first, last)
        return handled

    def unpacked(self, node: ast.Call, scope: Scope) -> None:
        """Report the arguments that rules are for and that come out of a dictionary: `Trainer(**{"gpus": 2})`."""
        given = self.dictionaries.of(node, scope)
        if not given:
            return
        reached = self._constructed(node, scope, [name for name, _, _ in given])
        callees = (*self.callees(node, scope), *reached.leaves, "*")
        for name, key, value in given:
            of_callee = (rule for callee in callees for rule in self.table.arguments.get(callee, ()))
            for rule in (*of_callee, *self.table.keywords.get(name, ())):
                assert isinstance(rule.match, ArgumentMatch)
                is_of = self.is_call_of(node, rule.match.of, scope) or rule.match.of in (
                    reached.first,
                    *reached.further,
                )
                if rule.match.argument != name or not is_of or not self._accepts(rule, rule.match, value):
                    continue
                place = self.file.bounds(key)
                if self.typed.accept(rule, rule.match.type, value, place, self.file.scope_of(value)):
                    self._report_unpacked(rule, name, place)

    def _report_unpacked(self, rule: Rule, name: str, place: Bounds) -> None:
        then = rule.then
        if then.keep or then.rename is not None or (rule.id, place) in self._reported:
            return  # a string that is renamed is found by what it means
        self._reported.add((rule.id, place))
        if then.report is not None and then.replace is None and not then.remove:
            self.matches.note(rule, place, name)
        else:
            message = f"{rule.why} This dictionary is unpacked into a call: change it by hand."
            self.matches.review(rule, place, name, message)

    def _argument_rules(self, node: ast.Call, reached: Constructed, scope: Scope) -> list[Rule]:
        callees = (*self.callees(node, scope), *reached.leaves, "*")
        rules = [rule for name in dict.fromkeys(callees) for rule in self.table.arguments.get(name, ())]
        for keyword in node.keywords:
            if keyword.arg in self.table.keywords:
                rules += self.table.keywords[keyword.arg]
        return rules

    def _constructed(self, node: ast.Call, scope: Scope, keywords: Sequence[str | None]) -> Constructed:
        """The classes outside the project whose `__init__` the call reaches, if it has keywords that rules are for."""
        name = last_name(node.func) or ""
        is_class = name == "__init__" or name[:1].isupper()
        may_match = is_class and not self.table.argument_names.isdisjoint(keywords)
        return constructed(self.names, node, scope) if may_match else Constructed()

    def _accepts(self, rule: Rule, match: ArgumentMatch, argument: Argument) -> bool:
        """Return whether a rule is for what is written as an argument."""
        value = argument_value(argument)
        if match.value is not None and string_value(value) != match.value:
            return False
        if match.unless and is_written_as(value, match.unless):
            return False
        if match.unless_found is not None:
            unless = rule.expression(match.unless_found, ignores_case=True)
            return unless.search(self.file.code(argument)) is None
        return True

    def _report_forwarded(self, rule: Rule, node: ast.Call, index: int, reached: Constructed) -> None:
        """Report an argument that may come to the class that a rule is for by way of another."""
        assert isinstance(rule.match, ArgumentMatch)
        if rule.match.of in reached.further and not rule.then.keep:
            message = f"{rule.why} This argument may be handed on to {rule.match.of}: change it by hand."
            place, shown = self._bounds(node, index), str(rule.match.argument)
            self.matches.review(rule, place, shown, message)

    def argument(self, rule: Rule, node: ast.Call, argument: Argument, place: Bounds, scope: Scope) -> bool:
        """Apply a rule to an argument of a call; gives whether no further rule is for its value."""
        then, value = rule.then, argument_value(argument)
        if then.keep or self._is_left(rule, node):
            return True
        shown = self._note(rule, argument, place)
        if then.replace is not None:
            return self._replace_argument(rule, then.replace, node, argument, place, shown, scope)
        text = StringText.of(self.file, value) if then.rename is not None else None
        if text is not None:
            new = text.quoted(then.rename or "")
            self.matches.edit(Edit(text.place, new, rule.id, rule.why, shown=place))
            return True
        return False

    def _is_left(self, rule: Rule, node: ast.Call) -> bool:
        """Return whether rules replace calls of the function that an argument is of, and not this one."""
        assert isinstance(rule.match, ArgumentMatch)
        of = rule.match.of
        whole = (each for each in self.table.of("code").get(of.rpartition(".")[2], ()) if each.then.replace is not None)
        ids = {each.id for each in whole if each.match.qualified == of}
        start = self.file.bounds(node)[0]
        return bool(ids) and not any(each.rule in ids and each.place[0] == start for each in self.matches.edits)

    def _replace_argument(
        self, rule: Rule, template: str, node: ast.Call, argument: Argument, place: Bounds, shown: str, scope: Scope
    ) -> bool:
        value = argument_value(argument)
        template = with_number(template, value)
        pieces = parse_template(template)
        code = fill(self.file, pieces, lambda piece: value if piece.field == "value" else None, is_argument=True)
        needs: tuple[str, ...] = ()
        if code is not None:
            code, needs = self.spelled(code, rule, node, scope)
            code = in_f_strings(self.file, node, code)
        if code is None:
            self.misfit(rule, place, shown)
            return False
        start = place[0]
        if isinstance(argument, ast.keyword) and not _has_keyword(template):
            start = self.file.value_start(argument)
        edit = Edit((start, place[1]), parsed(code), rule.id, rule.why, shown=place, needs=needs)
        self.matches.edit(edit)
        return all(isinstance(piece, str) for piece in pieces_of(code))

    def _replace_number(self, rule: Rule, node: ast.Call, number: ast.expr, scope: Scope) -> None:
        """Replace a value where it is written, once for all calls that it is given to."""
        place = self.file.bounds(number)
        if (rule.then.replace, place) not in self._replaced:
            self._replaced.add((rule.then.replace, place))
            shown = self._note(rule, number, place)
            self._replace_argument(rule, rule.then.replace or "", node, number, place, shown, scope)

    def _bounds(self, node: ast.Call, index: int) -> Bounds:
        """The bounds of an argument with its keyword, stars and parentheses."""
        found = argument_bounds(self.file, node)
        return found[index] if found is not None else self.file.bounds(arguments(node)[index])

    def _note(self, rule: Rule, argument: Argument, place: Bounds) -> str:
        shown = argument_keyword(argument) or self.file.text[place[0] : place[1]]
        self.matches.note(rule, place, shown)
        return shown

    def _remove(self, rule: Rule, node: ast.Call, first: int, last: int) -> None:
        """Take neighbours out of the arguments of a call; where none is left, with the lines up to its brackets."""
        given, text = arguments(node), self.file.text
        place = self.file.bounds(given[first])[0], self.file.bounds(given[last])[1]
        shown = self.file.bounds(node)
        within = len(text[: place[0]].rstrip()), shown[1] - 1
        between = text[within[0] : place[0]] + text[place[1] : within[1]]
        if last - first + 1 == len(given) and text[within[0] - 1] == "(" and _LINE_ENDS.fullmatch(between):
            place = within
        self.matches.edit(Edit(place, "", rule.id, rule.why, shown, operation=Operation.DELETE))


@lru_cache
def _has_keyword(template: str) -> bool:
    """Return whether the template of an argument says its keyword itself."""
    text = "".join(piece.text if piece.text is not None else "x" for piece in parse_template(template))
    call = parse_expression(f"f({text})")
    return isinstance(call, ast.Call) and bool(call.keywords)
