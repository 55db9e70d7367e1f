"""One difference between two versions of a project, as the rule that would make it."""

from __future__ import annotations

from msgspec import Struct

from gpu2npu.rulebook.match import Json


class Sample(Struct, frozen=True):
    """A text that an example may show: the file name that says its kind, and the text before."""

    file: str
    text: str


class Observed(Struct, frozen=True):
    """One difference: what a rule for it matches and does then, as in a rule file, and the place before (line from 1).

    `samples` are texts that have the place, the shortest first. A name that stays as it is is observed too, as renamed
    to itself: it speaks against a rule for all names beside it.
    """

    match: Json
    then: Json
    path: str
    line: int
    samples: tuple[Sample, ...]
