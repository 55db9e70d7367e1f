"""The parts of a kind of affinity rewrite: where it applies, what it changes, and examples that prove it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from gpu2npu.python.tree.syntax import last_name
from gpu2npu.records import Bounds, Text
from gpu2npu.shapes.terms import Term


class ArgumentTemplate(Struct, frozen=True):
    """The code of an argument, such as `scale=1.0 / {scale}`, and the terms for its fields."""

    text: str
    terms: Mapping[str, Term]


Argument = Term | str | ArgumentTemplate


class FusedMatch(Struct, frozen=True):
    """A value that becomes a call of `function`: a name in the module of fused operators, or a qualified one of
    torch's. The code `behind` follows the call."""

    root: Term
    function: str
    arguments: tuple[Argument, ...]
    behind: str = ""

    @property
    def is_certain(self) -> bool:
        """Return whether nothing in the value is for advice only."""
        return all(part.is_certain for part in self.root.parts())

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms whose code the call repeats."""
        return tuple(term for each in self.arguments for term in _terms(each))


class AffinityReplacement(Struct, frozen=True):
    """Code that takes the place of a node, or of what is `at` a place: `text`, or a call of a function in the module of
    fused operators with `arguments`, or its name where there are none, or the import of the names that it `imports`
    from that module. `more` are those of other nodes, which change with it."""

    function: str = ""
    arguments: tuple[Text | Bounds, ...] = ()
    text: Text | None = None
    at: Bounds | None = None
    imports: str = ""
    more: tuple[AffinityReplacement, ...] = ()


# Recognises a node by a TermReader, or one that has the whole program; None where it is something else.
Find = Callable[[Any, Any], FusedMatch | AffinityReplacement | None]


def _terms(argument: Argument) -> tuple[Term, ...]:
    if isinstance(argument, str):
        return ()
    return (argument,) if isinstance(argument, Term) else tuple(argument.terms.values())


HEAD = "import math\nimport torch\nimport torch.nn.functional as F\n"


class FusedCase(Struct, frozen=True):
    """Code that defines `f`, before and after; "" where it stays. `shapes` are the sizes of its tensors, by letters
    for sizes, or numbers; `mixes` means that they may have several dtypes."""

    before: str
    after: str = ""
    shapes: tuple[str, ...] = ()
    mixes: bool = True

    @property
    def source(self) -> str:
        """The whole file before."""
        return f"{HEAD}{self.before}"

    @property
    def result(self) -> str:
        """The whole file after, "" where it stays."""
        called = self.after.replace("from ascend_affinity.", "")
        needed = "import ascend_affinity\n" if "ascend_affinity." in called else ""
        return f"{HEAD}{needed}{self.after}" if self.after else ""


_BINARY_CALLS = frozenset({"mul", "multiply", "matmul", "bmm"})


class AffinityKind(Struct, frozen=True):
    """One kind of rewrite.

    `id` is its rule, which `# gpu2npu: skip=` and change_list.csv name. It looks at nodes of the types `nodes` in
    files that have one of `words`, and one that they have `also` if there are any: of calls, at those of a function or
    method in `calls`, where it is not None, of sums and products at those with one of `operators`. `needs` are
    operators of the release ("npu::npu_rms_norm"). `statement` is what it changes; `rounding` is by how much results
    may differ, by dtype, relative to the largest. Only a kind that changes nothing else is `safe`. Advice names what
    the code is, `title`, or with the `form` "function" or "class" the definition that it is in, the `replacement`, and
    its `source`. `second_derivatives` are after a rewrite what they were: npu operators have none, nor has flash_attn
    itself, and gradients that have a graph leave the joined memory of an optimizer.
    """

    id: str
    find: Find
    nodes: tuple[type[ast.AST], ...]
    words: tuple[bytes, ...]
    needs: tuple[str, ...]
    message: str
    statement: str
    rounding: Mapping[str, float]
    examples: tuple[FusedCase, ...]
    safe: bool = True
    calls: frozenset[str] | None = _BINARY_CALLS
    operators: tuple[type[ast.operator], ...] = (ast.Add, ast.Mult, ast.Div, ast.MatMult)
    also: tuple[str, ...] = ()
    title: str = ""
    form: str = "special"
    replacement: str = ""
    source: str = ""
    second_derivatives: bool = True

    @property
    def why(self) -> str:
        """The reason for advice."""
        return f"{self.message} {self.statement}"

    def looks_at(self, node: ast.AST) -> bool:
        """Return whether a node is of those that may be of the kind."""
        if not isinstance(node, self.nodes):
            return False
        if isinstance(node, ast.BinOp):
            return isinstance(node.op, self.operators)
        return not isinstance(node, ast.Call) or self.calls is None or last_name(node) in self.calls
