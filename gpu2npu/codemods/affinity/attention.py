"""Scaled dot-product attention spelled out: `softmax(q @ k.transpose(-2, -1) * scale) @ v`, masked or not."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from gpu2npu.codemods.affinity.kind import AffinityKind, Argument, FusedCase, FusedMatch
from gpu2npu.codemods.affinity.reading import TermReader
from gpu2npu.codemods.affinity.terms import Term, without_casts
from gpu2npu.python.tree.syntax import last_name

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
    if root.op != "matmul":
        return None
    weights, value = without_casts(root.args[0]), root.args[1]
    dropout: tuple[Argument, ...] = ()
    if weights.op == "dropout":
        first, *training = weights.args[1:]
        dropout = (("dropout=(", first), ("", training[0], ")")) if training else (("dropout=", first),)
        weights = without_casts(weights.args[0])
    scores = _scores(without_casts(weights.args[0])) if weights.op == "softmax" else None
    if scores is None or (scores.is_masked or bool(dropout)) != is_masked:
        return None
    return FusedMatch(root, "attention", (scores.query, scores.key, value, *scores.options, *dropout))


def _scores(term: Term) -> _Scores | None:
    """The scores that a term is: masked, with a bias, scaled, or plain."""
    term = without_casts(term)
    if term.op == "masked":
        inner = _scores(term.args[0])
        if inner is None or inner.is_masked or not _is_least(term.args[2]):
            return None
        hidden = ("hidden=", term.args[1])
        return replace(inner, options=(*inner.options, hidden, *_fill(term.args[2])), is_masked=True)
    if term.op == "add":
        for one, other in (term.args, term.args[::-1]):
            inner = _scores(one)
            if inner is not None and not inner.is_masked:
                return replace(inner, options=(*inner.options, ("bias=", other)), is_masked=True)
        return None
    return _scaled(term)


def _scaled(term: Term) -> _Scores | None:
    if term.op == "matmul":
        return _product(term)
    for one, other, text in _scales(term):
        inner = without_casts(one)
        if inner.op == "matmul":
            found = _product(inner)
            return found and replace(found, options=(*found.options, (text, other)))
    return None


def _scales(term: Term) -> Iterator[tuple[Term, Term, str]]:
    """The ways to read a term as a value times a scale: the value, the scale, and the text before the scale."""
    if term.op == "mul":
        yield term.args[0], term.args[1], "scale="
        yield term.args[1], term.args[0], "scale="
    elif term.op == "div" and _is_divisor(term.args[1]):
        yield term.args[0], term.args[1], "scale=1.0 / "


def _product(term: Term) -> _Scores | None:
    """The scores of a plain product; a query without a name may be a product with a number or an attribute."""
    query, key = term.args
    transposed = key.op == "transposed"
    if not transposed and not any(_has_two_dimensions(each) for each in key.spelled):
        return None
    turned: Argument = key.args[0] if transposed else ("", key, ".mT")
    is_named = any(isinstance(each, ast.Name) for each in query.spelled)
    for one, other, text in _scales(query) if not is_named else ():
        if _is_number(other):
            return _Scores(one, turned, ((f"query_{text}", other),))
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
    return () if term.number == -math.inf else (("fill=", term),)


def _is_least(term: Term) -> bool:
    return term.op == "least" or (term.number is not None and term.number <= _LEAST)


_ROUNDING = {"float32": 1e-5, "float16": 8e-3, "bfloat16": 6e-2}
_NEEDS = ("npu::npu_fusion_attention",)
_SHAPES = ("b h s 16", "b h s 16", "b h s 16")

ATTENTION = AffinityKind(
    "attention",
    find_attention,
    (ast.BinOp, ast.Call),
    (b"softmax",),
    _NEEDS,
    "npu_fusion_attention computes attention in one operator, without the matrix of scores.",
    "Scores and their softmax are float32 and the result is rounded once; scores that overflow float16 do not.",
    _ROUNDING,
    (
        FusedCase(
            """
