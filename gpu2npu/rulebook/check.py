"""The conditions on a rule file beyond being JSON: the schema, that its parts make sense together, and which rules of
several files are for the same code."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from msgspec import Struct

from gpu2npu.near_names import did_you_mean
from gpu2npu.rulebook.code_pattern import code_problem
from gpu2npu.rulebook.document import JSON_TYPES, schema, type_name
from gpu2npu.rulebook.expression import compile_problem
from gpu2npu.rulebook.match import Match, kind_of
from gpu2npu.rulebook.rule import Rule, Rulebook, RuleError, minor_release, printable
from gpu2npu.support.behaviour import row
from gpu2npu.support.releases import VERSIONS, released_with, torch_npu_versions

_EDITS = ("rename", "replace", "codemod", "remove", "add")
_ANYWHERE = ("report", "trait", "keep")


def check_document(document: object, path: Path) -> None:
    """Check a parsed rule file. Raises RuleError: a sentence for each place that is wrong, one a line, with the file,
    the JSON path and the rule."""
    import jsonschema

    try:
        errors = list(jsonschema.Draft202012Validator(schema()).iter_errors(document))
    except RecursionError as error:
        raise RuleError(f"{path}: is nested too deeply for a rule file.") from error
    clearest = [_clearest(error) for error in sorted(errors, key=_by_place)]
    found = (
        _sentence(path, error.json_path, _named_rule(document, error.absolute_path), _reason(error))
        for error in clearest
    )
    sentences = list(dict.fromkeys(found))  # one error a key, of one sentence about all that are missing
    unsound = {tuple(error.absolute_path)[:2] for error in errors}  # what their other parts mean cannot be said
    if isinstance(document, dict) and () not in unsound and ("rules",) not in unsound:
        sentences += _problems_of_rules(document, path, unsound)
        sentences += _problems_of_roles(document, path, unsound)
    if sentences:
        raise RuleError("\n".join(sentences))


def _problems_of_rules(document: dict[str, Any], path: Path, unsound: set[tuple[Any, ...]]) -> Iterator[str]:
    for index, entry in enumerate(document.get("rules", ())):
        if ("rules", index) not in unsound:
            for place, reason in _problems(entry):
                yield _sentence(path, f"$.rules[{index}].{place}", entry["id"], reason)


def _problems_of_roles(document: dict[str, Any], path: Path, unsound: set[tuple[Any, ...]]) -> Iterator[str]:
    if ("roles",) in unsound:
        return
    for name, role in document.get("roles", {}).items():
        for key in ("prefix", "suffix") if ("roles", name) not in unsound else ():
            if key in role and (problem := compile_problem(role[key])):
                yield _sentence(path, f"$.roles.{name}.{key}", None, problem)


def _sentence(path: Path, place: str, rule: str | None, reason: str) -> str:
    of_rule = f" (rule '{rule}')" if rule else ""
    return f"{path}: {printable(place)}{of_rule}: {' '.join(reason.split())}."


def _named_rule(document: object, path: Iterable[str | int]) -> str | None:
    """The id of the rule that a path in the document leads into, if it is known."""
    steps = list(path)
    if len(steps) < 2 or steps[0] != "rules" or not isinstance(document, dict):
        return None
    entry = document["rules"][steps[1]]
    found = entry.get("id") if isinstance(entry, dict) else None
    return found if isinstance(found, str) and len(steps) > 2 and steps[2] != "id" else None


# The schema, in sentences.


def _by_place(error: Any) -> list[tuple[bool, Any]]:
    """A key that sorts errors as their places are in the file, rules in their order."""
    return [(isinstance(step, str), step) for step in error.absolute_path]


def _clearest(error: Any) -> Any:
    """The deepest of an error and those that it comes from: in a choice, the alternative that the author meant."""
    while error.context and not _is_of_no_kind(error):
        error = max(error.context, key=lambda e: (len(e.absolute_path), _is_near(e)))
    return error


def _is_of_no_kind(error: Any) -> bool:
    """Return whether an object has the key of none of the alternatives, so that none can be the one that was meant."""
    keys = _keys_of_kinds(error.schema["oneOf"]) if error.validator == "oneOf" else []
    return isinstance(error.instance, dict) and bool(keys) and not set(keys) & set(error.instance)


def _keys_of_kinds(alternatives: Iterable[dict[str, Any]]) -> list[str]:
    """The keys that distinguish the alternatives of a choice between objects: the first that each requires."""
    return [schema["required"][0] for schema in alternatives if "required" in schema]


def _is_near(error: Any) -> tuple[int, bool]:
    """Return how much of what the alternative wants is there."""
    wanted = error.schema.get("required", ()) if isinstance(error.schema, dict) else ()
    present = sum(key in error.instance for key in wanted) if isinstance(error.instance, dict) else 0
    return present, error.validator != "required"


def _reason(error: Any) -> str:
    """Return what is wrong, and what to write."""
    limit = 100
    shown = repr(error.instance)
    shown = shown if len(shown) <= limit else shown[:limit] + "..."
    schema, value = error.schema if isinstance(error.schema, dict) else {}, error.validator_value
    if error.validator == "additionalProperties":
        known = sorted(schema.get("properties", {}))
        return "; ".join(
            f"{key!r} is not a key here, {_hint([key], known)}" for key in error.instance if key not in known
        )
    if error.validator == "required":
        return f"these keys are missing: {', '.join(repr(key) for key in value if key not in error.instance)}"
    if error.validator in ("minItems", "minProperties", "minLength"):
        return "is empty"
    if error.validator == "type":
        wanted = " or ".join(JSON_TYPES[each] for each in ([value] if isinstance(value, str) else value))
        return f"must be {wanted}, not {type_name(error.instance)}"
    if error.validator == "enum":
        return f"{shown} is not a value of this key, {_hint([str(error.instance)], list(map(str, value)))}"
    if error.validator == "pattern" and "description" in schema:
        return f"{shown} does not match this: {schema['description'].rstrip('.')}"
    if error.validator == "oneOf" and _is_of_no_kind(error):
        keys = _keys_of_kinds(schema["oneOf"])
        return f"{shown} has none of the keys that say what it is, {_hint(error.instance, keys)}"
    message = str(error.message).replace(repr(error.instance), shown)
    return f"{message}; see the schema" if error.validator == "oneOf" else message


def _hint(words: Iterable[str], known: Sequence[str]) -> str:
    """The known word that is nearest to one of some wrong ones, or else all known ones."""
    near = next(filter(None, (did_you_mean(word, known, most=1) for word in words)), "")
    return near.rstrip("?") or f"possible are {', '.join(known)}"


# What the schema cannot say.


def _problems(entry: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The place below the rule, and a sentence, for each thing that is wrong."""
    kind, then = kind_of(entry["match"]), entry["then"]
    yield from _misfits(kind, then)
    yield from kind.problems(entry)
    if "add" in then and "add" in kind.actions:
        yield from _addition_problems(kind, then["add"])
    if "rename" in then and kind.new_name is not None:
        wanted, called = kind.new_name
        if wanted.fullmatch(then["rename"]) is None:
            yield "then.rename", f"{then['rename']!r} is not {called}, as a match of '{kind.key}' needs"
        elif not kind.in_strings and (taken := keyword_in(then["rename"])):
            yield "then.rename", f"{then['rename']!r} is not a name in Python, where '{taken}' is a keyword"
    for limit, last in (("since", VERSIONS[-1]), ("until", VERSIONS[0])):
        release = minor_release(entry.get(limit, last))
        if release > minor_release(last) if limit == "since" else release < minor_release(last):
            known = f"{VERSIONS[0]} to {VERSIONS[-1]} are known"
            yield limit, f"PyTorch {entry[limit]} leaves no version for the rule; {known}"
    if "since" in entry and "until" in entry and minor_release(entry["since"]) > minor_release(entry["until"]):
        yield "until", f"PyTorch {entry['until']} comes before {entry['since']}, so the rule is for no version"
    for limit in ("needs", "lacks"):
        fact = entry.get(limit, "")
        if fact.startswith("limit ") and row(fact.removeprefix("limit ")) is None:
            yield limit, f"the table of behaviour has no row {fact.removeprefix('limit ')!r}"
        elif fact and not fact.startswith("limit ") and not released_with(fact):
            yield limit, f"no release of torch_npu has {fact!r}"


