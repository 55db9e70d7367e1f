"""All rules of a rulebook in one look-up table, so that the cost of a file does not grow with their number."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from fnmatch import fnmatchcase, translate
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from gpu2npu.engine.required_texts import FilePattern, any_in, any_may_be_in, required_texts, unanchored
from gpu2npu.engine.skips import EVERY_RULE
from gpu2npu.python.facts.record import with_packages
from gpu2npu.python.text.source import words
from gpu2npu.rulebook.expression import Expression
from gpu2npu.rulebook.in_code import BUILT
from gpu2npu.rulebook.match import Evidence, Match, leaf
from gpu2npu.rulebook.rule import Role, Rule, Rulebook
from gpu2npu.support.cann import cann_for
from gpu2npu.support.releases import since_when

_WORD = re.compile(rb"\w+")

# In a message: the container image with the CANN of the chosen torch_npu.
IMAGE = "{cann_image}"


class Trigger(Struct, frozen=True):
    """The texts of which a file must have one for any rule to matter.

    These are words, words with others that go with them, beginnings of words, and patterns.
    """

    words: frozenset[bytes]
    together: Mapping[bytes, tuple[frozenset[bytes], ...]]
    beginnings: tuple[bytes, ...]
    patterns: tuple[FilePattern, ...]

    def is_in(self, source: bytes) -> bool:
        """Return whether the bytes of a file have it; the cost hardly depends on the number of rules."""
        return self._has_words(source) or any_in(self.patterns, source)

    def may_be_in(self, source: bytes) -> bool:
        """Return whether the bytes of a file may have it. No expression of a rule is executed."""
        return self._has_words(source) or any_may_be_in(self.patterns, source)

    def places_in(self, text: str) -> list[int]:
        """The offsets in a text at which there is something that a rule could be for, sorted."""
        lowered = text.lower()
        if len(lowered) != len(text):  # as that of a Turkish I: anything may be anywhere
            return list(range(len(text)))
        found = words(text.encode("utf-8", "surrogatepass"))
        whole = self.words & found
        for word in self.together.keys() & found:
            whole = whole.union(*({word, *others} for others in self.together[word] if others <= found))
        required = (max(each.required, key=_shortest, default=frozenset({b""})) for each in self.patterns)
        parts = (_occurrences(part.decode(), lowered) for texts in required for part in texts)
        exact = (_occurrences(word.decode(), text) for word in whole.union(self.beginnings))
        return sorted({at for places in (*parts, *exact) for at in places})

    def _has_words(self, source: bytes) -> bool:
        found = words(source)
        if not self.words.isdisjoint(found):
            return True
        if any(others <= found for word in self.together.keys() & found for others in self.together[word]):
            return True
        length = min(map(len, self.beginnings), default=0)
        heads = {beginning[:length] for beginning in self.beginnings} & {word[:length] for word in found}
        return any(word.startswith(self.beginnings) for word in found if word[:length] in heads) if heads else False


def _occurrences(part: str, text: str) -> Iterator[int]:
    """The offsets of a part in a text, of a word or not: found many times as fast as by an expression."""
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


class StringRule(Struct, frozen=True):
    """A string rule with its role, and the pattern of the literals it may apply to."""

    rule: Rule
    text: str
    role: Role
    literal: Expression


class RuleTable(Struct, frozen=True):
    """Rules by what they match.

    `calls` and `arguments` are found by the last name of what is called, arguments of any call by `keywords`;
    `families` are environment variables by their beginning, one of `beginnings`, `endings` imported modules by their
    end. `plugins` has by a rule's id the module that its edits need. `leaves` are the last parts of all rule
    names: cheap evidence that a name matters. `kinds` has the rules of each kind by the text that finds
    them, `words` these texts, and `classes` are the kinds in the order in which they are tested.
    What a pattern matches has, in whatever letters, one of its `pattern_texts` in small ones; `any_text` finds one of
    them, or of the texts of other rules, in the small letters of a text that a rule is for, and `ending` a module that
    one of the endings is for. `foreign_packages` know no NPU, `has_built` says
    that the project builds modules from CUDA sources, `argument_names` are the keywords and positions of the
    arguments that rules are for, `users_names` the qualified names that users' rules
    are for, `new_packages` those that names are renamed to. `cuda_only_patterns` has what shows code for CUDA alone, by
    where it is looked for.
    """

    leaves: frozenset[str]
    new_packages: frozenset[str]
    trigger: Trigger
    literal: re.Pattern[str]
    plugins: dict[str, str]
    names: dict[str, list[Rule]]
    methods: dict[str, Rule]
    attributes: dict[str, Rule]
    strings: list[StringRule]
    texts: dict[str, Rule]
    patterns: list[tuple[Expression, Rule]]
    calls: dict[str, list[Rule]]
    arguments: dict[str, list[Rule]]
    keywords: dict[str, list[Rule]]
    packages: dict[str, Rule]
    endings: dict[str, Rule]
    variables: dict[str, Rule]
    families: dict[str, Rule]
    beginnings: tuple[str, ...]
    kinds: Mapping[str, dict[str, list[Rule]]]
    words: Mapping[str, frozenset[bytes]]
    classes: tuple[type[Match], ...]
    any_text: re.Pattern[str]
    pattern_texts: list[frozenset[str]]
    ending: re.Pattern[str]
    foreign_packages: frozenset[str]
    has_built: bool
    argument_names: frozenset[str | int]
    users_names: frozenset[str]
    cuda_only_patterns: Mapping[str, tuple[Expression, ...]]

    def is_cuda_only(self, where: str, *texts: str | None) -> bool:
        """Return whether a rule says of one of some texts, at a place of a kind, that it is of what CUDA alone has."""
        patterns = self.cuda_only_patterns.get(where, ())
        return any(each.search(text) is not None for text in texts if text for each in patterns)

    def may_be_for(self, text: str) -> bool:
        """Return whether a rule may be for a text, whatever it means where it is written."""
        return self.any_text.search(text.lower()) is not None

    def of(self, kind: str) -> dict[str, list[Rule]]:
        """The rules of a kind, by the text that finds them."""
        return self.kinds.get(kind, {})

    def rule_for(self, qualified: str) -> tuple[Rule, str] | None:
        """The rule for a qualified name and the part of the name it matches: users' rules first, then the longest."""
        best: tuple[Rule, str] | None = None
        prefix = qualified
        while prefix:
            for rule in self.names.get(prefix, ()):
                if not rule.builtin:
                    return rule, prefix
                if best is None:
                    best = (rule, prefix)
            prefix = prefix.rpartition(".")[0]
        return best

    def package_rule(self, module: str) -> Rule | None:
        """The import rule for a module, or for the nearest package above it."""
        while module:
            if module in self.packages:
                return self.packages[module]
            module = module.rpartition(".")[0]
        return None

    def built_rule(self, qualified: str, path: str) -> Rule | None:
        """The rule for a module that the project builds from CUDA sources, which a qualified name in a file is of: a
        relative one under each name that its folders may give it."""
        if not self.has_built:
            return None
        stripped = qualified.lstrip(".")
        level = len(qualified) - len(stripped)
        above = path.split("/")[:-level] if level else []
        for first in range(max(len(above), 1)):
            rule = self.package_rule(".".join([*above[first:], stripped]))
            if rule is not None and rule.id == BUILT:
                return rule
        return None

    def ending_rule(self, name: str) -> Rule | None:
        """The import rule for modules whose name ends as this one does, or has the same part (`_cuda_*`)."""
        if self.ending.match(name) is None:  # most have none
            return None
        return next((rule for ending, rule in self.endings.items() if fnmatchcase(name, f"*{ending}")), None)

    def variable_rule(self, name: str) -> Rule | None:
        """The rule for an environment variable: its own, else that of the longest family it belongs to."""
        if name in self.variables:
            return self.variables[name]
        if "_STATUS_" in name:  # CUBLAS_STATUS_ALLOC_FAILED is an error, which programs look for in messages
            return None
        if not name.startswith(self.beginnings):
            return None
        longest = max(filter(name.startswith, self.families), key=len)
        rule = self.families[longest]
        new = rule.match.renamed(name, rule.then.rename) if rule.then.rename is not None else None
        return rule if new == rule.then.rename else replace(rule, then=replace(rule.then, rename=new))


