"""Custom rule files of the vendor's tool, MindStudio's pytorch_gpu2npu, translated into rules of this one.

The format is that of the CANN guides on migrating PyTorch scripts ("custom rule file"); what each kind does there was
read from those guides and from what public copies of the tool do with its own test cases. docs/vendor-rules.md says
where a translated rule does less, always on the side of leaving code alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from gpu2npu.rulebook.check import keyword_in
from gpu2npu.rulebook.document import type_name
from gpu2npu.rulebook.expression import compile_problem
from gpu2npu.rulebook.match import Match, decode_match
from gpu2npu.rulebook.rule import Rule, RuleError, Then, printable
from gpu2npu.rulebook.template import TemplateError, check_template

_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")

Entry = dict[str, Any]
# The parts of a rule that differ: a word for its id where an entry becomes several rules, its match, what happens then.
Part = tuple[str, Match, Then]


def is_vendor_file(document: object) -> bool:
    """Return whether a parsed JSON file is one of the vendor's: its rules are an object of lists."""
    return isinstance(document, dict) and isinstance(document.get("rules"), dict)


def vendor_rules(document: dict[str, Any], path: Path) -> list[Rule]:
    """The rules of a vendor's file, in its order. Raises RuleError: a kind or key is unknown, a key is missing, or a
    value is of the wrong type; with the JSON path."""
    for key in document:
        if key != "rules":
            raise RuleError(
                f"{path}: $.{printable(key)}: is unknown in a rule file of the vendor's tool; allowed here: rules."
            )
    rules: list[Rule] = []
    for kind, entries in document["rules"].items():
        where = f"$.rules.{printable(kind)}"
        if kind not in _KINDS:
            raise RuleError(f"{path}: {where}: is not a kind of rule of the vendor's tool; known: {', '.join(_KINDS)}.")
        if not isinstance(entries, list):
            raise RuleError(f"{path}: {where}: must be a list of rules, not {type_name(entries)}.")
        for index, entry in enumerate(entries):
            rules += _translate(kind, entry, f"{where}[{index}]", index, path)
    return rules


def _translate(kind: str, entry: object, where: str, index: int, path: Path) -> Iterator[Rule]:
    known = _KINDS[kind]
    checked = _check_keys(known, entry, where, path)
    try:
        parts = known.translate(checked)
    except _ValueError as error:
        raise RuleError(f"{path}: {where}.{error.key}: {error}.") from error
    stem = re.sub(r"[^a-z0-9]+", "-", path.stem.lower()).strip("-") or "custom"
    for suffix, match, then in parts:
        rule_id = f"{stem}-{known.word}-{index + 1}{suffix}"
        why = f"{kind} {index + 1} of {path.name}."
        yield Rule(rule_id, why, match, then, examples=(), builtin=False, file=str(path))


def _check_keys(known: _Kind, entry: object, where: str, path: Path) -> Entry:
    if not isinstance(entry, dict):
        raise RuleError(f"{path}: {where}: must be an object, not {type_name(entry)}.")
    types = {**known.required, **known.optional}
    for key, value in entry.items():
        if key not in types:
            raise RuleError(f"{path}: {where}.{printable(key)}: is an unknown key; allowed here: {', '.join(types)}.")
        # A bool is an int to Python, and no position.
        if not isinstance(value, types[key]) or (isinstance(value, bool) and types[key] is not bool):
            raise RuleError(f"{path}: {where}.{key}: must be {type_name(types[key]())}, not {type_name(value)}.")
    for key in known.required:
        if key not in entry:
            raise RuleError(f"{path}: {where}: lacks the key '{key}'.")
    return entry


class _ValueError(ValueError):
    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


def _name(entry: Entry, key: str, *, dotted: bool = True) -> str:
    value: str = entry[key]
    if _DOTTED.fullmatch(value) is None or ("." in value and not dotted):
        wanted = "a name, with dots or without" if dotted else "a name without dots"
        raise _ValueError(key, f"{value!r} is not {wanted}")
    if key == "new_name" and (taken := keyword_in(value)):
        raise _ValueError(key, f"{value!r} is not a name in Python, where '{taken}' is a keyword")
    return value


def _callee(name: str) -> str:
    """The vendor's tool takes a name without dots for the last part of any called name."""
    return name if "." in name else f"*.{name}"


