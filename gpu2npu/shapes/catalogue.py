"""The catalogue of fused shapes: the rows of shapes.json, by their rules."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from gpu2npu.python.meaning.names import Names
from gpu2npu.python.text.offsets import holds
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.shapes import finders
from gpu2npu.shapes.kind import AffinityKind, AffinityReplacement, Find, FusedCase, FusedMatch
from gpu2npu.shapes.patterns import Pattern, find_pattern
from gpu2npu.shapes.reading import TermReader
from gpu2npu.support.release_tables import SupportTable

DATA = Path(__file__).parent / "shapes.json"
# What finds the shapes that no pattern can describe.
_FINDERS: Mapping[str, Find] = {
    "attention": finders.find_attention,
    "masked-attention": finders.find_masked_attention,
    "rms-norm": finders.find_rms_norm,
    "confusion-transpose": finders.find_reshaped,
    "stacked-matmul": finders.find_stacked,
    "one-hot": finders.find_one_hot,
}
_NODES = {True: (ast.BinOp, ast.Call), False: (ast.Call,)}
# The operators and calls of the terms that a pattern may be.
_ROOTS: Mapping[str, tuple[tuple[type[ast.operator], ...], tuple[str, ...]]] = {
    "mul": ((ast.Mult, ast.Div), ("mul", "multiply")),
    "add": ((ast.Add, ast.Sub), ("add", "addcmul")),
    "cat": ((), ("cat", "concat")),
    "layer_norm": ((), ()),  # a module of any name
    "nll_loss": ((), ("nll_loss",)),
}


def kind_of(row: Mapping[str, Any], find: Find | None = None) -> AffinityKind:
    """The kind of a row, with its patterns or what finds it."""
    patterns = [Pattern.of(code, becomes) for code, becomes in row.get("patterns", ())]
    roots = [_ROOTS[each.root.op] for each in patterns]
    operators = {each for found, _ in roots for each in found} | {
        getattr(ast, each) for each in row.get("operators", ())
    }
    named = row.get("calls", ())
    calls = frozenset(each for _, found in roots for each in found).union(named) if named is not None else None
    return AffinityKind(
        row["id"],
        find or (partial(find_pattern, patterns) if patterns else _FINDERS[row["id"]]),
        tuple(getattr(ast, each) for each in row["nodes"]) if "nodes" in row else _NODES[bool(operators)],
        tuple(word.encode() for word in row["words"]),
        tuple(row["needs"]),
        row["why"],
        row["statement"],
        row["rounding"],
        tuple(FusedCase(**{**each, "shapes": tuple(each.get("shapes", ()))}) for each in row["examples"]),
        row.get("safe", True),
        calls,
        tuple(operators),
        tuple(row.get("also", ())),
        row.get("title", ""),
        row.get("form", "special"),
        row.get("replacement", ""),
        row.get("source", ""),
        row.get("second_derivatives", not any(need.startswith("npu::") for need in row["needs"])),
    )


SHAPES: dict[str, AffinityKind] = {row["id"]: kind_of(row) for row in json.loads(DATA.read_text(encoding="utf-8"))}


# The words of which code of a shape has one, of each tuple of its row.
_WORDS = {kind.id: (tuple(map(bytes.decode, kind.words)), kind.also or ("",)) for kind in SHAPES.values()}


def available(kind: AffinityKind, table: SupportTable) -> bool:
    """Return whether a release has all operators that a kind needs."""
    return all(map(table.has_operator, kind.needs))


def found_shapes(names: Names, kinds: Iterable[AffinityKind]) -> Iterator[tuple[AffinityKind, ast.expr]]:
    """The nodes of a file that are of some kinds; not those that are a part of a larger one."""
    text = names.file.text
    has = text.__contains__
    words = ((each, *_WORDS[each.id]) for each in kinds if each.id in SHAPES)
    known = [each for each, some, others in words if any(map(has, some)) and any(map(has, others))]
    if not known:
        return
    reading = TermReader(names)
    found: list[tuple[AffinityKind, ast.expr, FusedMatch | AffinityReplacement]] = []
    for node, candidates in _candidates(names.file, known):
        for kind in candidates:
            match = kind.find(reading, node)
            if match is not None:
                found.append((kind, node, match))
                break
    parts: set[ast.AST] = set()
    for _, node, match in found:
        given = match.arguments if isinstance(match, AffinityReplacement) else ()  # code that the call has, too
        left = [each for each in given if not isinstance(each, str) and isinstance(each[0], int)]
        within = (part for part in ast.walk(node) if part is not node and isinstance(part, ast.expr))
        parts.update(part for part in within if not any(holds(each, names.file.bounds(part)) for each in left))
        if isinstance(match, FusedMatch):
            parts.update(part for term in match.root.parts() for each in term.through for part in ast.walk(each))
    yield from ((kind, node) for kind, node, _ in found if node not in parts)


def _candidates(file: PythonFile, kinds: Iterable[AffinityKind]) -> Iterator[tuple[ast.expr, list[AffinityKind]]]:
    """The sums, products and calls that may be of some kinds."""
    by_name: dict[object, list[AffinityKind]] = {}
    of_all = [kind for kind in kinds if kind.calls is None]
    for kind in kinds:
        for key in (*kind.operators, *(kind.calls or ())):
            by_name.setdefault(key, []).append(kind)
    nodes = file.unordered()
    for product in nodes.get(ast.BinOp, ()):
        if product.op.__class__ in by_name:
            yield product, by_name[product.op.__class__]
    for call in nodes.get(ast.Call, ()):
        func = call.func
        name = func.attr if func.__class__ is ast.Attribute else func.id if func.__class__ is ast.Name else ""
        if of_all or name in by_name:
            yield call, [*by_name.get(name, ()), *of_all]
