"""Code that has a faster equivalent in torch_npu: what operators.json knows, where the release asked for has it."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from gpu2npu.analysis.affinity.shapes import (
    Found,
    Matcher,
    expert_loop,
    geglu,
    masked_select,
    masked_store,
    masked_update,
    normed_silu,
    normed_sum,
    permuted_reshape,
    quick_gelu,
    routed_softmax,
    sigmoid_product,
    softplus_product,
    swiglu,
    tanh_gelu,
    transposed_matmul,
    window_roll,
)
from gpu2npu.analysis.code import Code
from gpu2npu.analysis.done_calls import DoneCalls, function_of, keyword, number, values_of
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import last_name
from gpu2npu.records import Advice, AdviceKind, Span
from gpu2npu.support.release_tables import SupportTable, table_for


def rms_norm(code: Code) -> Found:
    """A function, or a class with one, that multiplies by `rsqrt` of the mean of squares over the last dimension."""
    if "sqrt" not in code.text:
        return
    done = DoneCalls(code)
    for function, scope in code.functions():
        calls = done.of(scope)
        if "rsqrt" not in calls and "sqrt" not in calls:
            continue
        if any(_is_mean_of_squares(call, scope) for call in calls.get("mean", ())):
            owner = scope.parent
            named = owner.node if owner is not None and isinstance(owner.node, ast.ClassDef) else function
            yield named, named.name


def _is_mean_of_squares(call: ast.Call, scope: Scope) -> bool:
    """`x.pow(2).mean(-1, ...)` or `torch.mean(x ** 2, -1, ...)`, not of deviations from a mean."""
    arguments = list(call.args)
    squares = call.func.value if isinstance(call.func, ast.Attribute) else None
    if isinstance(squares, ast.Name) and squares.id == "torch" and arguments:
        squares = arguments.pop(0)
    dim = arguments[0] if arguments else next((each.value for each in call.keywords if each.arg == "dim"), None)
    last = dim is not None and (number(dim) == -1 or (isinstance(dim, (ast.Tuple, ast.List)) and len(dim.elts) == 1))
    base = _squared(squares) if squares is not None else None
    if base is None or not last or isinstance(base, ast.BinOp):
        return False
    return not any(
        isinstance(each.value, ast.BinOp) and isinstance(each.value.op, ast.Sub) for each in values_of(base, scope)
    )


def _squared(node: ast.expr) -> ast.expr | None:
    """The x of `x.pow(2)`, `x ** 2`, `x.square()`, `x * x`, `torch.pow(x, 2)`, `torch.square(x)`."""
    if isinstance(node, ast.BinOp):
        power = isinstance(node.op, ast.Pow) and number(node.right) == 2
        square = isinstance(node.op, ast.Mult) and ast.dump(node.left) == ast.dump(node.right)
        return node.left if power or square else None
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    operands = [node.func.value, *node.args]
    if isinstance(node.func.value, ast.Name) and node.func.value.id == "torch":
        operands = list(node.args)
    if node.func.attr == "square" and operands:
        return operands[0]
    return operands[0] if node.func.attr == "pow" and len(operands) == 2 and number(operands[1]) == 2 else None


def rotary_embedding(code: Code) -> Found:
    """A function that adds `x * cos` and `rotate_half(x) * sin`, where rotate_half joins `-x2` and `x1`."""
    if "rotate_half" not in code.text:
        return
    seen: set[int] = set()
    for call, scope in code.calls:
        if last_name(call.func) != "rotate_half":
            continue
        function = function_of(scope)
        found = code.names.definition(call.func, scope)
        if function is None or id(function) in seen or (found is not None and not _swaps_halves(found.bound.node)):
            continue
        seen.add(id(function))
        assert isinstance(function.node, (ast.FunctionDef, ast.AsyncFunctionDef))
        yield call, function.node.name


def _swaps_halves(node: ast.AST) -> bool:
    """Return whether a function joins the second half, negated, and the first."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and last_name(call.func) in ("cat", "concat") and call.args:
            parts = call.args[0]
            if isinstance(parts, (ast.Tuple, ast.List)) and parts.elts and isinstance(parts.elts[0], ast.UnaryOp):
                return isinstance(parts.elts[0].op, ast.USub)
    return False


def spelled_attention(code: Code) -> Found:
    """`softmax(q @ k.transpose(-2, -1)) @ v` within one function, dropout and masks between or not."""
    if "softmax" not in code.text:
        return
    products = _matmuls(code)
    if not any(len(inside) > 1 for inside in products.values()):
        return
    done = DoneCalls(code)
    for function, scope in code.functions():
        inside = products.get(scope, [])
        if len(inside) < 2 or "softmax" not in done.of(scope):
            continue
        scores = any(_has_transposed_operand(node) for node in inside)
        for node in inside:
            if scores and _is_softmax(_operands(node)[0], scope):
                yield node, function.name
                break