def _argument(entry: Entry) -> list[Part]:
    """ArgsModifyRule: an argument, by position or keyword, is replaced, or deleted where the new one is empty."""
    callee = _callee(_name(entry, "func_name"))
    position, keyword, new = entry.get("arg_idx", -1), entry.get("arg_keyword"), entry["arg_new"]
    if position < 0 and keyword is None:
        raise _ValueError("func_name", "the rule says no argument; give arg_idx, counted from 0, or arg_keyword")
    # The position counts in the vendor's tool where both are given; the keyword then only names the new argument.
    argument: str | int = position if position >= 0 else _name(entry, "arg_keyword", dotted=False)
    match = decode_match({"argument": argument, "of": callee, "unless_found": _white_list(entry)})
    if not new.strip():
        return [("", match, Then(remove=True))]
    try:
        check_template(_literal(new))
    except TemplateError as error:
        raise _ValueError("arg_new", str(error)) from error
    named = f"{_name(entry, 'arg_keyword', dotted=False)}=" if position >= 0 and keyword is not None else ""
    return [("", match, Then(replace=named + _literal(new)))]


def _literal(code: str) -> str:
    """Code as a template that has no fields."""
    return code.replace("{", "{{").replace("}", "}}")


def _white_list(entry: Entry) -> str | None:
    patterns = entry.get("white_list", [])
    for index, pattern in enumerate(patterns):
        key = f"white_list[{index}]"
        if not isinstance(pattern, str):
            raise _ValueError(key, f"must be a text, not {type_name(pattern)}")
        problem = compile_problem(pattern)
        if problem is not None:
            raise _ValueError(key, f"{pattern!r} {problem}")
    return "|".join(f"(?:{pattern})" for pattern in patterns) or None


def _function(entry: Entry) -> list[Part]:
    """FuncNameModifyRule: the last name of what is called is replaced, or with replace_module all of it."""
    old, new = _name(entry, "old_name"), _name(entry, "new_name")
    whole = entry.get("replace_module", False)
    if not whole and "." in new:
        raise _ValueError("new_name", f'{new!r} has dots, which needs "replace_module": true')
    if "." in old:
        target = new if whole else f"{old.rpartition('.')[0]}.{new}"
        return [("", decode_match({"name": old}), Then(rename=target))]
    if not whole:
        return [("", decode_match({"call": _callee(old)}), Then(rename=new))]
    module = new.rpartition(".")[0]
    return [("", decode_match({"call": _callee(old)}), Then(replace=f"{new}({{args}})", imports=module or None))]


def _module(entry: Entry) -> list[Part]:
    """ModuleNameModifyRule: a module, known by its name and the module it is in, has another name there."""
    old, new = _name(entry, "old_name", dotted=False), _name(entry, "new_name", dotted=False)
    parent = f"{_name(entry, 'parent_module')}." if entry["parent_module"] else ""
    return [("", decode_match({"name": parent + old}), Then(rename=parent + new))]


def _string(entry: Entry) -> list[Part]:
    """ReplaceStringRule: a whole string, or where it is not strict every occurrence in any string."""
    old, new = entry["str_old"], entry["str_new"]
    if not old or "\n" in old or "\r" in old:
        raise _ValueError("str_old", "must be a text of one line that is not empty")
    if entry.get("strict", True):
        return [("", decode_match({"string": old}), Then(rename=new))]
    return [("", decode_match({"pattern": re.escape(old)}), Then(rename=new.replace("\\", "\\\\")))]


def _attribute(entry: Entry) -> list[Part]:
    """ReplaceAttributeRule: an attribute of any object, also where it is called."""
    old, new = _name(entry, "old_name", dotted=False), _name(entry, "new_name", dotted=False)
    then = Then(rename=new)
    return [("", decode_match({"attribute": old}), then), ("-called", decode_match({"method": old}), then)]


class _Kind(Struct, frozen=True):
    """A kind of rule: the word for its ids, its keys with their types, and its translation."""

    word: str
    required: dict[str, type]
    optional: dict[str, type]
    translate: Callable[[Entry], list[Part]]


_KINDS = {
    "ArgsModifyRule": _Kind(
        "argument",
        {"func_name": str, "arg_new": str},
        {"arg_idx": int, "arg_keyword": str, "white_list": list},
        _argument,
    ),
    "FuncNameModifyRule": _Kind("function", {"old_name": str, "new_name": str}, {"replace_module": bool}, _function),
    "ModuleNameModifyRule": _Kind("module", {"old_name": str, "new_name": str, "parent_module": str}, {}, _module),
    "ReplaceStringRule": _Kind("string", {"str_old": str, "str_new": str}, {"strict": bool}, _string),
    "ReplaceAttributeRule": _Kind("attribute", {"old_name": str, "new_name": str}, {}, _attribute),
}
