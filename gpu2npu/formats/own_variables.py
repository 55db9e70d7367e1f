"""The variables that a script or makefile has for itself: no program that it starts sees them."""

from __future__ import annotations

import re

# A line that sets a variable and does nothing else, and what hands variables to programs.
_SET = re.compile(
    r"^[ \t]*(?P<name>[A-Z]\w*)[ \t]*[:?+]?="
    r"(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s;&|\"']*|[ \t][^\n]*)[ \t]*(?:#.*)?$",
    re.MULTILINE,
)
_EXPORT = re.compile(r"(?:\b(?:export|declare|typeset|env|ENV)|(?<!\S)-(?:x|e|-env))\b[^\n]*|\bset[ \t]+-\w*a")


def own_variables(text: str) -> frozenset[str]:
    """The variables that a script or makefile sets and does not export: `CUDA_FLAG=--cuda`."""
    exported = " ".join(match[0] for match in _EXPORT.finditer(text))
    if re.search(r"\bset[ \t]", exported) is not None:
        return frozenset()
    names = {match["name"] for match in _SET.finditer(text)}
    return frozenset(name for name in names if re.search(rf"\b{name}\b", exported) is None)
