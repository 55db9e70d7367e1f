"""The values of expressions as terms: operations on other values, whatever way the source spells them.

`x.pow(2)`, `x * x` and `torch.square(x)` are one term. A name stands for the value that straight-line code gave it, and
a call of a function of the project with a single `return` for what that returns. What cannot be followed is a leaf.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Term:
    """A value. `value` is the number of a "const", the position of an "item", and what identifies a leaf.

    One that is not `is_certain` is for advice only: hooks of a module run, a condition decides its dtype, or its
    dimensions are in another order. `spelled` are expressions of the function that is looked at which have this value,
    the shortest first; none where only another function has them. `through` are the assignments of that function that
    lead to the value. `dimensions` is their number, where an operation shows it.
    """

    op: str
    args: tuple[Term, ...] = ()
    value: object = None
    is_certain: bool = field(default=True, compare=False, repr=False)
    spelled: tuple[ast.expr, ...] = field(default=(), compare=False, repr=False)
    through: tuple[ast.stmt, ...] = field(default=(), compare=False, repr=False)
    dimensions: int | None = field(default=None, compare=False, repr=False)

    def parts(self) -> Iterator[Term]:
        """The term and all that it is made of."""
        yield self
        for part in self.args:
            yield from part.parts()

    @property
    def assignments(self) -> tuple[ast.stmt, ...]:
        """The assignments that lead to the value, or to what it is made of."""
        return tuple(dict.fromkeys(each for part in self.parts() for each in part.through))

    @property
    def number(self) -> float | None:
        """The value of a number; None for anything else."""
        return self.value if self.op == "const" and isinstance(self.value, float) else None

    @property
    def ranks(self) -> frozenset[int | None]:
        """The numbers of dimensions of the values of which this has the largest, with None for one not known."""
        if self.dimensions is None and self.op in ("add", "sub", "mul", "div"):
            return frozenset(rank for each in self.args if each.number is None for rank in each.ranks)
        is_of_first = self.dimensions is None and (self.op in _OF_FIRST or self.op == "cast")
        return self.args[0].ranks if is_of_first else frozenset({self.dimensions})


FLOAT32 = Term("float32")

# Operations whose result has the dtype of what they are first given.
_OF_FIRST = frozenset(
    {"pow", "mean", "rsqrt", "sqrt", "neg", "sigmoid", "silu", "gelu", "tanh", "softplus", "softmax", "first_half",
     "second_half", "first_part", "second_part", "even", "odd", "transposed", "flattened", "masked", "exp", "log",
     "logistic", "log1p", "erf"}
)  # fmt: skip
_OF_ALL = frozenset({"add", "sub", "mul", "div", "matmul", "cat", "stack"})


def const(number: float) -> Term:
    """The term of a number."""
    return Term("const", value=float(number))


def negated(term: Term) -> Term:
    """The term of a value with the other sign, without a sign that is written twice."""
    if term.number is not None:
        return const(-term.number)
    if term.op == "neg":
        return term.args[0]
    if term.op == "mul":
        left, right = term.args
        if left.number is not None or left.op == "neg":
            return Term("mul", (negated(left), right))
        if right.number is not None or right.op == "neg":
            return Term("mul", (left, negated(right)))
    return Term("neg", (term,))


def without_casts(term: Term) -> Term:
    """The value that a term converts to another dtype, or the term itself."""
    while term.op == "cast":
        term = term.args[0]
    return term


def dtypes(*terms: Term) -> frozenset[Term]:
    """The dtypes whose promotion is that of some values together, each as FLOAT32 or as the leaf that has it.

    Nothing counts as wider than float32: an NPU's operators for this code take no float64.
    """
    found = frozenset(dtype for term in terms for dtype in _dtypes(term))
    return frozenset({FLOAT32}) if FLOAT32 in found else found


def _dtypes(term: Term) -> Iterator[Term]:
    if term.op == "cast":
        yield from dtypes(term.args[1].args[0]) if term.args[1].op == "dtype" else (term.args[1],)
    elif term.op in _OF_FIRST:
        yield from _dtypes(term.args[0])
    elif term.op in _OF_ALL:
        for part in term.args:
            if part.number is None:
                yield from _dtypes(part)
    else:
        yield term


def factors(term: Term) -> tuple[list[Term], list[Term]]:
    """Return the factors of a product and its divisors; conversions of dtype within it are left out."""
    bare = without_casts(term)
    if bare.op == "mul":
        left, right = factors(bare.args[0]), factors(bare.args[1])
        return [*left[0], *right[0]], [*left[1], *right[1]]
    if bare.op == "div":
        above, below = factors(bare.args[0])
        return above, [*below, bare.args[1]]
    return [bare], []
