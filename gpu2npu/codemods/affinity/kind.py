"""The parts of a kind of affinity rewrite: where it applies, what it changes, and examples that prove it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpu2npu.codemods.affinity.reading import Reading
from gpu2npu.codemods.affinity.terms import Term


@dataclass(frozen=True)
class Match:
    """An expression that becomes a call of `function`, a name in the module of fused operators or a qualified one.

    An argument is a term, whose code is used as it stands with `suffixes` behind it, or a text.
    """

    root: Term
    function: str
    arguments: tuple[Term | str, ...]
    suffixes: Mapping[int, str]


def match(root: Term, function: str, *arguments: Term | str, suffixes: Mapping[int, str] | None = None) -> Match:
    """A match without suffixes unless they are given."""
    return Match(root, function, arguments, suffixes or {})


@dataclass(frozen=True)
class Example:
    """Code that defines `f`, before and after. `shapes` are the sizes of its tensors, in letters for those that vary;
    `after` is "" where the code stays."""

    before: str
    after: str = ""
    shapes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kind:
    """One kind of rewrite.

    `id` is its rule, which `# gpu2npu: skip=` and change_list.csv name. It looks at expressions of the types `nodes` in
    files that have one of `words`. `needs` are operators of the release ("npu::npu_rms_norm"). `statement` says what it
    changes; `rounding` is by how much results may differ, by dtype, relative to the largest. Only a kind that changes
    nothing else is `safe`.
    """

    id: str
    find: Callable[[Reading, ast.expr], Match | None]
    nodes: tuple[type[ast.expr], ...]
    words: tuple[bytes, ...]
    needs: tuple[str, ...]
    message: str
    statement: str
    rounding: Mapping[str, float]
    examples: tuple[Example, ...]
    safe: bool = True
