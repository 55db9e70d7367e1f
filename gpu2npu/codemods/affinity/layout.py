"""Dimensions put in another order and joined, which npu_confusion_transpose does in one operator."""

from __future__ import annotations

import ast

from gpu2npu.codemods.affinity.kind import AffinityKind, AffinityReplacement, FusedCase
from gpu2npu.codemods.affinity.reading import TermReader
from gpu2npu.python.meaning.types import OTHER, ValueTypes
from gpu2npu.python.tree.syntax import is_unpacked
from gpu2npu.records import Code

_TURNING = frozenset({"permute", "transpose", "swapaxes"})


def find(reading: TermReader, node: ast.Call) -> AffinityReplacement | None:
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
    if len(dims) < (4 if _function(turned) == "permuted_reshape" else 2) or not _may_be_tensor(reading, x):
        return None
    numbers = ", ".join(str(int(each)) for each in dims if each is not None)
    end = ", copied=True)" if copied else ")"
    return AffinityReplacement(("(", reading.file.bounds(x), f", ({numbers}), ", *shape, end), _function(turned))


def _may_be_tensor(reading: TermReader, x: ast.expr) -> bool:
    """Return whether nothing says that a value is something else, such as an array of NumPy."""
    return OTHER not in ValueTypes(reading.file.names).of(x, reading.file.scope_of(x))


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


def _shape(reading: TermReader, node: ast.Call) -> tuple[Code, ...] | None:
    """The code of the shape that `reshape` or `view` is given."""
    if node.keywords or not node.args or any(is_unpacked(each) for each in node.args):
        return None
    if len(node.args) == 1:
        return (reading.file.bounds(node.args[0]),) if _is_shape(node.args[0]) else None
    pieces: list[Code] = ["("]
    for position, each in enumerate(node.args):
        pieces += [", " if position else "", reading.file.bounds(each)]
    return (*pieces, ")")


def _is_shape(node: ast.expr) -> bool:
    """Return whether an argument is the whole shape."""
    return isinstance(node, (ast.Tuple, ast.List)) or (isinstance(node, ast.Attribute) and node.attr == "shape")


TRANSPOSED_RESHAPE = AffinityKind(
    "confusion-transpose",
    find,
    (ast.Call,),
    (b"permute(", b"transpose(", b"swapaxes("),
    ("npu::npu_confusion_transpose",),
    "npu_confusion_transpose moves dimensions and joins them in one operator.",
    "Nothing.",
    {"float32": 0, "float16": 0, "bfloat16": 0},
    (
        FusedCase(
            "def f(x):\n    b, h, s, d = x.shape\n    return x.permute(0, 2, 1, 3).contiguous().view(b, s, h * d)\n",
            "def f(x):\n    b, h, s, d = x.shape\n"
            "    return ascend_affinity.permuted_reshape(x, (0, 2, 1, 3), (b, s, h * d), copied=True)\n",
            ("b h s d",),
        ),
        # What .contiguous() copied has another memory than x, and is contiguous in any shape.
        FusedCase(
            """
def f(x):
    y = x.permute(0, 2, 3, 1).contiguous().view(x.size(0), -1, x.size(1))
    return y.view(-1)
""",
            """
def f(x):
    y = ascend_affinity.permuted_reshape(x, (0, 2, 3, 1), (x.size(0), -1, x.size(1)), copied=True)
    return y.view(-1)
""",
            ("b h s d",),
        ),
        FusedCase(
            """
def f(x):
    z = x.detach()
    y = z.transpose(1, 2).contiguous().view(z.size(0), z.size(2), z.size(1))
    y[:, 0] = 0
    return x * z, y
""",
            """
def f(x):
    z = x.detach()
    y = ascend_affinity.transposed_reshape(z, (1, 2), (z.size(0), z.size(2), z.size(1)), copied=True)
    y[:, 0] = 0
    return x * z, y
""",
            ("b 2 3",),
        ),
        FusedCase(
            "def f(x):\n    return x.transpose(1, 2).reshape((x.size(0), x.size(2), -1))\n",
            "def f(x):\n    return ascend_affinity.transposed_reshape(x, (1, 2), (x.size(0), x.size(2), -1))\n",
            ("b h s d",),
        ),
        FusedCase("def f(x):\n    return x.transpose(1, 2).view(2, -1)\n"),
        FusedCase("def f(x, i):\n    return x.transpose(i, 2).reshape(2, -1)\n"),
        FusedCase("def f(x, shape):\n    return x.transpose(1, 2).reshape(*shape)\n"),
    ),
    calls=frozenset({"reshape", "view"}),
)
