"""The error for a rule file that cannot be used."""

from __future__ import annotations


class RuleError(ValueError):
    """A rule file cannot be used; the text is one sentence for the user."""


def printable(place: str) -> str:
    """A place in a document as it stands in a sentence: what does not print, such as a line's end, is escaped."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in place)
