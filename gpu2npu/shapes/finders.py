"""Finders of the shapes that no pattern can say.

Scaled dot-product attention, `softmax(q @ k.transpose(-2, -1) * scale) @ v`, masked or not; RMSNorm, `weight * (x *
rsqrt(mean(x ** 2) + eps))`, in all its spellings; and calls of what other calls give: products
that are stacked, one-hot vectors as floats, and dimensions that are put in another order and joined.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from gpu2npu.python.meaning.types import OTHER
from gpu2npu.python.text.templates import bracketed, code
from gpu2npu.python.tree.syntax import is_unpacked, last_name
from gpu2npu.records import Bounds, Text
from gpu2npu.shapes.kind import AffinityReplacement, Argument, ArgumentTemplate, FusedMatch
from gpu2npu.shapes.reading import TermReader
from gpu2npu.shapes.terms import FLOAT32, Term, dtypes, factors, without_casts

# Scores up to here do not count: their exponential is 0 in all dtypes.
_LEAST = -1e4
_TURNING = frozenset({"permute", "transpose", "swapaxes"})


class _Scores(Struct, frozen=True):
    """The scores of query and key: `options` are the keywords of scale, mask and bias."""

    query: Term
    key: Argument
    options: tuple[Argument, ...] = ()
    is_masked: bool = False


def find_attention(reading: TermReader, node: ast.expr) -> FusedMatch | None:
    """A product with the softmax of a scaled product."""
    return _attention(reading, node, is_masked=False)


def find_masked_attention(reading: TermReader, node: ast.expr) -> FusedMatch | None:
    """A product with the softmax of a scaled product that has a mask or a bias, or with that softmax dropped out."""
    return _attention(reading, node, is_masked=True)


def _attention(reading: TermReader, node: ast.expr, is_masked: bool) -> FusedMatch | None:
    root = reading.term(node)
    product = root.args[0] if root.op == "transposed" else root
    if product.op != "matmul":
        return None
    weights, value = without_casts(product.args[0]), product.args[1]
    dropout: tuple[Argument, ...] = ()
    if weights.op == "dropout":
        first, *training = weights.args[1:]
        template = "dropout=({rate}, {training})" if training else "dropout={rate}"
        named = {"rate": first, **dict(zip(("training",), training, strict=False))}
        dropout = (ArgumentTemplate(template, named),)
        weights = without_casts(weights.args[0])
    scores = _scores(without_casts(weights.args[0])) if weights.op == "softmax" else None
    if scores is None or (scores.is_masked or bool(dropout)) != is_masked:
        return None
    behind = ".mT" if product is not root else ""
    given = (_turned(scores.query), scores.key, _turned(value), *scores.options, *dropout)
    return FusedMatch(root, "attention", given, behind)


def _turned(term: Term) -> Argument:
    """The argument for a value that is written, or for one that an equation turns."""
    while term.op == "transposed" == term.args[0].op and not term.spelled and not term.args[0].spelled:
        term = term.args[0].args[0]
    return _transposed(term.args[0]) if term.op == "transposed" and not term.spelled else term


def _transposed(term: Term) -> Argument:
    return ArgumentTemplate("{value}.mT", {"value": term})


def _scores(term: Term) -> _Scores | None:
    """The scores that a term is: masked, with a bias, scaled, or plain."""
    term = without_casts(term)
    if term.op == "masked":
        inner = _scores(term.args[0])
        if inner is None or inner.is_masked or not _is_least(term.args[2]):
            return None
        hidden = ArgumentTemplate("hidden={mask}", {"mask": term.args[1]})
        return replace(inner, options=(*inner.options, hidden, *_fill(term.args[2])), is_masked=True)
    if term.op == "add":
        for one, other in (term.args, term.args[::-1]):
            inner = _scores(one)
            if inner is not None and not inner.is_masked:
                bias = ArgumentTemplate("bias={bias}", {"bias": other})
                return replace(inner, options=(*inner.options, bias), is_masked=True)
        return None
    return _scaled(term)


def _scaled(term: Term) -> _Scores | None:
    if term.op == "matmul":
        return _product(term)
    for one, scale in _scales(term, "scale={scale}", "scale=1.0 / {scale}"):
        inner = without_casts(one)
        if inner.op == "matmul":
            found = _product(inner)
            return found and replace(found, options=(*found.options, scale))
    return None


def _scales(term: Term, factor: str, divisor: str) -> Iterator[tuple[Term, ArgumentTemplate]]:
    """The ways to read a term as a value times a scale: the value, and the argument for a factor or for a divisor."""
    if term.op == "mul":
        yield term.args[0], ArgumentTemplate(factor, {"scale": term.args[1]})
        yield term.args[1], ArgumentTemplate(factor, {"scale": term.args[0]})
    elif term.op == "div" and _is_divisor(term.args[1]):
        yield term.args[0], ArgumentTemplate(divisor, {"scale": term.args[1]})


def _product(term: Term) -> _Scores | None:
    """The scores of a plain product; a query without a name may be a product with a number or an attribute."""
    query, key = term.args
    transposed = key.op == "transposed"
    if not transposed and not any(_has_two_dimensions(each) for each in key.spelled):
        return None
    turned = _turned(key.args[0]) if transposed else _transposed(key)
    is_named = any(isinstance(each, ast.Name) for each in query.spelled)
    scaled = _scales(query, "query_scale={scale}", "query_scale=1.0 / {scale}")
    for one, scale in scaled if not is_named else ():
        if _is_number(scale.terms["scale"]):
            return _Scores(one, turned, (scale,))
    return _Scores(query, turned)


def _is_divisor(term: Term) -> bool:
    """Return whether a value is a number or a root: by another, which may be 0.0, only a tensor can be divided."""
    return bool(term.number) or term.op == "sqrt" or any(last_name(each) == "sqrt" for each in term.spelled)


def _has_two_dimensions(node: ast.expr) -> bool:
    """Return whether code moves a dimension that only a value of two or more has, such as `k.transpose(1, 2)`."""
    if not isinstance(node, ast.Call) or last_name(node.func) not in _TURNING:
        return False
    numbers = [each.value for each in node.args if isinstance(each, ast.Constant)]
    return any(isinstance(each, int) and each >= 1 for each in numbers)


def _is_number(term: Term) -> bool:
    return term.number is not None or any(_is_scale(each) for each in term.spelled)


def _is_scale(node: ast.expr) -> bool:
    """Return whether code names a scale: an attribute or a name, or a root."""
    if isinstance(node, (ast.Name, ast.Attribute)):
        return "scal" in ast.unparse(node)
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "math.sqrt"


def _fill(term: Term) -> tuple[Argument, ...]:
    """The keyword of what hidden scores become, unless that is minus infinity."""
    if term.op == "least":
        return ("fill=None",)
    return () if term.number == -math.inf else (ArgumentTemplate("fill={value}", {"value": term}),)


def _is_least(term: Term) -> bool:
    return term.op == "least" or (term.number is not None and term.number <= _LEAST)


def find_rms_norm(reading: TermReader, node: ast.expr) -> FusedMatch | None:
    """The product of a normalised value and a weight."""
    root = reading.term(node)
    above, below = factors(root)
    if root.op not in ("mul", "div") or len(above) + len(below) != 3:
        return None
    for position, factor in enumerate(above):
        inner = _under_root(factor, "rsqrt")
        if inner is not None and not below:
            return _normed(root, inner, [each for index, each in enumerate(above) if index != position])
    inner = _under_root(below[0], "sqrt") if len(below) == 1 else None
    return _normed(root, inner, above) if inner is not None else None


def _under_root(factor: Term, op: str) -> tuple[Term, Term] | None:
    """The x and the epsilon of `rsqrt(mean(x ** 2) + epsilon)`."""
    factor = without_casts(factor)
    total = without_casts(factor.args[0]) if factor.op == op else None
    if total is None or total.op != "add":
        return None
    for mean, epsilon in (total.args, total.args[::-1]):
        mean = without_casts(mean)
        square = without_casts(mean.args[0]) if mean.op == "mean" else None
        if square is not None and square.op == "pow" and square.args[1].number == 2 and epsilon.op in ("const", "leaf"):
            return without_casts(square.args[0]), epsilon
    return None


def _normed(root: Term, inner: tuple[Term, Term], others: list[Term]) -> FusedMatch | None:
    """The match where the two other factors are the x of the mean and a weight."""
    x, epsilon = inner
    weights = [each for each in others if without_casts(each) != x]
    is_layer_norm = x.op == "sub" and any(part.op == "mean" for part in x.args)
    if len(others) != 2 or len(weights) != 1 or weights[0].number is not None or is_layer_norm:
        return None
    weight = weights[0]
    known = dtypes(root) - dtypes(epsilon) if _is_small_number(epsilon) else dtypes(root)
    if known == dtypes(x, weight):
        return FusedMatch(root, "rms_norm", (x, weight, epsilon))
    if known == {FLOAT32}:
        return FusedMatch(root, "rms_norm", (ArgumentTemplate("{x}.float()", {"x": x}), weight, epsilon))
    return None


def _is_small_number(epsilon: Term) -> bool:
    """Return whether a value is called what the small number under the root is."""
    return any("eps" in (last_name(each) or "") for each in epsilon.spelled)


def find_stacked(reading: TermReader, node: ast.Call) -> AffinityReplacement | None:
    """`torch.stack([a @ b for a, b in zip(x, y)])`."""
    listed = node.args[0] if len(node.args) == 1 and not node.keywords else None
    if reading.qualified(node.func) != "torch.stack" or not isinstance(listed, (ast.ListComp, ast.GeneratorExp)):
        return None
    loop, product = listed.generators[0], listed.elt
    zipped = loop.iter
    if len(listed.generators) != 1 or loop.ifs or loop.is_async or not isinstance(loop.target, ast.Tuple):
        return None
    if not isinstance(zipped, ast.Call) or ast.unparse(zipped.func) != "zip" or len(zipped.args) != 2:
        return None
    names = [each.id for each in loop.target.elts if isinstance(each, ast.Name)]
    if not isinstance(product, ast.BinOp) or not isinstance(product.op, ast.MatMult) or zipped.keywords:
        return None
    if [ast.unparse(product.left), ast.unparse(product.right)] != names:
        return None
    first, second = (reading.file.bounds(each) for each in zipped.args)
    return AffinityReplacement("stacked_matmul", (first, second))


def find_one_hot(reading: TermReader, node: ast.Call) -> AffinityReplacement | None:
    """`F.one_hot(x, n).float()`."""
    inner = node.func.value if isinstance(node.func, ast.Attribute) else None
    if not isinstance(inner, ast.Call) or reading.qualified(inner.func) != "torch.nn.functional.one_hot":
        return None
    if node.args or node.keywords:
        return None
    count = inner.args[1] if len(inner.args) == 2 else None
    for each in inner.keywords:
        count = each.value if each.arg == "num_classes" and len(inner.keywords) == 1 else None
    if count is None or not inner.args:
        return None
    x, classes = reading.file.bounds(inner.args[0]), reading.file.bounds(count)
    return AffinityReplacement("one_hot", (x, classes))


def find_reshaped(reading: TermReader, node: ast.Call) -> AffinityReplacement | None:
    """`x.permute(0, 2, 1, 3).reshape(...)` and `x.transpose(1, 2).contiguous().view(...)`."""
    turned = _inner_call(node)
    copied = turned is not None and _method_name(turned) == "contiguous"
    if copied and turned is not None:
        turned = _inner_call(turned) if not turned.args and not turned.keywords else None
    if turned is None or _method_name(turned) not in _TURNING or (_method_name(node) == "view" and not copied):
        return None
    x, shape = _owner(turned), _shape(reading, node)
    dims = [reading.term(each).number for each in turned.args]
    if x is None or shape is None or turned.keywords or None in dims or reading.qualified(turned.func):
        return None
    least = 4 if _function(turned) == "permuted_reshape" else 2
    if len(dims) < least or OTHER in reading.types.of(x, reading.file.scope_of(x)):
        return None
    numbers = code(str(tuple(int(each) for each in dims if each is not None)))
    more = (code("copied=True"),) if copied else ()
    return AffinityReplacement(_function(turned), (reading.file.bounds(x), numbers, shape, *more))


def _function(turned: ast.Call) -> str:
    return "permuted_reshape" if _method_name(turned) == "permute" else "transposed_reshape"


def _method_name(node: ast.expr) -> str:
    return node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""


def _owner(node: ast.Call) -> ast.expr | None:
    """The value that a method is called of."""
    return node.func.value if isinstance(node.func, ast.Attribute) else None


def _inner_call(node: ast.Call) -> ast.Call | None:
    """The call whose result a method is called of."""
    owner = _owner(node)
    return owner if isinstance(owner, ast.Call) else None


def _shape(reading: TermReader, node: ast.Call) -> Text | Bounds | None:
    """The code of the shape that `reshape` or `view` is given."""
    if node.keywords or not node.args or any(is_unpacked(each) for each in node.args):
        return None
    if len(node.args) == 1:
        return reading.file.bounds(node.args[0]) if _is_shape(node.args[0]) else None
    return bracketed(map(reading.file.bounds, node.args))


def _is_shape(node: ast.expr) -> bool:
    """Return whether an argument is the whole shape."""
    return isinstance(node, (ast.Tuple, ast.List)) or (isinstance(node, ast.Attribute) and node.attr == "shape")