def keyword_in(name: str) -> str | None:
    """The part of a dotted name that Python keeps for itself, as `class`."""
    return next(filter(keyword.iskeyword, name.split(".")), None)


def _addition_problems(kind: type[Match], add: dict[str, str]) -> Iterator[tuple[str, str]]:
    for what in add.keys() - {"place"}:
        if what not in kind.additions:
            known = ", ".join(kind.additions)
            yield f"then.add.{what}", f"cannot be added at a match of '{kind.key}'; possible: {known}"
    if "place" in add and "statement" not in add:
        yield "then.add.place", "is for a statement"
    for what in add.keys() - {"place"}:
        if (problem := code_problem(add[what])) is not None:
            yield f"then.add.{what}", problem


def _misfits(kind: type[Match], then: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for action in then:
        if action not in (*_ANYWHERE, *kind.actions):
            known = ", ".join(f"'{known}'" for known in sorted((*_ANYWHERE, *kind.actions)))
            yield f"then.{action}", f"'{action}' cannot be done with a match of '{kind.key}'; possible: {known}"
    edits = [action for action in _EDITS if action in then]
    if len(edits) > 1:
        yield "then", f"{' and '.join(map(repr, edits))} are two edits of one place; choose one"
    if "keep" in then and len(then) > 1:
        yield "then.keep", "a place that is kept has nothing else done to it; leave the other keys out"
    if "needs_target" in then and "rename" not in then:
        yield "then.needs_target", "has a meaning only beside 'rename'"
    if "values" in then and not ("rename" in then and "report" in then):
        yield "then.values", "has a meaning only beside 'rename' and 'report', which is for every other value"
    if "imports" in then and not edits:
        yield "then.imports", "has a meaning only beside 'rename', 'replace', 'codemod' or 'remove'"


class Conflict(Struct, frozen=True):
    """Two rules that both match some place: `first` is applied there, because of `reason`."""

    first: Rule
    second: Rule
    reason: str


def find_conflicts(rulebook: Rulebook, files: frozenset[str]) -> Iterator[Conflict]:
    """The conflicts in which a rule of one of the `files` (as `Rule.file` has them) takes part."""
    own = [rule for rule in rulebook.rules if rule.file in files]
    others = [rule for rule in rulebook.rules if rule.file not in files]
    pairs = [*combinations(own, 2), *((rule, other) for rule in own for other in others)]
    position = {rule.id: index for index, rule in enumerate(rulebook.rules)}
    versions = {rule.id: _versions(rule) for rule in rulebook.rules}
    for one, other in pairs:
        earlier, later = sorted((one, other), key=lambda rule: position[rule.id])
        if not versions[one.id].isdisjoint(versions[other.id]) and share_a_file(earlier, later):
            yield from _conflict(earlier, later)


def _conflict(earlier: Rule, later: Rule) -> Iterator[Conflict]:
    one, other = earlier.match, later.match
    if _same_place(earlier, later):
        yield Conflict(earlier, later, "both match the same, and it comes first in the order of files and rules")
    elif one.covers(other) and not earlier.builtin and later.builtin:
        yield Conflict(earlier, later, f"a user's rule for {one.subject} is for everything under it, too")
    else:
        for first, second in ((earlier, later), (later, earlier)):
            reason = first.match.before(second.match)
            if reason is not None:
                yield Conflict(first, second, reason)


def _same_place(one: Rule, other: Rule) -> bool:
    pairs = ((one, other), (other, one))
    if any(_is_setting(rule) and not second.match.is_of_any for rule, second in pairs):
        return False
    return one.match.meets(other.match)


def share_a_file(one: Rule, other: Rule) -> bool:
    """Return whether some file may have both.

    A rule for functions of Python has none in common with one for other files, nor has a rule for projects that import
    something with one for projects that do not.
    """
    pairs = ((one, other), (other, one))
    return not any(
        (not rule.match.outside_python and _is_outside_python(limited)) or _excludes(rule, limited)
        for rule, limited in pairs
    )


def _excludes(rule: Rule, other: Rule) -> bool:
    imported = (rule.where.imports, rule.where.project)
    return any(names and names <= other.where.without for names in imported)


def _is_outside_python(rule: Rule) -> bool:
    return bool(rule.where.files) and all(re.search(r"\.(?!py$|ipynb$)\w+$", file) for file in rule.where.files)


def _is_setting(rule: Rule) -> bool:
    """Return whether a rule for an argument of anything is for a key of a configuration, and not for an option."""
    return rule.match.is_of_any and _is_outside_python(rule)


def _versions(rule: Rule) -> frozenset[str]:
    """The releases of torch_npu that a rule is for, and the version of PyTorch without one."""
    versions = (*VERSIONS, *torch_npu_versions())
    return frozenset(filter(rule.applies_to, versions))
