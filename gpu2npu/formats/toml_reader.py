"""TOML as a tree with places: tables become nested mappings.

It takes what TOML 1.0 allows and does not refuse everything that it forbids, such as a key that is set twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gpu2npu.formats.json_reader import unescaped
from gpu2npu.formats.nodes import FormatError, Items, Mapping, Node, Scalar

_BLANK = re.compile(r"[ \t]*")
_SPACE = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_REST = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\r?\n|$)")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""\r?\n?(?P<long>.*?(?<!\\)(?:\\\\)*"{0,2})"""(?!")'
    r"|'''\r?\n?(?P<raw>.*?'{0,2})'''(?!')"
    r'|"(?P<basic>[^"\\\n]*(?:\\.[^"\\\n]*)*)"|\'(?P<literal>[^\'\n]*)\'',
    re.DOTALL,
)
_ATOM = re.compile(r"[^\s,\]}#\"'][^\s,\]}#]*(?: \d\d:[\d:.+\-Z]+)?")
_MAX_DEPTH = 200


@dataclass
class _Table:
    entries: list[tuple[Scalar, Node | _Table]] = field(default_factory=list)

    def child(self, key: Scalar) -> _Table:
        for name, value in reversed(self.entries):
            if name.value == key.value and isinstance(value, _Table):
                return value
        child = _Table()
        self.entries.append((key, child))
        return child

    def closed(self) -> Mapping:
        pairs = ((key, value.closed() if isinstance(value, _Table) else value) for key, value in self.entries)
        return Mapping(tuple(pairs))


def read_toml(text: str) -> Node:
    """Raises FormatError where it is not TOML."""
    root = table = _Table()
    at = _after(_SPACE, text, 0)
    while at < len(text):
        if text.startswith("[", at):
            brackets = 2 if text.startswith("[[", at) else 1
            keys, at = _keys(text, at + brackets)
            if not text.startswith("]" * brackets, at):
                raise _error(text, at, "a bracket is missing")
            at += brackets
            table = root
            for key in keys[: -1 if brackets == 2 else None]:
                table = table.child(key)
            if brackets == 2:
                new = _Table()
                table.entries.append((keys[-1], new))
                table = new
        else:
            at = _pair(text, at, table, 0)
        rest = _REST.match(text, at)
        if rest is None:
            raise _error(text, at, "there is more text than a value")
        at = _after(_SPACE, text, rest.end())
    return root.closed()


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match is not None else at


def _error(text: str, at: int, reason: str) -> FormatError:
    line = text.count("\n", 0, at) + 1
    return FormatError(f"it is not TOML (line {line}: {reason})")


def _pair(text: str, at: int, table: _Table, depth: int) -> int:
    keys, at = _keys(text, at)
    if not text.startswith("=", at):
        raise _error(text, at, "an equals sign is missing")
    value, at = _value(text, _after(_BLANK, text, at + 1), depth)
    for key in keys[:-1]:
        table = table.child(key)
    table.entries.append((keys[-1], value))
    return at


def _keys(text: str, at: int) -> tuple[list[Scalar], int]:
    keys = []
    while True:
        at = _after(_BLANK, text, at)
        bare = _BARE.match(text, at)
        string = None if bare is not None else _STRING.match(text, at)
        if bare is not None:
            keys.append(Scalar(at, bare.end(), bare[0]))
            at = bare.end()
        elif string is not None:
            keys.append(_scalar(string))
            at = string.end()
        else:
            raise _error(text, at, "a key is missing")
        at = _after(_BLANK, text, at)
        if not text.startswith(".", at):
            return keys, at
        at += 1


def _value(text: str, at: int, depth: int) -> tuple[Node, int]:
    if depth > _MAX_DEPTH:
        raise _error(text, at, "it is nested too deeply")
    string = _STRING.match(text, at)
    if string is not None:
        return _scalar(string), string.end()
    if text.startswith("[", at):
        return _array(text, at + 1, depth)
    if text.startswith("{", at):
        return _inline(text, at + 1, depth)
    atom = _ATOM.match(text, at)
    if atom is None:
        raise _error(text, at, "a value is missing")
    return Scalar(at, atom.end(), None, atom=atom[0]), atom.end()


def _array(text: str, at: int, depth: int) -> tuple[Node, int]:
    items = []
    at = _after(_SPACE, text, at)
    while not text.startswith("]", at):
        value, at = _value(text, at, depth + 1)
        items.append(value)
        at = _separated(text, at, "]")
    return Items(tuple(items)), at + 1


def _inline(text: str, at: int, depth: int) -> tuple[Node, int]:
    table = _Table()
    at = _after(_SPACE, text, at)
    while not text.startswith("}", at):
        at = _pair(text, at, table, depth + 1)
        at = _separated(text, at, "}")
    return table.closed(), at + 1


def _separated(text: str, at: int, closer: str) -> int:
    at = _after(_SPACE, text, at)
    if text.startswith(",", at):
        return _after(_SPACE, text, at + 1)
    if not text.startswith(closer, at):
        raise _error(text, at, f"a comma or {closer!r} is missing")
    return at


def _scalar(string: re.Match[str]) -> Scalar:
    group = string.lastgroup
    assert group is not None
    start, end = string.span(group)
    raw = string[group]
    block = "\n" in raw
    if group in ("literal", "raw") or "\\" not in raw:
        return Scalar(start, end, raw, block=block)
    if group == "long" or re.search(r"\\[Ue]", raw):
        return Scalar(start, end, raw, exact=False, block=block)
    value, places = unescaped(raw, start)
    return Scalar(start, end, value, places)
