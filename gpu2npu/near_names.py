"""Names that are spelled like a wrong one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from gpu2npu.language import message, sentence, shown

_MOST = 3
_LIKENESS = 0.5  # of difflib's ratio


def did_you_mean(word: str, known: Iterable[str], most: int = _MOST) -> str:
    """The question that ends a sentence about an unknown word, with the nearest known ones; "" if none is near."""
    near = get_close_matches(word, list(known), n=most, cutoff=_LIKENESS)
    return sentence("did you mean {}?", shown(message(" or ")).join(map(repr, near))) if near else ""
