"""Texts that every match of a regular expression contains, read from the expression by the syntax that `re` documents.

By them an expression is looked for in the bytes of whole files: a hundred times faster than by itself. What is not
understood requires nothing, nor do letters outside ASCII that have capitals: bytes have no small letters for these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from msgspec import Struct

from gpu2npu.rulebook.expression import Expression

# Texts in small letters, of which every match contains one.
Texts = frozenset[bytes]

_VERBOSE = re.compile(rb"\(\?[a-zA-Z]*x")
_CLASS = re.compile(rb"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_GROUP = re.compile(rb"\((?:\?(?:P<\w+>|>|[aiLmsu]*(?:-[ims]+)?:))?(?!\?)")
# In front of what a match need not contain: assertions, comments, references, conditions, flags for all of it.
_OTHER_GROUP = re.compile(rb"\(\?(?:[=!#(]|<[=!]|P=|[aiLmsu]+\))")
_CODE = rb"x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}]*\}|[0-9]+"
_CHARACTER = rb"[\xc0-\xff][\x80-\xbf]*|."  # of UTF-8
_ESCAPE = re.compile(rb"\\(?:%b|[a-zA-Z]|(?P<itself>%b))" % (_CODE, _CHARACTER), re.DOTALL)
_ANY = re.compile(_CHARACTER, re.DOTALL)
_REPEATED = re.compile(rb"(?:(?P<none>[*?]|\{(?:0*,\d*|0+)\})|\+|\{\d+(?:,\d*)?\})[?+]?")


@lru_cache(maxsize=1024)  # the same expressions are for Python, and for what is not Python
def required_texts(pattern: bytes) -> tuple[Texts, ...]:
    """Sets of texts in small letters: of each, every match contains one, in small letters."""
    if _VERBOSE.search(pattern) is not None:
        return ()
    return tuple(texts for texts in dict.fromkeys(_Reader(pattern).alternatives()) if texts)


def _best(candidates: list[Texts]) -> Texts:
    """The candidate that is least often found by chance."""
    return max(candidates, key=lambda texts: min(map(len, texts), default=0), default=frozenset())


@dataclass(eq=False)
class _Reader:
    """Reads a pattern from `at` on."""

    pattern: bytes
    at: int = 0

    def alternatives(self) -> list[Texts]:
        """Return the sets of texts that the branches up to a closing parenthesis, or the end, require."""
        branches = [list(self._sequence())]
        while self.pattern.startswith(b"|", self.at):
            self.at += 1
            branches.append(list(self._sequence()))
        if len(branches) == 1:
            return branches[0]
        best = [_best(branch) for branch in branches]
        return [frozenset().union(*best)] if all(best) else []

    def _sequence(self) -> Iterator[Texts]:
        run = b""
        while self.pattern[self.at : self.at + 1] not in (b"", b"|", b")"):
            literal, texts = self._part()
            repeated = _REPEATED.match(self.pattern, self.at)
            if repeated is None and literal:
                run += literal
                continue
            if run:
                yield frozenset({run.lower()})
                run = b""
            if repeated is not None:
                self.at = repeated.end()
            if repeated is None or repeated["none"] is None:
                yield from [frozenset({literal.lower()})] if literal else texts
        if run:
            yield frozenset({run.lower()})

    def _part(self) -> tuple[bytes, list[Texts]]:
        """The next part: its character if it stands for one, else the sets of texts that it requires."""
        first = self.pattern[self.at : self.at + 1]
        if first == b"\\":
            return self._escape()
        if first == b"(":
            return b"", self._group()
        if first == b"[" and (found := _CLASS.match(self.pattern, self.at)) is not None:
            self.at = found.end()
            return b"", []
        found = _ANY.match(self.pattern, self.at)
        assert found is not None
        self.at = found.end()
        return b"" if first in (b".", b"^", b"$") else _exact(found[0]), []

    def _escape(self) -> tuple[bytes, list[Texts]]:
        found = _ESCAPE.match(self.pattern, self.at)
        self.at = found.end() if found is not None else len(self.pattern)
        return _exact(found["itself"] or b"") if found is not None else b"", []

    def _group(self) -> list[Texts]:
        found = None if _OTHER_GROUP.match(self.pattern, self.at) else _GROUP.match(self.pattern, self.at)
        if found is None:
            self._skip_group()
            return []
        self.at = found.end()
        texts = self.alternatives()
        self.at += 1
        return texts

    def _skip_group(self) -> None:
        """Go behind the parenthesis that closes the one here."""
        if self.pattern.startswith(b"(?#", self.at):
            self.at = self.pattern.index(b")", self.at) + 1
            return
        depth = 0
        while True:
            first = self.pattern[self.at : self.at + 1]
            found = _ESCAPE.match(self.pattern, self.at) or _CLASS.match(self.pattern, self.at)
            if found is not None:
                self.at = found.end()
                continue
            depth += (first == b"(") - (first == b")")
            self.at += 1
            if not depth or not first:
                return


def _exact(character: bytes) -> bytes:
    """The character, or nothing if bytes in small letters may have it otherwise."""
    text = character.decode()
    return character if character.isascii() or text.lower() == text.upper() else b""


_ANCHOR = re.compile(r"(?P<other>\\[^AZ]|\[\^?\]?(?:\\.|[^\]\\])*\])|\\[AZ]|[\^$]", re.DOTALL)


class FilePattern(Struct, frozen=True):
    """A pattern to look for in whole files. `required` are sets of texts in small letters: of each, every match has
    one."""

    pattern: Expression
    required: tuple[Texts, ...]

    @classmethod
    def of(cls, pattern: str, owner: str = "") -> FilePattern:
        """A pattern of the rule `owner`; of words alone it needs none."""
        return cls(Expression(pattern, owner), required_texts(pattern.encode()))

    def may_be_in(self, lowered: bytes) -> bool:
        """Return whether a source has the required texts; it is given in small letters. Nothing is searched."""
        for texts in self.required:  # no calls: this is done for each pattern and file
            for text in texts:
                if text in lowered:
                    break
            else:
                return False
        return True


def any_in(patterns: Iterable[FilePattern], source: bytes) -> bool:
    """Return whether one of the patterns matches somewhere."""
    lowered = source.lower()
    possible = [each.pattern for each in patterns if each.may_be_in(lowered)]
    try:
        text = source.decode() if possible else ""
    except UnicodeDecodeError:  # another encoding, which the file may name
        return True
    return any(pattern.search(text) is not None for pattern in possible)


def any_may_be_in(patterns: Iterable[FilePattern], source: bytes) -> bool:
    """Return whether one of the patterns may match somewhere; no expression is executed."""
    lowered = source.lower()
    return any(pattern.may_be_in(lowered) for pattern in patterns)


def unanchored(pattern: str, owner: str) -> FilePattern:
    """A pattern for strings as one to look for in a file, where a string's ends are not those of the file."""
    return FilePattern.of(_ANCHOR.sub(lambda match: match["other"] or "(?:)", pattern), owner)
