"""Functions and classes that spell out what torch_npu has one operator for, recognised by what they do."""

from __future__ import annotations

import ast

from gpu2npu.analysis.affinity.shapes import Found
from gpu2npu.analysis.code import Code
from gpu2npu.analysis.done_calls import DoneCalls, function_of, number, values_of
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import last_name


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
