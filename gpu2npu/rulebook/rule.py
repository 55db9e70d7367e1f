"""The frozen form of a rule, one entry of a rule file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from msgspec import Struct

from gpu2npu.records import FindingKind, Severity
from gpu2npu.rulebook.expression import Expression
from gpu2npu.rulebook.match import Match
from gpu2npu.support.behaviour import row
from gpu2npu.support.chips import DEFAULT_CHIP
from gpu2npu.support.releases import has_fact


class Where(Struct, frozen=True):
    """The files a rule is for: those whose path fits one of the patterns, that import one of the modules, that do so or
    that imports join to one that does (`nearby`), and that are in a `project` some file of which imports one and no
    file of which imports one of `without`.

    An empty set sets no limit.
    """

    files: frozenset[str] = frozenset()
    imports: frozenset[str] = frozenset()
    nearby: frozenset[str] = frozenset()
    project: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()


class Report(Struct, frozen=True):
    """The finding that a rule reports at a matched place."""

    kind: FindingKind
    message: str
    severity: Severity


class Addition(Struct, frozen=True):
    """Code that is added at a match: `what` is base, decorator or statement. A statement is put at a `place`: before or
    after the statement that has the match, first in the function around it, or, as the head of a `with`, around it."""

    what: str
    code: str
    place: str = "before"


class Then(Struct, frozen=True):
    """The actions of a rule on a match; several fields may be set together.

    `rename` replaces the matched (part of the) name or string. With `needs_target` that happens only where the
    torch_npu release has the new name; elsewhere the place is left and reported. `replace` is code for the whole
    matched call or argument, with placeholders (see rulebook/template.py and code_pattern.py). `codemod` is a
    function of a rule pack, `module:name`, that gives the code for a call (see kinds/call.py).
    `remove` takes what is matched out; `add` adds code beside it. `values` are those of an environment variable
    with what becomes of them: where it is not set to one of these, it is not renamed, and reported. `imports` is a
    module that the changed file must import. `own_devices` means that a package computes without PyTorch and knows
    no NPU: devices that it is given stay as they are. `plugin` is the package that brings this one to Ascend.
    `trait` is a fact about the program, noted for the reports. `keep` ends the search: later rules do not see the
    place.
    """

    rename: str | None = None
    replace: str | None = None
    codemod: str | None = None
    remove: bool = False
    add: Addition | None = None
    needs_target: bool = False
    own_devices: bool = False
    plugin: str | None = None
    values: tuple[tuple[str, str], ...] = ()
    imports: str | None = None
    report: Report | None = None
    trait: str | None = None
    keep: bool = False


class Example(Struct, frozen=True):
    """One executed example: `before` becomes `after` (the same text when kept), with a finding of kind `reports`.

    `file` is the name of the file it is in; `version` the PyTorch version, the rule's first one unless given.
    """

    before: str
    after: str
    reports: FindingKind | None = None
    version: str | None = None
    file: str = "example.py"


class Rule(Struct, frozen=True):
    """One piece of migration knowledge. `since` and `until` bound the source's PyTorch version, both included; a patch
    release counts as its minor release. `needs` and `lacks` are facts of support.releases, or "limit" and the id of a
    row of support.behaviour: the rule is only for releases of torch_npu that have the one, and have not the other.

    `file` is the rule file it is in: the name of a built-in one, the path of a user's. `source` is where the fact
    is from, and the month it was looked up.
    """

    id: str
    why: str
    match: Match
    then: Then
    examples: tuple[Example, ...]
    since: str | None = None
    until: str | None = None
    needs: str | None = None
    lacks: str | None = None
    where: Where = Where()
    builtin: bool = True
    file: str = ""
    source: str = ""

    def expression(self, text: str, *, ignores_case: bool = False) -> Expression:
        """A regular expression of this rule."""
        return Expression(text, self.named, ignores_case)

    @property
    def named(self) -> str:
        """The name of the rule in a sentence, of a user's with its file."""
        return f"rule '{self.id}'" if self.builtin else f"rule '{self.id}' in {self.file}"

    def applies_to(self, version: str) -> bool:
        """Return whether the rule is for a version of PyTorch or of torch_npu."""
        return is_for(version, self.since, self.until, self.needs, self.lacks)


@cache
def is_for(version: str, since: str | None, until: str | None, needs: str | None, lacks: str | None) -> bool:
    """Return whether a rule with these limits is for a version of PyTorch or of torch_npu."""
    release = minor_release(version)
    return (
        (since is None or minor_release(since) <= release)
        and (until is None or release <= minor_release(until))
        and (needs is None or _is_true_of(version, needs))
        and (lacks is None or not _is_true_of(version, lacks))
    )


def _is_true_of(version: str, fact: str) -> bool:
    """Return whether a version has a fact, or with "limit ID" that row of the table of behaviour."""
    limit = row(fact.removeprefix("limit ")) if fact.startswith("limit ") else None
    return has_fact(version, fact) if limit is None else limit.is_for(version, DEFAULT_CHIP)


def minor_release(version: str) -> tuple[int, ...]:
    """The first two numbers of a version."""
    return tuple(map(int, version.split(".")[:2]))


class Role(Struct, frozen=True):
    """The places where a bare string has a certain meaning; all words are compared in lower case.

    `words`: a variable, parameter, key or flag whose name contains one of them holds such a value.
    `siblings`: strings that are beside it, in a list or the other branch of a condition.
    `callables`: qualified names whose arguments are such values. `methods`: method names likewise.
    `others`: qualified names whose arguments are no such values, whatever they are called.
    `attributes`: attributes that hold one on any object (`device.type`).
    `features`: words in the names of what only NVIDIA's devices do, which a comparison with the string switches on.
    `strangers`: strings beside which the siblings prove nothing, since their list is of something else.
    `vendors`: strings that name whose devices are meant; alone beside them a string names that, too.
    `prefix`, `suffix`: regular expressions for what may be before and follow in the same string (`:0`); with one of
    them the meaning is certain.
    """

    words: frozenset[str] = frozenset()
    siblings: frozenset[str] = frozenset()
    callables: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()
    methods: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()
    features: frozenset[str] = frozenset()
    strangers: frozenset[str] = frozenset()
    vendors: frozenset[str] = frozenset()
    prefix: str | None = None
    suffix: str | None = None


@dataclass(frozen=True, eq=False)
class Rulebook:
    """Rules in the order in which they are tested: the user's before the built-in ones. `limited` has the limits of the
    rules that are not for every file, each with the ids of those that have it."""

    rules: tuple[Rule, ...]
    roles: Mapping[str, Role]
    limited: tuple[tuple[Where, frozenset[str]], ...] = field(init=False)

    def __post_init__(self) -> None:
        found: dict[Where, list[str]] = {}
        for rule in self.rules:
            if rule.where != Where():
                found.setdefault(rule.where, []).append(rule.id)
        object.__setattr__(self, "limited", tuple((where, frozenset(ids)) for where, ids in found.items()))


class RuleError(ValueError):
    """A rule file cannot be used; the text is one sentence for the user."""


def printable(place: str) -> str:
    """A place in a document as it is in a sentence: what does not print, such as a line's end, is escaped."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in place)
