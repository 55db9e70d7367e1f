"""INI files, setup.cfg and tox.ini among them, as a tree with places: sections of keys with their lines."""

from __future__ import annotations

import re

from gpu2npu.formats.nodes import Items, Mapping, Node, Scalar

_SECTION = re.compile(r"\[(?P<name>[^\]\n]+)\]")
_ENTRY = re.compile(r"(?P<key>[^\s=:#;\[][^=:\n]*?)[ \t]*[=:][ \t]*(?P<value>[^\n]*)")
_COMMENT = re.compile(r"(?:^|[ \t])[#;].*")


def read_ini(text: str) -> Node:
    """The sections; keys before the first are in one without a name. A value of several lines has a scalar for each;
    lines that are neither are passed over."""
    sections: list[tuple[Scalar, list[tuple[Scalar, list[Scalar]]]]] = [(Scalar(0, 0, ""), [])]
    at = 0
    for line in text.splitlines(keepends=True):
        start, at = at, at + len(line)
        content = line.rstrip("\r\n")
        entries = sections[-1][1]
        section = _SECTION.match(content)
        pair = _ENTRY.match(content)
        if content[:1] in ("#", ";") or not content.strip():
            continue
        if content[0] in " \t" and entries:
            entries[-1][1].extend(_scalars(content, start, 0))
        elif section is not None:
            sections.append((Scalar(start + 1, start + section.end("name"), section["name"]), []))
        elif pair is not None:
            key = Scalar(start, start + pair.end("key"), pair["key"])
            entries.append((key, _scalars(content, start, pair.start("value"))))
    return Mapping(tuple((name, _section(entries)) for name, entries in sections if entries))


def _scalars(content: str, start: int, at: int) -> list[Scalar]:
    value = _COMMENT.sub("", content[at:])
    stripped = value.strip()
    if not stripped:
        return []
    first = start + at + len(value) - len(value.lstrip())
    quoted = len(stripped) > 1 and stripped[0] == stripped[-1] and stripped[0] in "'\""
    inner = stripped[1:-1] if quoted else stripped
    return [Scalar(first + quoted, first + quoted + len(inner), inner)]


def _section(entries: list[tuple[Scalar, list[Scalar]]]) -> Mapping:
    values = ((key, lines[0] if len(lines) == 1 else Items(tuple(lines))) for key, lines in entries)
    return Mapping(tuple(values))
