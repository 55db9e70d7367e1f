"""Code that spells out what torch_npu has one operator for: each function finds one shape of expression.

A matcher takes the code of a file, and yields the node to be reported and what to call it. It reads
the shape of the code; a name alone is never enough.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import partial

from gpu2npu.analysis.code import Code, number, values_of
from gpu2npu.engine.strings.value_effects import values_of as values_of_project
from gpu2npu.python.meaning.types import OTHER, TENSOR, Types
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import FUNCTIONS, argument_of, last_name
from gpu2npu.shapes.masks import BOOLEAN_CALLS, BY_ELEMENT, is_mask

Found = Iterator[tuple[ast.expr | ast.stmt, str]]
Matcher = Callable[[Code], Found]

_MASKING_CALLS = BOOLEAN_CALLS | {"byte"}  # a tensor of bytes picks as one of booleans does
_PICKING_CALLS = _MASKING_CALLS | {"nonzero"}  # and the places of booleans, which pick the same
_may_be_mask = partial(is_mask, all_inverted=True)
_SELECTING = frozenset({"masked_select", "index_select"})
_ARRAYS = re.compile(r"\b(numpy|pandas|cupy|jax|tensorflow)\b")
_OF_TENSORS = frozenset(
    {"contiguous", "detach", "float", "long", "unsqueeze", "view", "cuda"}
)  # methods of these alone
_LOSS = re.compile(r"torch\.nn\.(functional\.(\w+_loss|cross_entropy|binary_cross_entropy\w*|kl_div)|\w+Loss)")


def transposed_matmul(code: Code) -> Found:
    """`torch.matmul(a, b.transpose(-2, -1))` and `a @ b.transpose(-2, -1)`."""
    for call, scope in code.calls if "matmul" in code.text else ():
        if last_name(call.func) != "matmul" or len(call.args) != 2 or not _is_transposed(call.args[1]):
            continue
        if code.qualified(call.func, scope) == "torch.matmul":
            yield call, "torch.matmul(a, b.transpose(-2, -1))"
    for product, _ in code.products:
        if isinstance(product.op, ast.MatMult) and _is_transposed(product.right):
            yield product, "a @ b.transpose(-2, -1)"


def _is_transposed(node: ast.expr) -> bool:
    """Return whether the last two dimensions are swapped."""
    if isinstance(node, ast.Attribute):
        return node.attr == "mT"
    if not isinstance(node, ast.Call) or last_name(node.func) not in ("transpose", "swapaxes") or len(node.args) != 2:
        return False
    return {number(argument) for argument in node.args} == {-1, -2}


def masked_store(code: Code) -> Found:
    """`x[mask] = value`, where the mask is one of booleans and one of the two is known to be a tensor."""
    for statement, scope in code.stores:
        target = statement.targets[0]
        assert isinstance(target, ast.Subscript)
        mask = target.slice.elts[0] if isinstance(target.slice, ast.Tuple) and target.slice.elts else target.slice
        if _may_be_mask(code.file, mask, _MASKING_CALLS):
            own = code.types.of(target.value, scope)
            is_tensor = TENSOR in own | _operand_types(code, mask, scope) or _ARRAYS.search(code.text) is None
            if is_tensor and OTHER not in own:
                yield statement, "input[condition] = value"


def masked_update(code: Code) -> Found:
    """`x[mask] += value`, as for a store: elements are picked, and stored again."""
    for statement in code.file.unordered().get(ast.AugAssign, ()):
        if isinstance(statement, ast.AugAssign) and isinstance(target := statement.target, ast.Subscript):
            scope = code.file.scope_of(statement)
            kinds = code.types.of(target.value, scope)
            if (
                _may_be_mask(code.file, target.slice)
                and not isinstance(statement.op, ast.MatMult)
                and OTHER not in kinds
                and TENSOR
                in kinds.union(_operand_types(code, target.slice, scope), code.types.of(statement.value, scope))
            ):
                yield statement, "input[condition] += value"


def masked_select(code: Code) -> Found:
    """`F.mse_loss(x[mask], y[mask])`, `masked_select(x, m).mean()`, `x[mask.nonzero()].sum()`: what a mask of booleans
    picks, and only losses or sums are made of. The loss, or the sum, is reported."""
    words = ("_loss(", "_entropy(", "Loss(", "].sum(", "].mean(", "masked_select(", "index_select(")
    if not any(word in code.text for word in words):
        return
    for picked, tensor, mask in _picks(code):
        if last_name(picked) != "masked_select" and not _may_be_mask(code.file, mask, _PICKING_CALLS):
            continue
        scope = code.file.scope_of(picked)
        ends = list(_ends(code, picked, scope))
        is_selection = isinstance(picked, ast.Call)  # by a function that torch alone has
        above = code.file.parents[picked]
        of_torch = is_selection or TENSOR in code.types.of(tensor, scope) or any(map(partial(_is_loss, code), ends))
        of_torch = of_torch or (isinstance(above, ast.Attribute) and above.attr in _OF_TENSORS)
        if not of_torch or OTHER in code.types.of(tensor, scope):
            continue
        is_whole = bool(ends) and all(ends)
        if not is_whole and not _computes_loss(code, picked):
            continue
        found = ends if is_whole else [picked]
        yield from ((each, "a loss of input[condition]") for each in found if each is not None)


def _picks(code: Code) -> Iterator[tuple[ast.expr, ast.expr, ast.expr]]:
    """Expressions that pick elements of a tensor, with the tensor and the mask or index."""
    for node in code.file.unordered().get(ast.Subscript, ()):
        if isinstance(node.ctx, ast.Load) and not isinstance(node.slice, (ast.Constant, ast.Slice, ast.Tuple)):
            yield node, node.value, node.slice
    for call, scope in code.calls:
        if last_name(call.func) in _SELECTING and call.args and isinstance(call.func, ast.Attribute):
            is_function = code.qualified(call.func, scope) == f"torch.{call.func.attr}"
            yield call, call.args[0] if is_function else call.func.value, call.args[-1]


def _ends(code: Code, node: ast.expr, scope: Scope, depth: int = 2) -> Iterator[ast.expr | None]:
    """The losses and sums that are made of a value; None where something else is."""
    above = code.file.parents[node]
    call = code.file.parents[above] if isinstance(above, ast.Attribute) else above
    if isinstance(above, ast.Attribute) and isinstance(call, ast.Call) and call.func is above:
        is_sum = above.attr in ("sum", "mean") and not call.args and not call.keywords
        yield from [call] if is_sum else _ends(code, call, scope, depth) if above.attr in BY_ELEMENT else [None]
    elif isinstance(above, (ast.BinOp, ast.UnaryOp)):
        yield from _ends(code, above, scope, depth)
    elif isinstance(above, ast.Call) and above.func is not node:
        yield above if _is_loss(code, above) or _goes_into_losses(code, node) else None
    elif isinstance(above, ast.Assign) and isinstance(above.targets[0], ast.Name) and depth:
        bound, names = above.targets[0].id, code.file.unordered().get(ast.Name, ())
        for use in (each for each in names if isinstance(each.ctx, ast.Load) and each.id == bound):
            if code.file.scope_of(use) is scope:
                yield from _ends(code, use, scope, depth - 1)
    else:
        yield None


def _is_loss(code: Code, node: ast.AST | None) -> bool:
    """`F.mse_loss(...)`, `self.ce(...)` of a torch.nn.CrossEntropyLoss"""
    if not isinstance(node, ast.Call):
        return False
    scope = code.file.scope_of(node)
    made = code.types.of(node.func, scope) if isinstance(node.func, (ast.Name, ast.Attribute)) else ()
    named = (each for each in (code.qualified(node.func, scope), *made) if isinstance(each, str))
    return any(map(_LOSS.fullmatch, named))


def _computes_loss(code: Code, node: ast.expr) -> bool:
    """Return whether the function that an expression is in computes a loss."""
    function = next((each for each in code.file.above(node) if isinstance(each, FUNCTIONS)), None)
    return function is not None and any(_is_loss(code, each) for each in walk(*function.body))


def _goes_into_losses(code: Code, node: ast.expr) -> bool:
    """Return whether a function of the project gives what it is given to losses alone."""
    values = values_of_project(code.names.project)
    place = values.operation(code.names, node)
    by_call: dict[int, bool] = {}
    with values.near(code.names.path):
        uses = values.uses(place, code.names.path) if place else []
    for use in uses:
        is_loss = use.kind == "argument" and _LOSS.fullmatch(use.text.removesuffix("()")) is not None
        by_call[use.place] = by_call.get(use.place, False) or is_loss
    return bool(by_call) and all(by_call.values())


def _operand_types(code: Code, mask: ast.expr, scope: Scope) -> Types:
    return code.types.of(mask.operand if isinstance(mask, ast.UnaryOp) else mask, scope)


def routed_softmax(code: Code) -> Found:
    """`torch.topk(softmax(x), k)`, the choice of experts."""
    if "topk" not in code.text or "softmax" not in code.text:
        return
    for call, scope in code.calls:
        if last_name(call.func) != "topk" or not isinstance(call.func, ast.Attribute):
            continue
        is_function = code.qualified(call.func, scope) == "torch.topk"
        chosen = call.args[0] if is_function and call.args else call.func.value
        made = [chosen, *(each.value for each in values_of(chosen, scope) if each.value is not None)]
        if any(isinstance(each, ast.Call) and last_name(each.func) == "softmax" for each in made):
            yield call, "topk(softmax(x), k)"


def expert_loop(code: Code) -> Found:
    """A loop over modules that calls each with a part of a tensor, where a choice of the largest is made."""
    if "topk" not in code.text:
        return
    for call, _ in code.calls:
        part = call.args[0] if len(call.args) == 1 else None
        if not isinstance(part, ast.Subscript) or isinstance(part.slice, (ast.Constant, ast.Slice)):
            continue
        loop = next((each for each in code.file.above(call) if isinstance(each, ast.For)), None)
        targets = {each.id for each in ast.walk(loop.target) if isinstance(each, ast.Name)} if loop is not None else ()
        called = call.func.slice if isinstance(call.func, ast.Subscript) else call.func
        if isinstance(called, ast.Name) and called.id in targets:
            yield call, "a loop over experts"


def window_roll(code: Code) -> Found:
    """`torch.roll(x, shifts=(a, b), dims=(1, 2))`."""
    if "roll" not in code.text:
        return
    for call, scope in code.calls:
        if last_name(call.func) != "roll":
            continue
        dims = argument_of(call, "dims", 2)
        if not isinstance(dims, (ast.Tuple, ast.List)) or [number(each) for each in dims.elts] != [1, 2]:
            continue
        if code.qualified(call.func, scope) == "torch.roll":
            yield call, "torch.roll"


def normed_silu(code: Code) -> Found:
    """`F.silu(self.norm(x))`, where `self.norm` is a GroupNorm."""
    if "GroupNorm" not in code.text or "silu" not in code.text.lower():
        return
    for call, scope in code.calls:
        inner = _only_argument(call)
        if not isinstance(inner, ast.Call) or code.types.of(inner.func, scope) != {"torch.nn.GroupNorm"}:
            continue
        if code.qualified(call.func, scope) == "torch.nn.functional.silu" or (
            code.types.of(call.func, scope) == {"torch.nn.SiLU"}
        ):
            yield call, "silu(group_norm(x))"


def normed_sum(code: Code) -> Found:
    """`self.norm(x + y)`, where `self.norm` is an RMSNorm."""
    if "RMSNorm" not in code.text:
        return
    for call, scope in code.calls:
        total = call.args[0] if len(call.args) == 1 and not call.keywords else None
        is_sum = isinstance(total, ast.BinOp) and isinstance(total.op, ast.Add)
        if is_sum and code.types.of(call.func, scope) == {"torch.nn.RMSNorm"}:
            yield call, "norm(x + y)"


def _only_argument(call: ast.Call) -> ast.expr | None:
    """The x of `f(x)` and of `x.f()`."""
    if len(call.args) == 1 and not call.keywords:
        return call.args[0]
    if not call.args and not call.keywords and isinstance(call.func, ast.Attribute):
        return call.func.value
    return None
