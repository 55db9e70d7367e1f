"""Which names a module binds, told much faster than by parsing it with LibCST: enough to know where not to look."""

from __future__ import annotations

import re
import symtable
import warnings
from dataclasses import dataclass

_STAR = re.compile(r"\bimport[\s\\(]*\*")
# What follows `global`, and perhaps more: a name too many costs a parse, one too few an answer.
_GLOBAL = re.compile(r"\bglobal\b([\w\s,\\]*)")


@dataclass(frozen=True)
class Exports:
    """`names` are at least all that a module binds itself at its top level; `stars`: it may import others by a star."""

    names: frozenset[str]
    stars: bool

    def may_have(self, name: str) -> bool:
        """Whether another module may get `name` from this one."""
        return self.stars or name in self.names or not name.isascii()  # Python normalizes identifiers, we do not


def read_exports(text: str) -> Exports | None:
    """None where this Python cannot parse the text: LibCST may know more."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the user's escapes and literals
            names = frozenset(symtable.symtable(text, "", "exec").get_identifiers())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    declared = {word for listed in _GLOBAL.findall(text) for word in re.findall(r"\w+", listed)}
    return Exports(names | declared, _STAR.search(text) is not None)
