"""Regular expressions looked for in the bytes of whole files: quickly, since each names texts that it cannot match
without, and to look for those is a hundred times faster."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from gpu2npu.engine.required_texts import required_texts
from gpu2npu.rulebook.expression import Expression

_ANCHOR = re.compile(r"(?P<other>\\[^AZ]|\[\^?\]?(?:\\.|[^\]\\])*\])|\\[AZ]|[\^$]", re.DOTALL)


class BytePattern(Struct, frozen=True):
    """`required` are sets of texts in small letters: of each, every match has one."""

    pattern: Expression[bytes]
    required: tuple[frozenset[bytes], ...]

    @classmethod
    def of(cls, pattern: bytes, owner: str = "") -> BytePattern:
        """A pattern of the rule `owner`; of words alone it needs none."""
        return cls(Expression(pattern, owner), required_texts(pattern))

    def may_be_in(self, lowered: bytes) -> bool:
        """Return whether a source has the required texts; it is given in small letters. Nothing is searched."""
        for texts in self.required:  # no calls: this is done for each pattern and file
            for text in texts:
                if text in lowered:
                    break
            else:
                return False
        return True


def any_in(patterns: Iterable[BytePattern], source: bytes) -> bool:
    """Return whether one of the patterns matches somewhere."""
    lowered = source.lower()
    return any(pattern.may_be_in(lowered) and pattern.pattern.search(source) is not None for pattern in patterns)


def any_may_be_in(patterns: Iterable[BytePattern], source: bytes) -> bool:
    """Return whether one of the patterns may match somewhere; no expression is executed."""
    lowered = source.lower()
    return any(pattern.may_be_in(lowered) for pattern in patterns)


def unanchored(pattern: str, owner: str) -> BytePattern:
    """A pattern for strings as one to look for in a file, where a string's ends are not those of the file."""
    return BytePattern.of(_ANCHOR.sub(lambda match: match["other"] or "(?:)", pattern).encode(), owner)
