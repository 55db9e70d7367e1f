"""Code that has a faster equivalent in torch_npu: what operators.json knows, where the release asked for has it."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from gpu2npu.analysis.affinity import shapes as matchers
from gpu2npu.analysis.code import Code, DoneCalls
from gpu2npu.python.tree.syntax import DEFINITIONS, Definition, argument_of
from gpu2npu.records import Advice, AdviceKind, Span
from gpu2npu.shapes import catalogue
from gpu2npu.shapes.catalogue import SHAPES, found_shapes
from gpu2npu.shapes.kind import AffinityKind
from gpu2npu.support.release_tables import SupportTable, table_for

DATA = Path(__file__).parent / "operators.json"

# How far below its head a function that attends computes the scores.
_ATTENTION_LINES = 25

MATCHERS: Mapping[str, matchers.Matcher] = {
    matcher.__name__: matcher
    for matcher in (
        matchers.expert_loop,
        matchers.masked_select,
        matchers.masked_store,
        matchers.masked_update,
        matchers.normed_silu,
        matchers.normed_sum,
        matchers.routed_softmax,
        matchers.transposed_matmul,
        matchers.window_roll,
    )
}


class Affinity(Struct, frozen=True):
    """One piece of knowledge. `form` is the vendor's word: torch, function, class or special.

    It matches `calls` (qualified name -> replacement) whose keywords are those in `having`, definitions of one of the
    names `defines` that call something of each group in `doing`, or a `shape`, one of MATCHERS. `needs` are operators
    ("npu::npu_rms_norm") and names of torch_npu that the release must have; `unless_supported` is an operator which, if
    registered for the NPU, makes the advice needless.
    """

    id: str
    form: str
    why: str
    source: str
    calls: Mapping[str, str]
    having: Mapping[str, Any]
    defines: frozenset[str]
    doing: tuple[frozenset[str], ...]
    shape: str
    replacement: str
    needs: tuple[str, ...] | None
    unless_supported: str
    examples: tuple[Mapping[str, Any], ...]


@cache
def affinities() -> tuple[Affinity, ...]:
    """All there are, in the order of the file."""
    return tuple(_decoded(entry) for entry in json.loads(DATA.read_text(encoding="utf-8")))


def _decoded(entry: Mapping[str, Any]) -> Affinity:
    match = entry["match"]
    return Affinity(
        id=entry["id"],
        form=entry["form"],
        why=entry["why"],
        source=entry["source"],
        calls=match.get("calls", {}),
        having=match.get("with", {}),
        defines=frozenset(match.get("defines", ())),
        doing=tuple(frozenset(group) for group in match.get("doing", ())),
        shape=match.get("shape", ""),
        replacement=entry.get("replacement", ""),
        needs=tuple(entry["needs"]) if "needs" in entry else None,
        unless_supported=entry.get("unless_supported", ""),
        examples=tuple(entry["examples"]),
    )


class Affinities(Struct, frozen=True):
    """All that applies in one release: calls and definitions by name, shapes for people to change, those `fused`."""

    evidence: str
    calls: Mapping[str, Affinity]
    defines: Mapping[str, Affinity]
    shapes: tuple[Affinity, ...]
    fused: tuple[AffinityKind, ...]


@cache
def knowledge_for(version: str) -> Affinities:
    """Raises ValueError when `version` is not one of releases.VERSIONS."""
    table = table_for(version)
    known = [each for each in affinities() if each.unless_supported not in table.supported]
    return Affinities(
        evidence=table.evidence,
        calls={name: each for each in known for name, new in each.calls.items() if available(each, new, table)},
        defines={name: each for each in known for name in each.defines if available(each, each.replacement, table)},
        shapes=tuple(each for each in known if each.shape and available(each, each.replacement, table)),
        fused=tuple(kind for kind in SHAPES.values() if catalogue.available(kind, table)),
    )


def available(affinity: Affinity, replacement: str, table: SupportTable) -> bool:
    """Return whether the release has what replaces the code: the operator of that name, or the name in its Python."""
    needs = affinity.needs if affinity.needs is not None else (replacement,)
    return all(need in table.torch_npu_names or table.has_operator(_operator(need)) for need in needs)


def _operator(need: str) -> str:
    return need if "::" in need else f"npu::{need.removeprefix('torch_npu.')}"


def affinity_advice(code: Code, version: str) -> list[Advice]:
    """The advice for one code, in the order of its places."""
    known = knowledge_for(version)
    found = {
        *_called(code, known),
        *_defined(code, known),
        *(_advice(code, each, node, api, each.replacement, known)
          for each in known.shapes for node, api in MATCHERS[each.shape](code)),
        *_fused(code, known),
    }  # fmt: skip
    return sorted(_without_parts(found), key=lambda advice: (advice.span, advice.rule))


def _fused(code: Code, known: Affinities) -> Iterator[Advice]:
    """The shapes of the catalogue, as the finder of `--affinity` finds them."""
    for kind, node in found_shapes(code.names, known.fused):
        owner = _owner(code, node, kind.form)
        api = kind.title if owner is None else owner.name
        yield _advice(code, kind, owner or node, api, kind.replacement, known)


def _owner(code: Code, node: ast.expr, form: str) -> Definition | None:
    """The class or function to report code at, for forms that are reported so."""
    above = [each for each in code.file.above(node) if isinstance(each, DEFINITIONS)] if form != "special" else []
    classes = [each for each in above if isinstance(each, ast.ClassDef)] if form == "class" else []
    return next(iter([*classes, *above]), None)


def _without_parts(found: set[Advice]) -> Iterator[Advice]:
    """The advice without what is a part of larger advice: the scores of an attention that one operator computes."""
    attention = {advice.span.start_line for advice in found if advice.rule.endswith("attention")}
    for advice in found:
        near = any(0 <= advice.span.start_line - line <= _ATTENTION_LINES for line in attention)
        if advice.rule != "transposed-matmul" or not near:
            yield advice


def _called(code: Code, known: Affinities) -> Iterator[Advice]:
    leaves = {name.rpartition(".")[2] for name in known.calls}
    for call, scope in code.calls:
        function = call.func
        # An alias (`from torch.optim import AdamW as Opt`) has another last name: only bare names can be one.
        if isinstance(function, ast.Attribute) and function.attr not in leaves:
            continue
        qualified = code.qualified(function, scope)
        affinity = known.calls.get(_public(qualified)) if qualified is not None else None
        if affinity is not None and qualified is not None and _has_arguments(call, affinity):
            replacement = affinity.calls[_public(qualified)]
            yield _advice(code, affinity, call, _public(qualified), replacement, known)


def _public(qualified: str) -> str:
    """torch.optim.AdamW for torch.optim.adamw.AdamW, where the class is defined."""
    parts = qualified.split(".")
    if len(parts) == 4 and parts[:2] == ["torch", "optim"] and parts[2] == parts[3].lower():
        return f"torch.optim.{parts[3]}"
    if len(parts) == 4 and parts[:2] == ["torchvision", "ops"]:
        return f"torchvision.ops.{parts[3]}"
    return qualified


def _has_arguments(call: ast.Call, affinity: Affinity) -> bool:
    given = {name: argument_of(call, name) for name in affinity.having}
    return all(isinstance(node, ast.Constant) and node.value == affinity.having[name] for name, node in given.items())


def _defined(code: Code, known: Affinities) -> Iterator[Advice]:
    named = [(node, scope, known.defines.get(node.name)) for node, scope in code.definitions]
    if not any(affinity is not None for _, _, affinity in named):
        return
    done = DoneCalls(code)
    for node, scope, affinity in named:
        if affinity is None:
            continue
        calls = done.of(scope)
        if all(any(name in calls for name in group) for group in affinity.doing):
            yield _advice(code, affinity, node, node.name, affinity.replacement, known)


def _advice(
    code: Code,
    affinity: Affinity | AffinityKind,
    node: ast.expr | ast.stmt,
    api: str,
    replacement: str,
    known: Affinities,
) -> Advice:
    where = f" {replacement} is part of {known.evidence}." if replacement.startswith("torch_npu.") else ""
    form = affinity.form
    if form in ("class", "function") and isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        form = "class" if isinstance(node, ast.ClassDef) else "function"
    return Advice(_span(code, node), affinity.id, AdviceKind.AFFINITY, api, f"{affinity.why}{where}", replacement, form)


def _span(code: Code, node: ast.expr | ast.stmt) -> Span:
    """The place of an expression, and the first line of a definition."""
    span = code.file.span(node)
    if not isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return span
    return Span(span.start_line, span.start_column, span.start_line, span.start_column + len(node.name))