def f(q, k, v):
    attn = q @ k.transpose(-2, -1) * 0.25
    attn = attn.softmax(dim=-1)
    return attn @ v
""",
            """
def f(q, k, v):
    return ascend_affinity.attention(q, k, v, scale=0.25)
""",
            _SHAPES,
            mixes=False,
        ),
        FusedCase(
            """
def f(q, k, v):
    scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(q.size(-1))
    probs = F.softmax(scores, dim=-1, dtype=torch.float32).to(v.dtype)
    return torch.matmul(probs, v)
""",
            """
def f(q, k, v):
    return ascend_affinity.attention(q, k.transpose(2, 3).mT, v, scale=1.0 / math.sqrt(q.size(-1)))
""",
            ("1 h s 16", "1 h s 16", "1 h s 16"),
            mixes=False,
        ),
        FusedCase(
            """
def f(q, k, v):
    scale = q.shape[-1] ** -0.5
    attn = torch.bmm(q * scale, k.transpose(1, 2))
    attn = torch.softmax(attn, -1)
    return torch.bmm(attn, v).transpose(0, 1)
""",
            """
def f(q, k, v):
    scale = q.shape[-1] ** -0.5
    return ascend_affinity.attention(q, k.transpose(1, 2).mT, v, query_scale=scale).transpose(0, 1)
""",
            ("b s 32", "b h 32", "b h 32"),
            mixes=False,
        ),
        # The weights are returned too, a softmax over another dimension, and one that is not of a product.
        FusedCase(
            "def f(q, k, v):\n    p = (q @ k.transpose(-2, -1)).softmax(dim=-1)\n    return p @ v, p\n",
        ),
        FusedCase("def f(q, k, v):\n    p = (q @ k.transpose(-2, -1)).softmax(dim=1)\n    return p @ v\n"),
        FusedCase("def f(q, v):\n    return q.softmax(dim=-1) @ v\n"),
        FusedCase("def f(q, k, v, m):\n    p = (q @ k.mT + m).softmax(dim=-1)\n    return p @ v\n"),
        # A key of one dimension has no .mT, a query that is converted has another dtype than its factor, and only a
        # tensor is divided by 0.0.
        FusedCase("def f(x, c, v):\n    return (x @ c).softmax(dim=-1) @ v\n"),
        FusedCase("def f(q, k, v, s):\n    return (q @ k.mT / s).softmax(dim=-1) @ v\n"),
        FusedCase(
            "def f(q, k, v):\n"
            "    s = (q * 0.25).float() @ k.float().transpose(-2, -1)\n    return s.softmax(-1).to(v.dtype) @ v\n",
            "def f(q, k, v):\n    return ascend_affinity.attention((q * 0.25).float(), k.float(), v)\n",
            _SHAPES,
        ),
    ),
)
MASKED_ATTENTION = AffinityKind(
    "masked-attention",
    find_masked_attention,
    (ast.BinOp, ast.Call),
    (b"softmax",),
    _NEEDS,
    "npu_fusion_attention computes attention in one operator, without the matrix of scores.",
    "Beside rounding: rows of which all is hidden, which gave NaN or the mean, give 0 or what their scores say, and "
    "dropout draws other random numbers.",
    _ROUNDING,
    (
        FusedCase(
            """
def f(q, k, v, bias):
    attn = q @ k.transpose(-2, -1) * 0.25 + bias
    return attn.softmax(dim=-1) @ v
""",
            """
def f(q, k, v, bias):
    return ascend_affinity.attention(q, k, v, scale=0.25, bias=bias)
""",
            (*_SHAPES, "h s s"),
            mixes=False,
        ),
        FusedCase(
            """
