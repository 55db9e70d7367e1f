"""Calls of what other calls give: a LayerNorm of a sum, products that are stacked, one-hot vectors as floats, and
dimensions that are put in another order and joined."""

from __future__ import annotations

import ast

from gpu2npu.python.meaning.types import OTHER
from gpu2npu.python.text.templates import bracketed, code
from gpu2npu.python.tree.syntax import is_unpacked
from gpu2npu.records import Bounds, Text
from gpu2npu.shapes.kind import AffinityReplacement
from gpu2npu.shapes.reading import TermReader

_TURNING = frozenset({"permute", "transpose", "swapaxes"})


def find_sum_norm(reading: TermReader, node: ast.Call) -> AffinityReplacement | None:
    """`self.norm(x + y)`, where `self.norm` is a LayerNorm."""
    total = node.args[0] if len(node.args) == 1 and not node.keywords else None
    if (
        not isinstance(total, ast.BinOp)
        or not isinstance(total.op, ast.Add)
        or not isinstance(node.func, ast.Attribute)
    ):
        return None
    file = reading.file
    if reading.types.of(node.func, file.scope_of(node)) != {"torch.nn.LayerNorm"}:
        return None
    parts = (node.func, total.left, total.right)
    norm, left, right = (file.bounds(each) for each in parts)
    return AffinityReplacement("add_layer_norm", (norm, left, right))


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
