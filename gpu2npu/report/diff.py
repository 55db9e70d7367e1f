"""A unified diff as git prints it, in the bytes of the files: `git apply` and `patch -p1` turn the source into exactly
the migrated file, whatever its line ends, encoding and last line."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Sequence

_CONTEXT = 3
_PAIRS = 50_000  # of equal lines that are compared, each time
_NO_FINAL_NEWLINE = b"\\ No newline at end of file\n"
# What git writes inside a quoted path.
_ESCAPES = {each: f"\\{letter}" for each, letter in zip('\a\b\t\n\v\f\r"\\', 'abtnvfr"\\', strict=True)}


def unified_diff(path: str, before: bytes, after: bytes, sections: Sequence[tuple[int, str]] = ()) -> bytes:
    """The diff of one file; empty if nothing changed.

    `sections` are the lines (counted from 1) at which parts of the old file start, with their names: each hunk says, as
    git's do, in which part it starts to differ.
    """
    if before == after:
        return b""
    old, new = _lines(before), _lines(after)
    parts = [f"--- {_header_path('a/' + path)}\n+++ {_header_path('b/' + path)}\n".encode()]
    # Lines are compared as bytes: SequenceMatcher takes any hashable. Each time that it looks for the longest match it
    # goes over all pairs of equal lines, but for frequent ones where these are junk.
    counts = Counter(new)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=sum(counts[line] for line in old) > _PAIRS)
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        first, last = group[0], group[-1]
        changed = next(start for tag, start, *_ in group if tag != "equal") + 1
        section = next((f" {name}" for line, name in reversed(sections) if line <= changed), "")
        parts.append(f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@{section}\n".encode())
        for tag, old_start, old_end, new_start, new_end in group:
            if tag == "equal":
                parts.extend(_marked(b" ", old[old_start:old_end]))
            else:
                parts.extend(_marked(b"-", old[old_start:old_end]))
                parts.extend(_marked(b"+", new[new_start:new_end]))
    return b"".join(parts)


def _lines(content: bytes) -> list[bytes]:
    """The lines with their ends. Only "\\n" ends a line, as in git and patch."""
    lines = [line + b"\n" for line in content.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _range(start: int, end: int) -> str:
    length = end - start
    if length == 1:
        return f"{start + 1}"
    # An empty range names the line before it.
    return f"{start + 1 if length else start},{length}"


def _marked(mark: bytes, lines: list[bytes]) -> Iterator[bytes]:
    for line in lines:
        yield mark + line
        if not line.endswith(b"\n"):
            yield b"\n" + _NO_FINAL_NEWLINE


def _header_path(path: str) -> str:
    """The path as git writes it: quoted if it has odd characters, followed by a tab if it has spaces."""
    raw = path.encode("utf-8", "surrogateescape")
    if all(32 <= byte < 127 and byte not in b'"\\' for byte in raw):
        return path + ("\t" if " " in path else "")
    characters = (_ESCAPES.get(chr(byte)) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in raw)
    return '"' + "".join(characters) + '"'
