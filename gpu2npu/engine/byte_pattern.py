"""Regular expressions looked for in the bytes of whole files: quickly, since each names texts that it cannot match
without, and to look for those is a hundred times faster."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

# Python's own parser of regular expressions, whose name changed in 3.11.
_sre: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")


_ANCHOR = re.compile(r"(?P<other>\\[^AZ]|\[\^?\]?(?:\\.|[^\]\\])*\])|\\[AZ]|[\^$]", re.DOTALL)


@dataclass(frozen=True)
class BytePattern:
    """`required` are sets of texts in small letters: of each, every match has one."""

    pattern: re.Pattern[bytes]
    required: tuple[frozenset[bytes], ...]

    @classmethod
    def of(cls, pattern: bytes) -> BytePattern:
        return cls(re.compile(pattern), required_texts(pattern))

    def is_in(self, source: bytes, lowered: bytes) -> bool:
        """`lowered` is the source in small letters."""
        may_match = all(any(text in lowered for text in texts) for texts in self.required)
        return may_match and self.pattern.search(source) is not None


def any_in(patterns: Iterable[BytePattern], source: bytes) -> bool:
    """Whether one of the patterns matches somewhere."""
    lowered = source.lower()
    return any(pattern.is_in(source, lowered) for pattern in patterns)


def unanchored(pattern: str) -> BytePattern:
    """A pattern for strings as one to look for in a file, where a string's ends are no ends of the file."""
    return BytePattern.of(_ANCHOR.sub(lambda match: match["other"] or "(?:)", pattern).encode())


def required_texts(pattern: bytes) -> tuple[frozenset[bytes], ...]:
    """Sets of texts in small letters: of each, every match contains one, in small letters."""
    return tuple(texts for texts in dict.fromkeys(_candidates(_sre.parse(pattern))) if texts)


def _of_sequence(parts: Iterable[tuple[Any, Any]]) -> frozenset[bytes]:
    """The one among what its parts require that is least often found by chance."""
    return max(_candidates(parts), key=lambda texts: min(map(len, texts), default=0), default=frozenset())


def _candidates(parts: Iterable[tuple[Any, Any]]) -> Iterator[frozenset[bytes]]:
    run = bytearray()
    for operation, argument in parts:
        if operation is _sre.LITERAL:
            run.append(argument)
            continue
        if run:
            yield frozenset({bytes(run).lower()})
            run.clear()
        yield _of_part(operation, argument)
    if run:
        yield frozenset({bytes(run).lower()})


def _of_part(operation: Any, argument: Any) -> frozenset[bytes]:
    if operation is _sre.SUBPATTERN:
        return _of_sequence(argument[-1])
    if operation in (_sre.MAX_REPEAT, _sre.MIN_REPEAT) and argument[0] > 0:
        return _of_sequence(argument[-1])
    if operation is _sre.BRANCH:
        branches = [_of_sequence(branch) for branch in argument[1]]
        if all(branches):
            return frozenset().union(*branches)
    return frozenset()