@lru_cache(maxsize=64)
def rule_table(rulebook: Rulebook, version: str, without: frozenset[str] = frozenset()) -> RuleTable:
    """The table of the rules that are for a source of PyTorch `version`, `without` those of some ids."""
    chosen = (rule for rule in rulebook.rules if rule.applies_to(version) and rule.id not in without)
    rules = [_for_release(rule, version) for rule in chosen]
    index = _indexed(rules)

    def first(kind: str) -> dict[str, Rule]:
        """The rule that counts where several match the same: users' rules come first in a rulebook."""
        return {text: found[0] for text, found in index.get(kind, {}).items()}

    arguments = index.get("argument", {})
    packages, endings = _by_star(first("import"), lambda text: text[1:] if text.startswith("*") else None)
    variables, families = _by_star(first("environment"), lambda text: text[:-1] if text.endswith("*") else None)
    strings = [(rule, rule.match.index) for rule in rules if rule.match.key == "string"]
    roles = {rule.id: rulebook.roles[role] for rule, _ in strings for role in rule.match.roles}
    capitals = [(rule, Evidence(text.upper())) for rule, text in strings if rule.id in roles]  # "CUDA".lower()
    patterns = [(rule.expression(text), rule) for text, found in index.get("pattern", {}).items() for rule in found]
    pattern_texts = [_pattern_texts(pattern.text) for pattern, _ in patterns]
    others = (*(text for _, text in strings), *index.get("command", ()), *variables, *families)
    return RuleTable(
        leaves=frozenset(map(leaf, index.get("name", ()))),
        new_packages=frozenset(new for rule in rules if rule.match.key == "name" and (new := rule.then.rename)),
        trigger=trigger_of([*((rule, rule.match.evidence) for rule in rules), *capitals]),
        literal=re.compile(_any_of(text for rule, text in strings if rule.id in roles)),
        plugins={rule.id: rule.then.imports for rule in rules if rule.then.imports is not None},
        names=index.get("name", {}),
        methods=first("method"),
        attributes=first("attribute"),
        strings=[_string_rule(rule, text, roles[rule.id]) for rule, text in strings if rule.id in roles],
        texts={text: rule for rule, text in reversed(strings) if rule.id not in roles},
        patterns=patterns,
        calls=index.get("call", {}),
        arguments={text: found for text, found in arguments.items() if not text.startswith("*.")},
        keywords={text[2:]: found for text, found in arguments.items() if text.startswith("*.")},
        packages=packages,
        endings=endings,
        variables=variables,
        families=families,
        beginnings=tuple(families),
        kinds=index,
        words={kind: frozenset(text.encode() for text in found) for kind, found in index.items()},
        any_text=re.compile(_any_of(text.lower() for texts in (*pattern_texts, others) for text in texts)),
        pattern_texts=pattern_texts,
        ending=re.compile("|".join(translate(f"*{ending}") for ending in endings) or "(?!)"),
        foreign_packages=frozenset(
            module.partition(".")[0] for module, rule in packages.items() if rule.then.own_devices
        ),
        has_built=bool(rules) and rules[-1].id == BUILT,  # these are the last
        argument_names=frozenset(
            name for found in arguments.values() for rule in found if (name := rule.match.argument_name) is not None
        ),
        users_names=_users_names(
            rule
            for kind in ("name", "call", "argument")
            for text, found in index.get(kind, {}).items()
            for rule in found
            if not text.startswith("*.")
        ),
        cuda_only_patterns=_cuda_only_patterns(rules),
        classes=tuple(sorted({type(rule.match) for rule in rules}, key=lambda kind: (kind.order, kind.key))),
    )