def _matmuls(code: Code) -> dict[Scope, list[ast.expr]]:
    found: dict[Scope, list[ast.expr]] = {}
    for product, scope in code.products:
        if isinstance(product.op, ast.MatMult):
            found.setdefault(scope, []).append(product)
    for call, scope in code.calls:
        if last_name(call.func) in ("matmul", "bmm") and len(_operands(call)) == 2:
            found.setdefault(scope, []).append(call)
    return found


def _operands(node: ast.expr) -> list[ast.expr]:
    """The two factors of `a @ b`, `torch.matmul(a, b)` and `a.matmul(b)`."""
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    assert isinstance(node, ast.Call)
    method = isinstance(node.func, ast.Attribute) and last_name(node.func.value) != "torch" and len(node.args) == 1
    return [node.func.value, *node.args] if method else list(node.args)  # type: ignore[attr-defined]


def _has_transposed_operand(node: ast.expr) -> bool:
    right = _operands(node)[1]
    if isinstance(right, ast.Attribute):
        return right.attr in ("mT", "T")
    return isinstance(right, ast.Call) and last_name(right.func) in ("transpose", "permute", "t", "swapaxes")


def _is_softmax(node: ast.expr, scope: Scope, depth: int = 3) -> bool:
    """Return whether a value is that of a softmax, cast or dropped out or not."""
    if isinstance(node, ast.Call):
        if last_name(node.func) == "softmax":
            return True
        inner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        return depth > 0 and any(_is_softmax(each, scope, depth - 1) for each in (*node.args[:1], *inner))
    return depth > 0 and any(
        each.value is not None and not each.is_part and _is_softmax(each.value, scope, depth - 1)
        for each in values_of(node, scope)
    )


DATA = Path(__file__).parent / "operators.json"

# How far above its last product the scores of an attention are computed.
_ATTENTION_LINES = 25

MATCHERS: Mapping[str, Matcher] = {
    matcher.__name__: matcher
    for matcher in (
        expert_loop,
        geglu,
        masked_select,
        masked_store,
        masked_update,
        normed_silu,
        normed_sum,
        permuted_reshape,
        quick_gelu,
        rms_norm,
        rotary_embedding,
        routed_softmax,
        sigmoid_product,
        softplus_product,
        spelled_attention,
        swiglu,
        tanh_gelu,
        transposed_matmul,
        window_roll,
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
    """The matchers that apply in one release: calls and definitions by name, and the shapes."""

    evidence: str
    calls: Mapping[str, Affinity]
    defines: Mapping[str, Affinity]
    shapes: tuple[Affinity, ...]


@cache
def knowledge_for(version: str) -> Affinities:
    """Raises ValueError when `version` is not one of tables.VERSIONS."""
    table = table_for(version)
    known = [each for each in affinities() if each.unless_supported not in table.supported]
    return Affinities(
        evidence=table.evidence,
        calls={name: each for each in known for name, new in each.calls.items() if available(each, new, table)},
        defines={name: each for each in known for name in each.defines if available(each, each.replacement, table)},
        shapes=tuple(each for each in known if each.shape and available(each, each.replacement, table)),
    )


def available(affinity: Affinity, replacement: str, table: SupportTable) -> bool:
    """Return whether the release has what replaces the code: the operator of that name, or the name in its Python."""
    needs = affinity.needs if affinity.needs is not None else (replacement,)
    return all(_has(need, table) for need in needs)


def _has(need: str, table: SupportTable) -> bool:
    operator = need if "::" in need else f"npu::{need.removeprefix('torch_npu.')}"
    custom = any(name == operator or name.startswith(f"{operator}.") for name in table.custom)
    return custom or need in table.torch_npu_names


def affinity_advice(code: Code, version: str) -> list[Advice]:
    """The advice for one code, in the order of its places."""
    known = knowledge_for(version)
    found = {
        *_called(code, known),
        *_defined(code, known),
        *(_advice(code, each, node, api, each.replacement, known)
          for each in known.shapes for node, api in _shaped(each, code)),
    }  # fmt: skip
    return sorted(_without_parts(found), key=lambda advice: (advice.span, advice.rule))


def _without_parts(found: set[Advice]) -> Iterator[Advice]:
    """The advice without what is a part of larger advice: the scores of an attention that one operator computes."""
    attention = {advice.span.start_line for advice in found if advice.rule == "spelled-attention"}
    for advice in found:
        near = any(0 <= line - advice.span.start_line <= _ATTENTION_LINES for line in attention)
        if advice.rule != "transposed-matmul" or not near:
            yield advice


def _shaped(affinity: Affinity, code: Code) -> Found:
    return MATCHERS[affinity.shape](code)


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
    given = {name: keyword(call, name) for name in affinity.having}
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
    code: Code, affinity: Affinity, node: ast.expr | ast.stmt, api: str, replacement: str, known: Affinities
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
