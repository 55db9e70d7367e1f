"""TOML as a tree with places: tables become nested mappings.

It takes what TOML 1.0 allows and does not refuse everything that it forbids, such as a key that is set twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gpu2npu.formats.json_reader import unescaped
from gpu2npu.formats.nodes import Mapping, Node, Scalar, TreeReader

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
    reader = _Reader(text)
    root = table = _Table()
    at = reader.skip(0)
    while at < len(text):
        if text.startswith("[", at):
            brackets = 2 if text.startswith("[[", at) else 1
            keys, at = reader.keys(at + brackets)
            if not text.startswith("]" * brackets, at):
                raise reader.error(at, "a bracket is missing")
            at += brackets
            table = root
            for key in keys[: -1 if brackets == 2 else None]:
                table = table.child(key)
            if brackets == 2:
                new = _Table()
                table.entries.append((keys[-1], new))
                table = new
        else:
            at = reader.pair(at, table, 0)
        rest = _REST.match(text, at)
        if rest is None:
            raise reader.error(at, "there is more text than a value")
        at = reader.skip(rest.end())
    return root.closed()


class _Reader(TreeReader):
    language, space, string, atom = "TOML", _SPACE, _STRING, _ATOM

    def pair(self, at: int, table: _Table, depth: int) -> int:
        """Read a key with its value into a table."""
        keys, at = self.keys(at)
        if not self.text.startswith("=", at):
            raise self.error(at, "an equals sign is missing")
        value, at = self.value(self.skip(at + 1, _BLANK), depth)
        for key in keys[:-1]:
            table = table.child(key)
        table.entries.append((keys[-1], value))
        return at

    def keys(self, at: int) -> tuple[list[Scalar], int]:
        """Read the parts of a dotted key."""
        keys = []
        while True:
            at = self.skip(at, _BLANK)
            bare = _BARE.match(self.text, at)
            string = None if bare is not None else _STRING.match(self.text, at)
            if bare is not None:
                keys.append(Scalar(at, bare.end(), bare[0]))
                at = bare.end()
            elif string is not None:
                keys.append(self.scalar(string))
                at = string.end()
            else:
                raise self.error(at, "a key is missing")
            at = self.skip(at, _BLANK)
            if not self.text.startswith(".", at):
                return keys, at
            at += 1

    def mapping(self, at: int, depth: int) -> tuple[Node, int]:
        table, at = _Table(), self.skip(at)
        while not self.text.startswith("}", at):
            at = self.separated(self.pair(at, table, depth + 1), "}")
        return table.closed(), at + 1

    def scalar(self, string: re.Match[str]) -> Scalar:
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