def _cuda_only_patterns(rules: Iterable[Rule]) -> Mapping[str, tuple[Expression, ...]]:
    found: dict[str, tuple[Expression, ...]] = {}
    for rule in rules:
        for where, pattern in rule.match.cuda_only_patterns.items():
            found[where] = (*found.get(where, ()), rule.expression(pattern, ignores_case=True))
    return found


def _pattern_texts(pattern: str) -> frozenset[str]:
    """The texts in small letters of which every match of a pattern has one; the longest, if there are several sets."""
    required = max(required_texts(pattern.encode()), key=_shortest, default=frozenset({b""}))
    return frozenset(text.decode() for text in required)


def _users_names(rules: Iterable[Rule]) -> frozenset[str]:
    named = (rule.match.qualified for rule in rules if not rule.builtin)
    return frozenset(name for name in named if name is not None)


def _for_release(rule: Rule, version: str) -> Rule:
    """The rule with a message about the release that has what this one lacks, and the image of CANN for it."""
    report = rule.then.report
    if report is None or (rule.lacks is None and IMAGE not in report.message):
        return rule
    since = since_when(rule.lacks, version) if rule.lacks is not None else ""
    image = (cann_for(version).image or "quay.io/ascend/cann") if IMAGE in report.message else ""
    message = since + report.message.replace(IMAGE, image)
    return replace(rule, then=replace(rule.then, report=replace(report, message=message)))


