"""The arguments of a call that rules are for: of which callee, of which type, or in a dictionary that is unpacked."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from itertools import accumulate
from typing import NamedTuple

from gpu2npu.engine.code_matching import CodeMatcher, with_article
from gpu2npu.engine.file_rules import FileRules
from gpu2npu.engine.imports import import_of
from gpu2npu.engine.strings.value_effects import values_of
from gpu2npu.python.flow.value_calls import ValueOrigin
from gpu2npu.python.flow.values import Values, ValueUse
from gpu2npu.python.meaning.instances import WHOLE
from gpu2npu.python.text.templates import changed, pieces_of
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.place import is_integer
from gpu2npu.python.tree.scopes import Parameter, Scope
from gpu2npu.python.tree.syntax import (
    FUNCTIONS,
    argument_keyword,
    chain,
    defaults,
    dotted_name,
    is_none,
    is_unpacked,
    last_name,
    string_value,
)
from gpu2npu.records import Bounds, Text
from gpu2npu.rulebook.rule import Rule

# The name that a dotted one begins with.
_FIRST = r"(?<![\w.'\"]){}(?=\.[A-Za-z_])"
_ANY_FIRST = re.compile(_FIRST.format(r"[A-Za-z_]\w*"))

Argument = ast.expr | ast.keyword


class Callees:
    """The callees in one file, and the code that rules write for their calls."""

    def __init__(self, work: FileRules) -> None:
        self.names = work.names
        self.file = work.file
        self.table = work.table
        self.matches = work.matches
        self.work = work

    def callees(self, node: ast.Call, scope: Scope) -> tuple[str, ...]:
        """The names of a callee: as it is written, and its own where it was imported under another."""
        if not isinstance(node.func, (ast.Name, ast.Attribute)):
            return ()
        written = last_name(node.func) or ""
        qualified = self.names.qualified(node.func, scope) if isinstance(node.func, ast.Name) else None
        own = (qualified or written).rpartition(".")[2]
        return (written,) if own == written else (written, own)

    def is_call_of(self, node: ast.Call, wanted: str, scope: Scope) -> bool:
        if wanted.startswith("*"):
            return True
        qualified = self.names.qualified(node.func, scope) or ""
        if wanted.endswith(".*"):  # but for what a rule renames, or renamed: that takes its own arguments
            return qualified.startswith(wanted[:-1]) and not self._is_in_renamed(qualified)
        return qualified == wanted

    def _is_in_renamed(self, qualified: str) -> bool:
        packages = list(accumulate(qualified.split(".")[:-1], "{}.{}".format))
        is_renamed = any(rule.then.rename is not None for name in packages for rule in self.table.names.get(name, ()))
        return is_renamed or not self.table.new_packages.isdisjoint(packages)

    def spelled(self, code: Text, rule: Rule, node: ast.Call, scope: Scope) -> tuple[Text, tuple[str, ...]]:
        """The code of a template with its packages as the call spells them, and those that nothing here spells."""
        known = {rule.match.qualified or "", rule.then.imports or ""}
        packages = {name.partition(".")[0] for name in known}
        needs = []
        texts = [piece for piece in pieces_of(code) if isinstance(piece, str)]
        for package in sorted({root for text in texts for root in _ANY_FIRST.findall(text)}):
            if package not in packages or self.names.binds(package, scope):
                continue
            owners = [part for part in chain(node.func)[:-1] if self.names.qualified(part, scope) == package]
            if owners:  # import torch as th
                code = changed(code, partial(re.sub, _FIRST.format(package), self.file.code(owners[-1])))
            else:
                needs.append(import_of(package, rule.then.imports))
        return code, tuple(needs)

    def misfit(self, rule: Rule, place: Bounds, api: str) -> None:
        message = f"{rule.why} The arguments of this call do not fit the rule's replacement: change it by hand."
        self.matches.review(rule, place, api, message)


# The name of a number of a card, where nothing else says what a value is.
_CARD = re.compile(r"(?:^|_)(?:rank|gpu|gpu_id|device_id|device_index|device_num|card)$")
_CURRENT = "current_device"  # the function that gives the number of the card in use
# What gives whole numbers to code that does not say so.
_GIVING_NUMBERS = ("add_argument", "spawn", "start_processes")
_PARSER = "argparse."  # what options come from
# What takes the name of a device as well as its number: keywords, and the first argument of calls.
_DEVICE_KEYWORDS = frozenset({"device", "map_location"})
_DEVICE_CALLS = frozenset({"cuda", "device", "set_device", "to"})
# What a call gives a value by, whole.
_ASSIGNING = (ast.AnnAssign, ast.Assign, ast.IfExp, ast.NamedExpr, ast.Return)
# The value as the last part of an f-string, which is a plain string where it is a number.
_FORMATTED = re.compile(r'\bf("[^"{]*)\{\{\{value\}\}\}(?=")')


class TypedArguments:
    """Judges the arguments in one file."""

    def __init__(self, work: FileRules) -> None:
        self.file = work.file
        self.names = work.names
        self.matches = work.matches
        self.matcher = CodeMatcher(work.names)

    def accept(self, rule: Rule, wanted: str | None, value: ast.expr, place: Bounds, scope: Scope) -> bool:
        """Return whether an argument is of the type that a rule wants; one that is not known, and by its name or its
        default is the number of a card, is reported."""
        is_one = wanted is None or self._is_of(wanted, value, scope)
        is_mixed = wanted == "integer" and (
            self._is_given_both(value, scope, is_one)
            or (not is_one and bool(self._branches(value, scope) or self._calls_for(value)))
        )
        if is_mixed:
            shown = self.file.code(value)
            message = f"{rule.why} `{shown}` may be one here: change it here or where it is given, by hand."
            self.matches.review(rule, place, shown, message)
            return False
        named = isinstance(value, (ast.Name, ast.Attribute)) and _CARD.search(last_name(value) or "")
        if is_one is None and (named or _is_number_by_default(value, scope)):
            shown = self.file.code(value)
            message = f"{rule.why} This may be such a place: `{shown}` is not known to be {with_article(wanted or '')}."
            self.matches.review(rule, place, shown, message)
        return is_one is True

    def _is_of(self, wanted: str, value: ast.expr, scope: Scope) -> bool | None:
        """Return whether a value is of a type, of a whole number also by what flows into it; None where it is not
        known."""
        found = self.matcher.is_of(wanted, value, scope)
        if found is not None or wanted != "integer":
            return found
        if isinstance(value, ast.BinOp) and isinstance(value.op, WHOLE):
            return True if self._is_of(wanted, value.left, scope) and self._is_of(wanted, value.right, scope) else None
        return self._is_given_integer(value)

    def numbers(self, wanted: str | None, value: ast.expr, scope: Scope) -> list[ast.expr]:
        """The numbers that a value may be that may be the name of a device too, where all their uses are devices: in a
        condition, `rank if torch.cuda.is_available() else "cpu"`, or calls that give one, through names and attributes.
        """
        if wanted != "integer" or self._is_of(wanted, value, scope):
            return []
        found = self._branches(value, scope) or [
            call for call in self._calls_for(value) if all(map(_is_device, self._uses[call]))
        ]
        if not found or isinstance(value, ast.IfExp):
            return found
        return found if all(map(self._takes_device, self.file.reads(dotted_name(value) or "", scope))) else []

    def _branches(self, value: ast.expr, scope: Scope) -> list[ast.expr]:
        """The numbers among the values of a condition, or of a name, where the others are devices or None."""
        if isinstance(value, ast.Name):
            values = scope.values(value)
            if len(values) == 1:
                return self._branches(values[0], scope) if isinstance(values[0], ast.IfExp) else []
        else:
            values = [value.body, value.orelse] if isinstance(value, ast.IfExp) else []
        known = [each for each in values if each is not None]
        numbers = [each for each in known if self._is_of("integer", each, scope)]
        others = [each for each in known if self.matcher.is_of("device", each, scope) or is_none(each)]
        return numbers if numbers and others and len(numbers) + len(others) == len(values) else []

    def _is_given_both(self, value: ast.expr, scope: Scope, is_number: bool | None) -> bool:
        """Return whether some call gives a parameter a device by its name or that of a tensor, whatever the annotation
        says that it is; or the number of the current card, where nothing says what it is."""
        bound = [each for each in scope.bound(value) if isinstance(each, Parameter)]
        is_annotated = is_number is True and any(each.annotation is not None for each in bound)
        given = self._place(value) if is_annotated or (is_number is None and bound) else 0
        values = values_of(self.names.project)
        if given and not is_annotated:
            project = self.names.project
            project.consult_naming(self.names.path, _CURRENT)
            cards = project.cached(("current cards",), lambda: _current_cards(values)) or ()
            return (values.path_at(given), given - values.at(given).first) in cards
        origins = values.sources(given, self.names.path) if given else ()
        return any(each.kind == "text" or each.text.endswith(".device") for each in origins)

    def _is_given_integer(self, value: ast.expr) -> bool | None:
        """Return whether a value is a whole number by an option of a command line, or as the number of a process."""
        is_likely = any(word in self.file.text for word in _GIVING_NUMBERS)
        values, integers = values_of(self.names.project), {"int", *self.names.project.library.integers}
        # An argument has a place in the facts; for another value the file is walked.
        given = self._place(value) or values.place(self.names, value) if is_likely else 0
        sources = values.sources(given, self.names.path) if given else ()
        known = {
            each.text.removesuffix("[*]").removesuffix("()") in integers or values.is_integer(each)
            for each in sources
            if not (each.text.startswith(_PARSER) or _gives_part(values, each))
        }
        return True if known == {True} else None

    def _place(self, value: ast.expr) -> int:
        """The place of a value that a call is given; 0 where it is not followed."""
        call, at = self._argument(value)
        values = values_of(self.names.project)
        place = values.call_at(self.names, call) if call is not None else 0
        return values.at(place).arguments(values.at(place).calls[place]).get(at, 0) if place else 0

    def _argument(self, value: ast.expr) -> tuple[ast.Call | None, str]:
        """The call that a value is an argument of, with its keyword or position; None where it is not one."""
        above = self.file.parents[value]
        call = self.file.parents[above] if isinstance(above, ast.keyword) else above
        if not isinstance(call, ast.Call) or value is call.func:
            return None, ""
        return call, above.arg or "" if isinstance(above, ast.keyword) else str(call.args.index(value))

    def _takes_device(self, use: ast.expr) -> bool:
        above = self.file.parents[use]
        if isinstance(above, ast.keyword):
            return above.arg in _DEVICE_KEYWORDS
        return isinstance(above, ast.Call) and above.args[:1] == [use] and last_name(above.func) in _DEVICE_CALLS

    def _calls_for(self, value: ast.expr) -> list[ast.Call]:
        """The calls in this file that give a number which comes to a call as this argument."""
        outer, _ = self._argument(value)
        if not isinstance(value, (ast.Name, ast.Attribute)) or outer is None or not self._uses:
            return []
        here = values_of(self.names.project).call_at(self.names, outer)
        return [
            call for call, uses in self._uses.items() if any(here == use.place for use in uses if use.kind != "text")
        ]

    @cached_property
    def _uses(self) -> dict[ast.Call, list[ValueUse]]:
        """The uses of the number of a card that calls in this file give; of kind "text" where it is a part of one."""
        if _CURRENT not in self.file.text:
            return {}
        values, called = values_of(self.names.project), self.file.unordered().get(ast.Call, ())
        numbers = [call for call in called if isinstance(call, ast.Call) and last_name(call.func) == _CURRENT]
        calls = [call for call in numbers if isinstance(self.file.parents[call], _ASSIGNING)]  # not a part of a text
        found: dict[ast.Call, list[ValueUse]] = {}
        for call in calls:
            if at := values.call_at(self.names, call):
                uses = values.uses(at, self.names.path)
                found[call] = [use._replace(kind="text") if values.is_in_text(at, use.state) else use for use in uses]
        return found


def _gives_part(values: Values, source: ValueOrigin) -> bool:
    """Return whether a source is a function of Python that gives what it is given, or an element: a source as well."""
    function = source.text.removesuffix("()")
    return "." not in function and values.is_effect(function, "element", "largest")


def _current_cards(values: Values) -> frozenset[tuple[str, int]]:
    """The files and nodes that the number of the current card comes to: places are forgotten before the project is."""
    files = [file for path in sorted(values.project.naming(_CURRENT)) if (file := values.file_at(path)) is not None]
    read = {each for file in files for fields in file.loads.values() for each in fields.get(f".{_CURRENT}", ())}
    taken = {file.first + each.node for file in files for each in file.facts.imports if each.name == _CURRENT}
    functions = [at for at in read | taken if any(each.text.endswith(f".{_CURRENT}") for each in values.origins(at))]
    calls = {call for function in functions for call in values.callers(function)}
    reached = {
        at for call in calls for at, path in values.reach(call) if not path and not values.is_in_text(call, (at, path))
    }
    return frozenset((values.path_at(at), at - values.at(at).first) for at in reached)


def _is_device(use: ValueUse) -> bool:
    """Return whether a value is given to a parameter that takes the name of a device as well as its number."""
    is_first = use.key == "0" and use.text.removesuffix("()").rpartition(".")[2] in _DEVICE_CALLS
    return use.kind == "argument" and (is_first or use.key in _DEVICE_KEYWORDS)


def _is_number_by_default(value: ast.expr, scope: Scope) -> bool:
    """`device` in `def move(net, device=0):`"""
    owner, bindings = (scope.lookup(value.id) if isinstance(value, ast.Name) else None) or (scope, [])
    if not isinstance(owner.node, (*FUNCTIONS, ast.Lambda)):
        return False
    given = {parameter for parameter, default in defaults(owner.node) if is_integer(default)}
    return any(isinstance(each, Parameter) and each.node in given for each in bindings)


def argument_index(given: Sequence[Argument], wanted: str | int) -> int | None:
    """The index of an argument by its keyword or its position; None where it is not given, or behind unpacked ones."""
    if isinstance(wanted, int):
        plain = wanted < len(given) and not any(map(is_unpacked, given[: wanted + 1]))
        return wanted if plain and not isinstance(given[wanted], ast.keyword) else None
    return next((at for at, each in enumerate(given) if argument_keyword(each) == wanted), None)


def runs(indexes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The runs of neighbours in a sorted list, as their first and last: one removal each."""
    start = 0
    for place, index in enumerate(indexes):
        if place + 1 == len(indexes) or indexes[place + 1] != index + 1:
            yield indexes[start], index
            start = place + 1


