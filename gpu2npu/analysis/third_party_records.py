"""What a call graph has to know of one Python file, without its syntax tree: small, so that a library fits in memory.

An expression is a tuple of its kind and parts; None is one of which nothing is known:

    ("name", "F")            a name of the module, or a builtin
    ("local", "x")           a name of the function it stands in
    ("import", "torch.nn")   what an import inside a function binds
    ("attribute", e, "relu") an attribute
    ("call", e, (a, ...))    what a call gives; of its arguments, the first two by position
    ("element", e)           an item or an iteration
    ("either", (e, ...))     one of several
    ("instance", e)          an object of the class that an annotation names
    ("super",)               super()
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Expression = tuple[Any, ...] | None


@dataclass(frozen=True, slots=True)
class Use:
    """A place where something is called ("call"), handed on to the call of `to` ("pass") or read ("read").

    `place` is where it ends, in lines from 1, and where it begins and ends in bytes of UTF-8 of its lines, from 0:
    (end line, start column, end column).
    """

    line: int
    value: Expression
    how: str
    place: tuple[int, int, int] = (0, 0, 0)
    to: Expression = None


@dataclass(slots=True)
class Function:
    """A function or method, the functions inside it included, or a module's own code (named "").

    `owner` is its class, "" if it has none. `values` are what its local names may be, parameters by their annotations
    and defaults included.
    """

    name: str
    line: int
    owner: str = ""
    first: str = ""  # the first parameter
    kind: str = ""  # "property", "classmethod", "staticmethod" or ""
    values: dict[str, list[Expression]] = field(default_factory=dict)
    uses: list[Use] = field(default_factory=list)
    returns: list[Expression] = field(default_factory=list)
    annotation: Expression = None


@dataclass(slots=True)
class Class:
    """`attributes` are what its body and its methods (`self.x = ...`) bind, each with the method's name."""

    name: str
    line: int
    bases: list[Expression] = field(default_factory=list)
    methods: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, list[tuple[str, Expression]]] = field(default_factory=dict)


@dataclass(slots=True)
class Facts:
    """One module. `bindings` are the values of its names; a function or class is ("function", name), ("class", name).

    `failure` is why the file cannot be read, and everything else is empty then.
    """

    path: str
    module: str
    bindings: dict[str, list[Expression]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    functions: dict[str, Function] = field(default_factory=dict)
    classes: dict[str, Class] = field(default_factory=dict)
    failure: str = ""

    @property
    def package(self) -> str:
        """What a relative import starts from."""
        return self.module if self.path.endswith("__init__.py") else self.module.rpartition(".")[0]