def outside(
    rulebook: Rulebook,
    path: str,
    skipped: frozenset[str],
    imported: frozenset[str] | None = None,
    project: frozenset[str] | None = None,
    is_joined: Callable[[frozenset[str]], bool] | None = None,
) -> frozenset[str]:
    """The ids of the rules that are not for a file: its comments skip them, or their `where` leaves it out.

    `imported` are the modules the file imports, `project` those that some file of its project does, `is_joined` says of
    modules whether a file that imports join to this one imports one; None while they are not known.
    """
    if EVERY_RULE in skipped:
        return frozenset(rule.id for rule in rulebook.rules)
    own = with_packages(imported) if imported is not None else None
    known = own | with_packages(project) if project is not None and own is not None else None
    others: set[str] = set()
    for where, ids in rulebook.limited:
        is_near = _has(own, where.nearby) or (
            is_joined is not None and _has(known, where.nearby) and is_joined(where.nearby)
        )
        is_without = not where.without or (known is not None and not _has(known, where.without))
        is_in = _has(own, where.imports) and is_near and _has(known, where.project) and is_without
        if not is_in or (where.files and not any(fnmatchcase(path, pattern) for pattern in where.files)):
            others |= ids
    return skipped | others


def _has(imported: Set[str] | None, wanted: Set[str]) -> bool:
    """Return whether a module is imported, or may be; yes where none is asked for."""
    return imported is None or not wanted or not wanted.isdisjoint(imported)


def _indexed(rules: Iterable[Rule]) -> dict[str, dict[str, list[Rule]]]:
    """The rules by the kind of what they match, and by the text that finds them."""
    found: dict[str, dict[str, list[Rule]]] = {}
    for rule in rules:
        found.setdefault(rule.match.key, {}).setdefault(rule.match.index, []).append(rule)
    return found


def _by_star(found: Mapping[str, Rule], star: Callable[[str], str | None]) -> tuple[dict[str, Rule], dict[str, Rule]]:
    """The rules without a star, and those with one by the rest of their text."""
    families = {rest: rule for text, rule in found.items() if (rest := star(text)) is not None}
    return {text: rule for text, rule in found.items() if star(text) is None}, families


def _string_rule(rule: Rule, text: str, role: Role) -> StringRule:
    prefix, suffix = (
        f"(?P<{name}>{pattern or '(?!)'})?" for name, pattern in (("prefix", role.prefix), ("suffix", role.suffix))
    )
    return StringRule(rule, text, role, rule.expression(prefix + re.escape(text) + suffix))


def _shortest(texts: frozenset[bytes]) -> int:
    return min(map(len, texts))


def _any_of(words: Iterable[str]) -> str:
    # A word that contains another is found by it; fewer alternatives search faster.
    retained: list[str] = []
    for word in sorted(set(words), key=len):
        if not any(short in word for short in retained):
            retained.append(word)
    return "|".join(map(re.escape, retained)) if retained else r"(?!)"


def trigger_of(evidence: Iterable[tuple[Rule, Evidence | None]]) -> Trigger:
    """The texts that rules need, each of which is given with its rule."""
    lone: set[bytes] = set()
    together: dict[bytes, list[frozenset[bytes]]] = {}
    beginnings: list[bytes] = []
    patterns: list[FilePattern] = []
    for rule, each in evidence:
        if each is None:
            continue
        words_of_it = _WORD.findall(each.words.encode())
        if each.pattern is not None:
            patterns.append(unanchored(each.pattern, rule.named))
        elif each.words.endswith("*"):
            beginnings.append(each.words[:-1].encode())
        elif not words_of_it:
            patterns.append(FilePattern.of(re.escape(each.words)))
        elif len(words_of_it) == 1:
            lone.add(words_of_it[0])
        else:
            together.setdefault(words_of_it[-1], []).append(frozenset(words_of_it[:-1]))
    return Trigger(
        frozenset(lone), {word: tuple(others) for word, others in together.items()}, tuple(beginnings), tuple(patterns)
    )
