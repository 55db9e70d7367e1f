"""The facts of one Python file. They know no rule, no torch and no path: the same bytes have the same facts."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Set


class OriginKind(str, Enum):
    """The way in which a module binds one of its names."""

    IMPORT = "import"  # `name` is the qualified name, with dots in front where it is relative
    ALIAS = "alias"  # of the dotted name `name` of the same module
    LOADED = "loaded"  # the module `name`, by import_module("...")
    DEFINITION = "definition"
    VALUE = "value"


class Origin(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One binding of a name of a module."""

    kind: OriginKind
    name: str = ""


class Exports(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The names that `__all__` lists; `is_whole` means that it has no others than those written out."""

    names: frozenset[str]
    is_whole: bool


class FileFacts(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """All that other files, and questions about the whole project, need of a file. As MessagePack it takes a third
    to a half of the file's size; to make it from a parsed file takes a third of the time of the walk.

    `bound` has the bindings of each name of the module, `stars` the modules whose stars add to them. `imports` are the
    modules, and the names in them, that import statements anywhere in the file name, as they are written; `exports` is
    what `__all__` says, None where there is none.
    `names` are the identifiers in the code: names, attributes, keywords of calls, and what imports name. `texts` are
    its strings without white space, and the texts between the values of f-strings. `called` are the last names of what
    is called, `stored` the attributes that are assigned, by `=` or by setattr, `bases` the last names of base classes.
    `methods` has, of each method that a class defines, the names of the parameters that can be given by position,
    without the first where it is the object or class itself. Nothing of comments is in them.
    `is_guarded` means that the module has an `if __name__ == "__main__":`, `acts` that it does more at its top than to
    define, import and assign: a loop, a `with`, a call for its effect.
    `outline` is its `Outline`, encoded: only some questions about the whole project need it.
    `values` are the edges of its values (`ValueFacts`), encoded; empty where the tree is kept, which has them.
    `code` is a digest of the text without comments but those with types: while it is the same, no answer about another
    file changes.
    """

    bound: dict[str, tuple[Origin, ...]]
    stars: tuple[str, ...]
    imports: frozenset[str]
    exports: Exports | None
    names: frozenset[str]
    texts: frozenset[str]
    called: frozenset[str]
    stored: frozenset[str]
    bases: frozenset[str]
    methods: dict[str, tuple[tuple[str, ...], ...]]
    is_guarded: bool
    acts: bool
    code: str
    outline: bytes
    values: bytes = b""

    def may_star(self, name: str) -> bool:
        """Return whether a star import of this module may bring in `name`."""
        exports = self.exports
        return self.may_have(name) and (exports is None or not exports.is_whole or name in exports.names)

    def may_have(self, name: str) -> bool:
        """Return whether another module may get `name` from this one."""
        return bool(self.stars) or name in self.bound

    def has(self, name: str) -> bool:
        """Return whether the code has a name, or a string that is one."""
        return name in self.names or name in self.texts

    def spells(self, word: str) -> bool:
        """Return whether a word is a part of a name or a string of the code."""
        return any(word in each for words in (self.imports, self.names, self.texts) for each in words)

    def imports_one_of(self, modules: Set[str]) -> bool:
        """Return whether the file imports one of some modules, or something of one."""
        return not modules.isdisjoint(with_packages(self.imports))


def with_packages(modules: Iterable[str]) -> set[str]:
    """Some modules, and the packages that they are in, as far as these have names."""
    found: set[str] = set()
    for module in modules:
        while module.strip(".") and module not in found:
            found.add(module)
            module = module.rpartition(".")[0]
    return found.union(modules)


def encoded(facts: FileFacts | None) -> bytes:
    """Facts as bytes, for other processes and for the store; None are those of what is not Python."""
    return _ENCODER.encode(facts)


def decoded(data: bytes) -> FileFacts | None:
    """The same read again. Raises msgspec.DecodeError."""
    return _DECODER.decode(data)


_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[FileFacts | None] = msgspec.msgpack.Decoder(FileFacts | None)
