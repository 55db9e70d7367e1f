"""Regular expressions looked for in the bytes of whole files: quickly, since each names texts that it cannot match
without, and to look for those is a hundred times faster."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from gpu2npu.engine.required_texts import required_texts

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
    """Return whether one of the patterns matches somewhere."""
    lowered = source.lower()
    return any(pattern.is_in(source, lowered) for pattern in patterns)


def unanchored(pattern: str) -> BytePattern:
    """A pattern for strings as one to look for in a file, where a string's ends are not those of the file."""
    return BytePattern.of(_ANCHOR.sub(lambda match: match["other"] or "(?:)", pattern).encode())
