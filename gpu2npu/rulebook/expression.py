"""Regular expressions of rules: all of them are executed here, each search within a limit of time.

They are written in the syntax of Python's `re`, and executed by the library `regex`, which takes a limit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

from msgspec import Struct

_Found = TypeVar("_Found")

# Seconds of a CPU that one search may take. One that takes longer than this on a source file would take hours on the
# next; one whose time grows with the square of the length, as that of `\w+=` does, takes thousandths of it.
SECONDS = 5.0
# So many searches of an expression may run out of time in one process; then it is searched with no more.
_TRIES = 5
_ran_out: Counter[str] = Counter()

# Texts that `regex` reads otherwise than `re`: braces that are not a count are its approximate matching, `[:` within a
# set is a POSIX class.
_OTHERWISE = re.compile(
    r"\\(?:N\{[^}]*\}|.)|\[(?P<set>\^?\]?(?:\\.|[^\]\\])*)\]|(?P<brace>\{)(?!(?:\d+(?:,\d*)?|,\d*)\})", re.DOTALL
)


# A repetition with counts is compiled as many times as its largest count says, and so is each within it.
_MOST_PARTS = 200_000  # 60 MB
_PART = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?#[^)]*\)|(?P<open>\()|(?P<close>\))|\{(?P<least>\d*)(?:,(?P<most>\d*))?\}|.",
    re.DOTALL,
)


class ExpressionTimeError(Exception):
    """A search with a rule's regular expression takes longer than it may; the text says which rule's."""


class Expression(Struct, frozen=True):
    """A regular expression that compiles, of the rule `owner`. All searches raise ExpressionTimeError."""

    text: str
    owner: str
    ignores_case: bool = False

    def search(self, text: str) -> re.Match[str] | None:
        """Return the first match in a text."""
        found: re.Match[str] | None = self._limited(lambda compiled: compiled.search(text, timeout=SECONDS))
        return found

    def fullmatch(self, text: str) -> re.Match[str] | None:
        """Return the match that is the whole text."""
        found: re.Match[str] | None = self._limited(lambda compiled: compiled.fullmatch(text, timeout=SECONDS))
        return found

    def all_in(self, text: str) -> list[re.Match[str]]:
        """Return the matches in a text that do not overlap, in their order."""
        return self._limited(lambda compiled: list(compiled.finditer(text, timeout=SECONDS)))

    def replaced(self, template: str, text: str) -> str:
        """Return a text with a template in the place of each match."""
        new: str = self._limited(lambda compiled: compiled.sub(template, text, timeout=SECONDS))
        return new

    def _limited(self, searched: Callable[[Any], _Found]) -> _Found:
        if _ran_out[self.owner] < _TRIES:
            try:
                return searched(_compiled(self.text, self.ignores_case))
            except (TimeoutError, MemoryError):  # what evades the limit takes memory instead
                _ran_out[self.owner] += 1
        raise ExpressionTimeError(
            f"the regular expression of {self.owner} takes longer than {SECONDS:g} seconds to search it: do not repeat "
            f"what is repeated inside, as in (a+)+, nor the same twice in a row, as in .*.*"
        )


@lru_cache(maxsize=512)
def _compiled(text: str, ignores_case: bool) -> Any:
    import regex

    flags = regex.VERSION0 | (regex.IGNORECASE if ignores_case else 0)
    return regex.compile(_OTHERWISE.sub(_as_re_reads_it, text), flags)


def _as_re_reads_it(match: re.Match[str]) -> str:
    if match["brace"]:
        return r"\{"
    within: str | None = match["set"]
    return match[0] if within is None else "[" + within.replace("[:", r"\[:") + "]"


def compile_problem(pattern: str) -> str | None:
    """Return why a regular expression cannot be used at all, or None."""
    import regex

    try:
        re.compile(pattern)
        if (parts := _parts(pattern)) > _MOST_PARTS:
            return f"repeats {parts:,} parts, counts within counts multiplied; {_MOST_PARTS:,} are the most"
        _compiled(pattern, False)
    except (re.error, regex.error, ValueError, OverflowError, RecursionError) as error:
        return f"is not a regular expression ({str(error) or 'nested too deeply'})"
    return None


def _parts(pattern: str) -> int:
    """Return the number of parts that a regular expression is compiled to, each repetition written out."""
    open_groups = [0]
    last = 0  # parts of what a count would repeat
    for part in _PART.finditer(pattern):
        if part["open"]:
            open_groups.append(0)
            continue
        if part["close"]:
            last = open_groups.pop() + 1 if len(open_groups) > 1 else 1  # that of a comment opens none
        elif part["least"] is not None:
            repeated = last * max(int(part["most"] or 0), int(part["least"] or 0), 1)
            open_groups[-1] -= last
            last = repeated
        else:
            last = 1
        open_groups[-1] += last
    return sum(open_groups)


def template_problem(pattern: str, template: str) -> str | None:
    """Return why a template cannot stand for what a regular expression finds, or None. Nothing is searched."""
    compiled = re.compile(pattern)
    names = {number: name for name, number in compiled.groupindex.items()}
    groups = (f"(?P<{names[number]}>)" if number in names else "()" for number in range(1, compiled.groups + 1))
    try:
        re.sub("".join(groups), template, "")
    except (re.error, IndexError) as error:
        return str(error)
    return None
