"""The rules for a file that is not Python, and the places in it that the kinds of matches are tested at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from msgspec import Struct

from gpu2npu.distributions import normalised
from gpu2npu.engine.marks import Mark
from gpu2npu.engine.table import RuleTable, Trigger, rule_table, trigger_of
from gpu2npu.rulebook.rule import Rule, Rulebook

PlaceHandler = Callable[[Any], "list[Mark] | None"]
PlaceHandlers = Mapping[type[Any], PlaceHandler]


class SetVariable(Struct, frozen=True):
    """The value that a variable is set to, and where that is.

    `bare`: a shell reads it, and no quotes are around it.
    """

    text: str
    start: int
    bare: bool = False


class NamedVariable(Struct, frozen=True):
    """An environment variable whose name is at `start`, with what it is set to there, if anything."""

    name: str
    start: int
    given: SetVariable | None = None


class SettingValue(Struct, frozen=True):
    """The value at `start` below some keys; None where it is a number or the like, whose text is `atom`."""

    keys: Sequence[str]
    value: str | None
    start: int
    atom: str = ""


class KeyedValue(Struct, frozen=True):
    """A value at `start` by the nearest key alone: an option of the program `of`, or with `*` a key of anything. It is
    None where it is not a string, and the key is at `start`; `siblings` are the others of its list."""

    key: str | None
    of: str
    value: str | None
    start: int
    siblings: Set[str] = frozenset()


class CommandLine(Struct, frozen=True):
    """A program whose name is at `start`, and the `words` after it with their places; `is_bare`: it has none, and
    nothing reads its output. With None for the words it is only looked for, as by `which`."""

    name: str
    start: int
    words: Sequence[tuple[str, int]] | None
    is_bare: bool = False


class AnyText(Struct, frozen=True):
    """A text at `start`, whatever it means."""

    text: str
    start: int


@dataclass
class Knowledge:
    """The rules for one file. `distributions` are import rules by the normalised names of what pip installs; `text` is
    the file, `own` the variables that it sets for itself alone; `uses_device` means that the project needs
    torch-npu. `handlers` are what each kind does at a place, by its type."""

    table: RuleTable
    version: str
    distributions: Mapping[str, Rule]
    trigger: Trigger
    text: str = ""
    own: frozenset[str] = frozenset()
    uses_device: bool = True
    handlers: Sequence[PlaceHandlers] = field(init=False)

    def __post_init__(self) -> None:
        self.handlers = [kind.place_handlers(self) for kind in self.table.classes]

    def variable(self, name: str, start: int, given: SetVariable | None = None) -> list[Mark]:
        """Return the marks for an environment variable whose name is at `start`, and for what it is set to."""
        return self.first(NamedVariable(name, start, given)) or []

    def value(self, key: str | None, value: str, start: int, siblings: Set[str] = frozenset()) -> list[Mark]:
        """Return the marks for a value that is at `start` under `key`; `siblings` are the others of its list."""
        dotted = (key or "").lstrip("-+~").split(".")
        known = self.first(SettingValue(dotted, value, start)) if len(dotted) > 1 else None
        return known if known is not None else self.first(KeyedValue(key, "*", value, start, siblings)) or []

    def patterns(self, text: str, start: int) -> list[Mark]:
        """Return the marks of all kinds in text that is at `start`."""
        return [mark for marks in self._each(AnyText(text, start)) for mark in marks or ()]

    def first(self, place: object) -> list[Mark] | None:
        """Return the marks of the first kind that has a rule for a place; None if none has."""
        return next((marks for marks in self._each(place) if marks is not None), None)

    def _each(self, place: object) -> Iterator[list[Mark] | None]:
        return (handlers[type(place)](place) for handlers in self.handlers if type(place) in handlers)


@lru_cache(maxsize=16)
def knowledge_for(rulebook: Rulebook, version: str, without: frozenset[str] = frozenset()) -> Knowledge:
    """The knowledge for a project of PyTorch `version`, without the rules of some ids."""
    active = [rule for rule in rulebook.rules if rule.id not in without and rule.applies_to(version)]
    distributions: dict[str, Rule] = {}
    for rule in active:
        for name in rule.match.distribution_names:
            distributions.setdefault(normalised(name), rule)
    trigger = trigger_of((rule, each) for rule in active for each in rule.match.outside_python)
    return Knowledge(rule_table(rulebook, version, without), version, distributions, trigger)
