"""The edges of values in one Python file: from where to where each value goes, and how. They know no library.

A node is a number for a value at run time; 0 is a value that is not followed. Reading a name gives the node that the
name is bound to there, so `v = w` makes no edge, and a name that is bound anew has another node.

| edge     | from         | to          | label   |                                                                |
|----------|--------------|-------------|---------|----------------------------------------------------------------|
| ASSIGN   | a value      | a join      |         | a default, `a if c else b`, what branches and loops leave      |
| INHERIT  | class, dict  | class, copy |         | what the one holds, the other holds too                        |
| STORE    | a value      | its holder  | a field | an attribute, a key, an element, what a function returns       |
| LOAD     | its holder   | a value     | a field | the same fields read                                           |
| ARGUMENT | a value      | a call      | 0, w    | also `*` and `**`                                              |
| TEXT     | a value      | its text    |         | an f-string, `+`, `%`, a slice                                 |
| COMPARE  | a value      | a value     |         | `==`, `in`, `match`, a key that is looked up; in each direction |

KEYS is a further edge, which calls make: from an object to a dict of its attributes, or, with the label `.`, from a
dict to an object that has what is under its keys as attributes. TYPE is one from a class to what is annotated with it.

Fields: `.w` an attribute, `[0]` an element, `['w']` a key, `[*]` any of these, `[key]` the keys of a dict, `[each]`
what a loop takes, `()` what a function returns or a class makes.
"""

from __future__ import annotations

import msgspec

ASSIGN, INHERIT, STORE, LOAD, ARGUMENT, TEXT, COMPARE, KEYS, TYPE = range(9)
NOTHING, MODULE = 0, 1  # nodes that every file has
SUBSCRIPT = "Subscript"  # the operator of `x[i]`, where i is not a constant: what is read is an element of x

Edge = tuple[int, int, int, int]  # from, kind, to, the index of the label


class Text(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A string at a place, whose column is counted as `ast` does. `value` is None for an f-string."""

    node: int
    value: str | None
    line: int
    column: int


class Parameters(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A function: its parameters by name, the nodes of `*args` and `**kwargs` or 0, and how many parameters a call
    gives it by itself: of `self` through an object, of `cls` through the class too; and its decorators."""

    node: int
    positional: tuple[tuple[str, int], ...]
    named: tuple[tuple[str, int], ...]
    star: int
    stars: int
    takes_self: bool
    takes_class: bool
    decorators: tuple[int, ...] = ()


class ClassValue(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A class: `instance` is all objects of it, `fields` its annotated attributes in order, `selves` the first
    parameters of its methods."""

    node: int
    instance: int
    bases: tuple[int, ...]
    fields: tuple[str, ...]
    selves: tuple[int, ...]


class Taken(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A name of another module, as an import statement writes it; the module itself where `name` is empty."""

    node: int
    module: str
    name: str


class Called(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A call, what it calls, the object that a method is of or 0, the last name of what is called, and where the call
    ends, which no other call does."""

    node: int
    callee: int
    receiver: int
    name: str
    line: int
    end_line: int
    end_column: int


class Arithmetic(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Arithmetic or a comparison of two values: the name of the operator in `ast` ("Mult", "GtE"), its operands or 0,
    "[:,None]" of a view, and where it begins and ends. Of `+=` and the like the left operand is what is changed."""

    node: int
    operator: str
    operands: tuple[int, int]
    is_in_place: bool
    place: tuple[int, int, int, int]


class DataValues(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The values of a file that is not Python: each text at its line and offset. `changed` are the nodes of those that
    their keys alone say to change, `fixed` those that only a person can: other places take them too, or they are
    folded."""

    facts: ValueFacts
    root: int
    changed: frozenset[int]
    fixed: frozenset[int]


class ValueFacts(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The values of a file. `lines` has the line of each node, `outside` the names that nothing in the file binds,
    `stars` the modules that may bind them, `containers` the displays and comprehensions, `numbers` the constants that
    are numbers, True or False."""

    labels: tuple[str, ...]
    edges: tuple[Edge, ...]
    lines: tuple[int, ...]
    texts: tuple[Text, ...]
    functions: tuple[Parameters, ...]
    classes: tuple[ClassValue, ...]
    imports: tuple[Taken, ...]
    outside: tuple[tuple[int, str], ...]
    stars: tuple[str, ...]
    containers: tuple[int, ...]
    calls: tuple[Called, ...]
    operations: tuple[Arithmetic, ...]
    numbers: tuple[tuple[int, int | float | bool], ...]


def encoded_values(facts: ValueFacts) -> bytes:
    """The values of a file as bytes."""
    return _ENCODER.encode(facts)


def decoded_values(data: bytes) -> ValueFacts:
    """The same read again. Raises msgspec.DecodeError."""
    return _DECODER.decode(data)


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(ValueFacts)
