"""The parts that every kind of match has: a kind is one class, in a module of its own in gpu2npu/kinds/."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

from gpu2npu.records import FindingKind, Severity

if TYPE_CHECKING:
    from gpu2npu.engine.file_rules import FileRules, Handlers, RuledString
    from gpu2npu.engine.knowledge import Knowledge, PlaceHandlers
    from gpu2npu.engine.line_sites import Site
    from gpu2npu.python.meaning.names import Names
    from gpu2npu.rulebook.rule import Role

IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
QUALIFIED_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
# The severity of a finding if only its kind is known.
SEVERITIES = {
    FindingKind.UNSUPPORTED: Severity.BLOCKER,
    FindingKind.UNKNOWN: Severity.NOTE,
    FindingKind.FALLBACK: Severity.ADVICE,
    FindingKind.REVIEW: Severity.CHANGE,
}

Json = Mapping[str, Any]


class Evidence(Struct, frozen=True):
    """Texts without which a file has no match: words that it has all of, or where `pattern` is set, a regular
    expression for its bytes. A last word that ends in a star stands for any word that begins so."""

    words: str = ""
    pattern: str | None = None


_known: dict[str, type[Match]] = {}


class Match(Struct, frozen=True):
    """The match of a rule. The fields are the keys of the entry in the rule file, the first one called `key` there.

    `shape` has the JSON Schema of each key, `actions` what can be done with a match besides report, trait and keep,
    `additions` what `add` can add, and `new_name` what a new name must look like, with the words for that.
    `in_strings`: in Python it is looked for in strings alone. Kinds of a
    lower `order` are applied first. `starter` is a rule to start from, without its id.
    """

    key: ClassVar[str]
    shape: ClassVar[Json]
    actions: ClassVar[tuple[str, ...]]
    additions: ClassVar[tuple[str, ...]] = ()
    starter: ClassVar[Json]
    new_name: ClassVar[tuple[re.Pattern[str], str] | None] = None
    in_strings: ClassVar[bool] = False
    order: ClassVar[int] = 0

    def __init_subclass__(cls) -> None:
        if "key" in vars(cls):
            _known[cls.key] = cls

    @property
    def index(self) -> str:
        """The text that the rules of the kind are found by in a table of rules."""
        return str(getattr(self, self.__struct_fields__[0]))

    @property
    def evidence(self) -> Evidence | None:
        """Texts without which a Python file has no match; None where none has one."""
        return Evidence(self.index)

    @property
    def qualified(self) -> str | None:
        """The qualified name that is matched, of an argument that of its function; None for what has no such name."""
        return None

    @property
    def callee_leaves(self) -> frozenset[str]:
        """The last names of functions and classes that are matched also under another name from another file."""
        return frozenset()

    @property
    def outside_python(self) -> tuple[Evidence, ...]:
        """Texts without one of which a file that is not Python has no match; nothing where no such file has one."""
        found = self.evidence if "place_handlers" in vars(type(self)) else None
        return () if found is None else (found,)

    @property
    def distribution_names(self) -> frozenset[str]:
        """The names by which pip knows what is matched."""
        return frozenset()

    @property
    def roles(self) -> frozenset[str]:
        """The roles of strings that the match needs."""
        return frozenset()

    @property
    def is_of_any(self) -> bool:
        """Return whether it is an argument of whatever is called, and with that a key of a configuration."""
        return False

    @property
    def argument_name(self) -> str | int | None:
        """The keyword or position of the argument that is matched."""
        return None

    @property
    def package(self) -> str | None:
        """The module whose imports are matched."""
        return None

    @property
    def cuda_only_patterns(self) -> Mapping[str, str]:
        """Regular expressions for what shows that code is for CUDA alone, by where they are looked for."""
        return {}

    # For people.

    @property
    def text(self) -> str:
        """Describe what is matched, as the end of a sentence that begins "Matches"."""
        raise NotImplementedError

    @property
    def subject(self) -> str:
        """The matched thing in a few characters."""
        raise NotImplementedError

    @property
    def word(self) -> str:
        """The word that is at each match."""
        return self.index

    def is_on(self, line: str) -> bool:
        """Return whether a line has the words that there is no match without."""
        return re.search(rf"(?<!\w){re.escape(self.word)}(?!\w)", line) is not None

    @property
    def otherwise(self) -> str:
        """The reason why code is not matched, if no closer one is known."""
        return f"the code here is other than the rule's: it matches {self.text}"

    @property
    def why_not_named(self) -> str:
        """The reason why a line on which the `word` is not a name of the code has no match."""
        return f"`{self.word}` is only in text here (a comment or a string), and the rule is for code"

    def why_not(self, site: Site, names: Names) -> str | None:
        """Return why a name on a line, which is the `word`, is not what is matched; None where that is not known."""
        wanted, shown = self.qualified, site.shown
        if wanted is None:
            return self.otherwise
        meaning = names.qualified(site.node, site.scope)
        if wanted.startswith("*") or meaning == wanted:
            return None
        if meaning is None:
            return f"`{shown}` is nothing that an import of this file leads to"
        means = f" means `{meaning}` here, which" if meaning != shown else ""
        return f"`{shown}`{means} is another name than the rule's"

    def why_not_text(self, site: Site, names: Names, new: str, roles: Mapping[str, Role]) -> Iterator[str]:
        """Yield why a string on a line, which becomes `new` where it is matched, is not what is matched."""
        return iter(())

    def severity(self, kind: FindingKind) -> Severity:
        """The severity of what a rule reports, unless it states one: its message says what to write."""
        return Severity.CHANGE if kind is FindingKind.UNSUPPORTED else SEVERITIES[kind]

    # In files.

    def renamed(self, name: str, new: str) -> str:
        """The new name of what is matched under a name, where `new` is that of the rule."""
        return new

    @classmethod
    def in_python(cls, work: FileRules) -> None:
        """Apply the rules of the kind to a Python file, before its names, calls and strings are visited."""

    @classmethod
    def handlers(cls, work: FileRules) -> Handlers:
        """Return what is done at the nodes of a Python file: functions by the type of the node, those that name, call,
        import, define or quote something first. One that gives true has handled its node for the kinds tested later.
        `Quoted` stands for strings whose text no rule matches, `ast.Module` for the end of the file."""
        return {}

    @classmethod
    def in_text(cls, work: FileRules, ruled: RuledString) -> None:
        """Apply the rules of the kind to the text of a string, for which no rule with a role has been tested."""

    @classmethod
    def place_handlers(cls, rules: Knowledge) -> PlaceHandlers:
        """Return what is done at the places of a file that is not Python, by their types (engine/knowledge.py). Each
        gives the marks there, or None where no rule is for it; no other is asked after the first that gives marks."""
        return {}

    # Beside other rules.

    def meets(self, other: Match) -> bool:
        """Return whether another match of the kind may be for the same place."""
        return self == other

    def covers(self, other: Match) -> bool:
        """Return whether a match of the kind is for something under what this one is for."""
        return False

    def before(self, other: Match) -> str | None:
        """Return why this is tested before a match of another kind where both fit; None if there is no such place."""
        return None

    # In a rule file.

    @classmethod
    def decode(cls, entry: Mapping[str, Any]) -> Match:
        """The match of an entry that fits the schema."""
        given = {name: entry[key] for name, key in cls._keys() if key in entry}
        return cls(**{name: frozenset(value) if isinstance(value, list) else value for name, value in given.items()})

    def encode(self) -> dict[str, Any]:
        """The entry; keys that say nothing are left out."""
        defaults = self._defaults()
        values = {key: getattr(self, name) for name, key in self._keys() if getattr(self, name) != defaults.get(name)}
        return {key: sorted(value) if isinstance(value, frozenset) else value for key, value in values.items()}

    @classmethod
    def _keys(cls) -> Iterator[tuple[str, str]]:
        """The fields, each with its key in the rule file."""
        for index, name in enumerate(cls.__struct_fields__):
            yield name, name if index else cls.key

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """The defaults of the fields that have one, which are the last."""
        defaults = cls.__struct_defaults__
        return dict(zip(cls.__struct_fields__[-len(defaults) :], defaults, strict=True)) if defaults else {}

    @classmethod
    def schema(cls) -> dict[str, Any]:
        """The JSON Schema of an entry."""
        required = [key for name, key in cls._keys() if name not in cls._defaults()]
        return {"type": "object", "additionalProperties": False, "required": required, "properties": dict(cls.shape)}

    @classmethod
    def problems(cls, entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with a rule of the kind that the schema cannot say: the place below the rule, and the
        reason."""
        return iter(())