def with_number(template: str, value: ast.expr) -> str:
    """The template of an argument, in which a number that is written out is a part of a plain string."""
    return _FORMATTED.sub(rf"\g<1>{value.value}", template) if is_integer(value) else template


class Pair(NamedTuple):
    """A key of a dictionary: its text, the code that gives it, and its value."""

    name: str
    key: ast.expr
    value: ast.expr


class UnpackedArguments:
    """Finds in one file the keys of the dictionaries that calls unpack."""

    def __init__(self, file: PythonFile) -> None:
        self.file = file

    def of(self, node: ast.Call, scope: Scope) -> list[Pair]:
        """The keys that a call unpacks, with what gives their values."""
        return [pair for keyword in node.keywords if keyword.arg is None for pair in self._pairs(keyword.value, scope)]

    def _pairs(self, mapping: ast.expr, scope: Scope) -> Iterator[Pair]:
        """The keys of a display or `dict` call, of each value that a name has, and those stored under the name."""
        yield from self._given(mapping)
        found = scope.lookup(mapping.id) if isinstance(mapping, ast.Name) else None
        if found is None or not isinstance(mapping, ast.Name):
            return
        for value in filter(None, scope.values(mapping)):
            yield from self._given(value)
        for owner, where in self._stores.get(mapping.id, ()):
            known = where.lookup(mapping.id)
            if known is not None and known[0] is found[0]:
                yield from self._stored(owner)

    def _given(self, whole: ast.expr) -> Iterator[Pair]:
        if isinstance(whole, ast.Dict):
            for key, value in zip(whole.keys, whole.values, strict=True):
                name = string_value(key)
                if key is None:
                    yield from self._given(value)
                elif name is not None:
                    yield Pair(name, key, value)
        elif isinstance(whole, ast.Call) and isinstance(whole.func, ast.Name) and whole.func.id == "dict":
            yield from (Pair(each.arg, each.value, each.value) for each in whole.keywords if each.arg is not None)

    @cached_property
    def _stores(self) -> dict[str, list[tuple[ast.Name, Scope]]]:
        """The names below which something may be stored, as `options` in `options["gpus"] = 2`."""
        found: dict[str, list[tuple[ast.Name, Scope]]] = {}
        for node, scope in self.file.uses:
            part = node
            while isinstance(part, ast.Attribute):
                part = part.value
            if isinstance(part, ast.Name) and isinstance(self.file.parents.get(part), (ast.Subscript, ast.Attribute)):
                found.setdefault(part.id, []).append((part, scope))
        return found

    def _stored(self, owner: ast.Name) -> Iterator[Pair]:
        """The keys that `options["gpus"] = 2`, `options.update(gpus=2)` and `options.setdefault("gpus", 2)` store."""
        above = self.file.parents[owner]
        beyond = self.file.parents[above]
        if isinstance(above, ast.Subscript):
            name = string_value(above.slice)
            if name is not None and isinstance(beyond, ast.Assign) and above in beyond.targets:
                yield Pair(name, above.slice, beyond.value)
        elif isinstance(above, ast.Attribute) and (call := self.file.call_of(above)) is not None:
            if above.attr == "update":
                yield from (Pair(each.arg, each.value, each.value) for each in call.keywords if each.arg is not None)
                yield from (pair for each in call.args for pair in self._given(each))
            elif above.attr == "setdefault" and len(call.args) == 2:
                name = string_value(call.args[0])
                yield from (Pair(name, *call.args),) if name is not None else ()