def f(q, k, v):
    mask = torch.ones(q.size(2), k.size(2), device=q.device).tril()
    att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
    att = att.masked_fill(mask == 0, float("-inf"))
    att = F.softmax(att, dim=-1)
    y = att @ v
    return y.transpose(1, 2)
""",
            """
def f(q, k, v):
    mask = torch.ones(q.size(2), k.size(2), device=q.device).tril()
    y = ascend_affinity.attention(q, k, v, scale=1.0 / math.sqrt(k.size(-1)), hidden=mask == 0)
    return y.transpose(1, 2)
""",
            _SHAPES,
            mixes=False,
        ),
        FusedCase(
            """
class A(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 0.25
        self.drop = torch.nn.Dropout(0.0)

    def forward(self, q, k, v):
        attn = (q * self.scale) @ k.transpose(-2, -1)
        return self.drop(attn.softmax(dim=-1)) @ v

def f(q, k, v):
    return A()(q, k, v)
""",
            """
class A(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 0.25
        self.drop = torch.nn.Dropout(0.0)

    def forward(self, q, k, v):
        return ascend_affinity.attention(q, k, v, query_scale=self.scale, dropout=self.drop)

def f(q, k, v):
    return A()(q, k, v)
""",
            _SHAPES,
            mixes=False,
        ),
        FusedCase(
            """
def f(q, k, v):
    probs = torch.softmax(torch.matmul(q, k.transpose(-1, -2)), dim=-1)
    return torch.matmul(F.dropout(probs, p=0.5, training=False), v)
""",
            """
def f(q, k, v):
    return ascend_affinity.attention(q, k, v, dropout=(0.5, False))
""",
            _SHAPES,
            mixes=False,
        ),
        # A row of which all is hidden has the mean of all values where scores are not infinite: here by the code that
        # was there, as the operator does not take the size 20.
        FusedCase(
            """
def f(q, k, v):
    hidden = torch.ones(q.size(2), k.size(2), device=q.device, dtype=torch.bool)
    return (q @ k.mT).masked_fill(hidden, -1e4).softmax(dim=-1) @ v
""",
            """
def f(q, k, v):
    hidden = torch.ones(q.size(2), k.size(2), device=q.device, dtype=torch.bool)
    return ascend_affinity.attention(q, k, v, hidden=hidden, fill=-1e4)
""",
            ("b h s 20", "b h s 20", "b h s 20"),
            mixes=False,
        ),
        FusedCase(
            """
def f(q, k, v):
    hidden = torch.ones(q.size(2), k.size(2), device=q.device, dtype=torch.bool)
    scores = q @ k.mT
    least = torch.finfo(q.dtype).min
    return scores.masked_fill(hidden, least).softmax(dim=-1) @ v
""",
            """
def f(q, k, v):
    hidden = torch.ones(q.size(2), k.size(2), device=q.device, dtype=torch.bool)
    return ascend_affinity.attention(q, k, v, hidden=hidden, fill=None)
""",
            ("b h s 20", "b h s 20", "b h s 20"),
            mixes=False,
        ),
        # What is added makes the scores larger than query and key do.
        *(
            FusedCase(
                """
def f(q, k, v, bias):
    attn = q @ k.transpose(-2, -1) + bias
    return attn.softmax(dim=-1) @ v
""",
                """
def f(q, k, v, bias):
    return ascend_affinity.attention(q, k, v, bias=bias)
""",
                shapes,
                mixes=False,
            )
            for shapes in (
                ("2 5 16", "2 5 16", "2 5 16", "2 1 5 5"),
                ("1 3 5 16", "1 3 5 16", "1 3 5 16", "4 1 5 5"),
            )
        ),
        FusedCase(
            "def f(q, k, v, m):\n    p = (q @ k.mT).masked_fill(m, 0.0).softmax(dim=-1)\n    return p @ v\n",
        ),
        FusedCase("def f(q, k, v):\n    return (q @ k.mT).softmax(dim=-1) @ v\n"),
    ),
    safe=False,
)