@cache
def kinds() -> Mapping[str, type[Match]]:
    """The kinds of matches by their keys. They are the modules in gpu2npu/kinds/, found by being there: a new kind is a
    new file. Rule files cannot be read without them, so this is the one import against the layers (pyproject.toml)."""
    from gpu2npu.kinds import import_all

    import_all()
    return dict(sorted(_known.items()))


def kind_of(entry: Mapping[str, Any]) -> type[Match]:
    """The kind of match that an entry of a rule file is."""
    return next(kind for key, kind in kinds().items() if key in entry)


def decode_match(entry: Mapping[str, Any]) -> Match:
    """The match of an entry that fits the schema."""
    return kind_of(entry).decode(entry)


class ReferenceMatch(Match, frozen=True):
    """A match by the qualified name of a function or class, which is the first field: a rule is found by its last name,
    also where the project has another name for it."""

    @property
    def qualified(self) -> str:
        return super().index

    @property
    def index(self) -> str:
        return leaf(self.qualified)

    @property
    def evidence(self) -> Evidence | None:
        return Evidence(last_two(self.qualified))

    @property
    def callee_leaves(self) -> frozenset[str]:
        return frozenset() if self.qualified.startswith("*") else frozenset({self.index})


def spellings(name: str) -> tuple[Evidence, ...]:
    """The evidence of a name that is written with `-` or with `_`."""
    return Evidence(name.replace("-", "_")), Evidence(name.replace("_", "-"))


def leaf(name: str) -> str:
    """The last part of a dotted name."""
    return name.rpartition(".")[2]


def last_two(name: str) -> str:
    """The part of a qualified name that a file spells which uses it through another module of the project."""
    return ".".join(name.split(".")[-2:])


def listed(words: Iterable[str]) -> str:
    """Words of code in their order, for a sentence."""
    return ", ".join(f"`{word}`" for word in sorted(words))


def callee_text(name: str) -> str:
    """Describe what a callee stands for: `*.load` is any function of that name, `lib.*` any of a package."""
    if name.endswith(".*"):
        return f"any function of `{name[:-2]}`"
    return f"any function or method `{name[2:]}`" if name.startswith("*.") else f"`{name}`"


def may_be_one(one: str, other: str) -> bool:
    """Return whether two callees may be one function: `*.load` is any of that name, `*` any at all."""
    if one == other or "*" in (one, other):
        return True
    if one.endswith(".*") or other.endswith(".*"):
        return one.startswith(other.rstrip("*")) or other.startswith(one.rstrip("*"))
    return "*." in one[:2] + other[:2] and leaf(one) == leaf(other)
