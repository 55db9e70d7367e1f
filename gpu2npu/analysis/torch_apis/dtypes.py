"""The dtypes of tensors and modules, as far as the text of a file states them or implies them.

A dtype is stated where a tensor is made with one, or converted to one, and implied by literals and by NumPy's defaults.
An implied one counts where the text moves the tensor to a device: what stays on the CPU meets no limit of the NPU.
"""

from __future__ import annotations

import ast

from gpu2npu.analysis.code import Code
from gpu2npu.analysis.done_calls import keyword
from gpu2npu.python.tree.place import is_integer
from gpu2npu.python.tree.scopes import Assigned, Scope
from gpu2npu.python.tree.syntax import string_value
from gpu2npu.support.conditions import TensorFacts

DTYPES = {
    f"torch.{spelling}": name
    for name, spellings in {
        "float64": ("float64", "double", "DoubleTensor", "cuda.DoubleTensor"),
        "float32": ("float32", "float", "FloatTensor", "cuda.FloatTensor"),
        "float16": ("float16", "half", "HalfTensor", "cuda.HalfTensor"),
        "bfloat16": ("bfloat16",),
        "complex64": ("complex64", "cfloat"),
        "complex128": ("complex128", "cdouble"),
        "uint8": ("uint8", "ByteTensor"),
        "int8": ("int8", "CharTensor"),
        "int16": ("int16", "short", "ShortTensor"),
        "int32": ("int32", "int", "IntTensor"),
        "int64": ("int64", "long", "LongTensor"),
        "bool": ("bool", "BoolTensor"),
    }.items()
    for spelling in spellings
}
# Methods of a tensor that convert it, and those that keep its dtype.
_CONVERTING = {
    name: DTYPES[f"torch.{name}"] for name in ("double", "float", "half", "bfloat16", "long", "int", "short")
}
_MOVING = frozenset({"cuda", "npu", "to", "type"})
_KEEPING = _MOVING | frozenset(
    {"clone", "detach", "contiguous", "requires_grad_", "view", "reshape", "t", "transpose", "permute", "unsqueeze"}
    | {"squeeze", "expand", "repeat", "flatten", "T", "mT"}
)
# What makes tensors of integers without being given a dtype, and what takes the dtype of its argument.
_INTEGERS = frozenset({"torch.randint", "torch.randperm"})
_DEFAULT_FLOATS = frozenset(f"torch.{name}" for name in ("rand", "randn", "ones", "zeros", "empty", "eye", "linspace"))
_FROM_NUMPY = frozenset({"torch.from_numpy", "torch.tensor", "torch.as_tensor"})
# What makes a tensor on the CPU unless it is given a device.
_FACTORIES = frozenset(
    f"torch.{name}" for name in ("tensor", "zeros", "ones", "empty", "full", "eye", "arange", "linspace", "from_numpy")
)
# Functions of NumPy whose result is float64 unless they are given a dtype.
_NUMPY_FLOAT64 = frozenset(
    f"numpy.{name}"
    for name in (
        "eye",
        "identity",
        "zeros",
        "ones",
        "empty",
        "linspace",
        "random.rand",
        "random.randn",
        "random.normal",
    )
)
# Functions that take the sizes of what they make, and methods that keep them.
_SHAPED = frozenset(f"torch.{name}" for name in ("zeros", "ones", "empty", "rand", "randn", "full"))
_SAME_SHAPE = _MOVING | frozenset({"clone", "detach", "contiguous", "requires_grad_", *_CONVERTING, "bool"})
_DEPTH = 6


def dtype_of(node: ast.expr, scope: Scope, code: Code) -> str | None:
    """The dtype of a tensor ("float64"), where its expression or the only value of its variable says it."""
    return _dtype(node, scope, code, _DEPTH, moved=False)


def tensor_facts(node: ast.expr, scope: Scope, code: Code) -> TensorFacts:
    """The facts that a text shows of a tensor: nothing where it does not say them, or the value is not a tensor.

    The one place where conditions of the table of behaviour get to know a value of a program.
    """
    return TensorFacts(
        dtype_of(node, scope, code), _shape(node, scope, code, _DEPTH), device=device_of(node, scope, code)
    )


def device_of(node: ast.expr, scope: Scope, code: Code, depth: int = _DEPTH) -> str | None:
    """The kind of device ("npu", also for CUDA's, or "cpu") that a tensor or module is on, where the text says it."""
    value = _only_value(node, scope)
    if value is not None and depth:
        return device_of(value, scope, code, depth - 1)
    if isinstance(node, ast.Subscript):
        return device_of(node.value, scope, code, depth - 1) if depth else None
    if not isinstance(node, ast.Call):
        return None
    device = keyword(node, "device")
    if isinstance(node.func, ast.Attribute) and depth:
        method, owner = node.func.attr, node.func.value
        if method in ("cuda", "npu"):
            return "npu"
        if method == "cpu":
            return "cpu"
        if method == "to":
            device = device or (node.args[0] if node.args else None)
            return _kind_of(device) or device_of(owner, scope, code, depth - 1)
        if method in _KEEPING | _SAME_SHAPE and code.qualified(node.func, scope) is None:
            return device_of(owner, scope, code, depth - 1)
    return _kind_of(device)


def _kind_of(device: ast.expr | None) -> str | None:
    text = string_value(device) if device is not None else None
    kind = (text or "").partition(":")[0]
    return "npu" if kind in ("cuda", "npu") else "cpu" if kind == "cpu" else None


def _shape(node: ast.expr, scope: Scope, code: Code, depth: int) -> tuple[int | None, ...] | None:
    """The shape of a tensor that one of torch's functions makes of numbers that are written out; None for a dimension
    that is not."""
    value = _only_value(node, scope)
    if value is not None and depth:
        return _shape(value, scope, code, depth - 1)
    if not isinstance(node, ast.Call) or any(isinstance(each, ast.Starred) for each in node.args):
        return None
    made = code.qualified(node.func, scope)
    if made in _SHAPED and node.args:
        sizes = node.args[0].elts if isinstance(node.args[0], (ast.Tuple, ast.List)) else node.args
        if made == "torch.full" and sizes is node.args:
            return None
        known = tuple(each.value if isinstance(each, ast.Constant) else None for each in sizes)
        whole = len(sizes) > 1 or isinstance(node.args[0], (ast.Tuple, ast.List, ast.Constant))
        return known if whole and all(each is None or type(each) is int for each in known) else None  # type: ignore[return-value]
    if isinstance(node.func, ast.Attribute) and node.func.attr in _SAME_SHAPE and depth:
        return _shape(node.func.value, scope, code, depth - 1)
    return None


def stays_on_cpu(node: ast.expr, scope: Scope, code: Code) -> bool:
    """Return whether an expression is, or is a view of, a constant of the file that functions use and that is made
    without a device: what it is computed with is on the CPU as well."""
    while isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr in _KEEPING - _MOVING):
        node = node.value
    found = scope.lookup(node.id) if isinstance(node, ast.Name) else None
    if found is None or found[0].kind != "module" or scope.kind == "module":
        return False
    made = _only_value(node, scope)
    is_made = isinstance(made, ast.Call) and (code.qualified(made.func, scope) or "") in _FACTORIES
    return is_made and isinstance(made, ast.Call) and keyword(made, "device") is None


def stated_dtype(call: ast.Call, scope: Scope, code: Code) -> str | None:
    """The dtype that a call of `to` or `type` names, as a keyword or not."""
    named = (DTYPES.get(code.qualified(each, scope) or "") for each in (*call.args, *(k.value for k in call.keywords)))
    return next(filter(None, named), None)


def is_of_numpy(node: ast.expr, scope: Scope, code: Code) -> bool:
    """Return whether an expression, or the only value of its variable, is made by a function of NumPy."""
    made = _only_value(node, scope) or node
    return isinstance(made, ast.Call) and (code.qualified(made.func, scope) or "").startswith("numpy.")


def _dtype(node: ast.expr, scope: Scope, code: Code, depth: int, moved: bool) -> str | None:
    """The same after `depth` steps at most; `moved`: what is made of it is moved to a device."""
    if depth == 0:
        return None
    value = _only_value(node, scope)
    if value is not None:
        return _dtype(value, scope, code, depth - 1, moved)
    if isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr in _KEEPING):
        return _dtype(node.value, scope, code, depth - 1, moved)
    if not isinstance(node, ast.Call):
        return None
    made = code.qualified(node.func, scope)
    if made is not None:
        return _made(made, node, scope, code, depth, moved)
    if not isinstance(node.func, ast.Attribute):
        return None
    method, owner = node.func.attr, node.func.value
    if method == "double" and device_of(owner, scope, code) == "npu":
        return "float32"  # torch_npu's cast
    if method in _CONVERTING:
        return _CONVERTING[method] if _is_tensor(owner, scope, code, depth - 1) else None
    if method not in _KEEPING:
        return None
    if method in ("to", "type"):
        converted = stated_dtype(node, scope, code)
        if (
            converted == "float64"
            and device_of(owner, scope, code) == "npu"
            and len(node.args) + len(node.keywords) == 1
        ):
            return "float32"
        if converted is not None or any(map(_may_name_a_dtype, (*node.args, *(each.value for each in node.keywords)))):
            return converted
    return _dtype(owner, scope, code, depth - 1, moved or method in _MOVING)


def _made(made: str, call: ast.Call, scope: Scope, code: Code, depth: int, moved: bool) -> str | None:
    """The dtype of what a function makes; `made` is its qualified name."""
    if not made.startswith("torch."):
        return None
    stated = keyword(call, "dtype")
    if stated is not None:
        return DTYPES.get(code.qualified(stated, scope) or "")
    if made.endswith("Tensor"):
        return DTYPES.get(made)
    if not (moved or keyword(call, "device") is not None):
        return None
    if made in _DEFAULT_FLOATS:
        return "float32"  # a program that changes the default has a finding of its own
    if made in _INTEGERS or (made == "torch.arange" and call.args and all(map(is_integer, call.args))):
        return "int64"
    if made not in _FROM_NUMPY or not call.args:
        return None
    literal = _of_literal(call.args[0]) if made != "torch.from_numpy" else None
    return literal or _of_numpy(call.args[0], scope, code, depth - 1)


def _of_literal(node: ast.expr) -> str | None:
    """The dtype that PyTorch gives numbers that are written out."""
    constants = [each for each in ast.walk(node) if not isinstance(each, ast.List | ast.Tuple | ast.Load)]
    kinds = {type(each.value) for each in constants if isinstance(each, ast.Constant)}
    if not constants or not all(isinstance(each, ast.Constant) for each in constants):
        return None
    return {int: "int64", bool: "bool", float: None, complex: "complex64"}.get(kinds.pop()) if len(kinds) == 1 else None


def _of_numpy(node: ast.expr, scope: Scope, code: Code, depth: int) -> str | None:
    """The dtype of a NumPy array, where the call that makes it says it."""
    value = _only_value(node, scope)
    if value is not None and depth > 0:
        return _of_numpy(value, scope, code, depth - 1)
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Attribute) and node.func.attr == "astype" and len(node.args) == 1:
        return _numpy_dtype(node.args[0], scope, code)
    made = code.qualified(node.func, scope)
    if made not in _NUMPY_FLOAT64:
        return None
    stated = keyword(node, "dtype")
    if stated is None:
        places = {"numpy.zeros": 1, "numpy.ones": 1, "numpy.empty": 1}
        return "float64" if made not in places or len(node.args) <= places[made] else None
    return _numpy_dtype(stated, scope, code)


def _numpy_dtype(node: ast.expr, scope: Scope, code: Code) -> str | None:
    named = node.value if isinstance(node, ast.Constant) else (code.qualified(node, scope) or "").removeprefix("numpy.")
    return "float64" if named in ("float64", "double", "float") else None


def _only_value(node: ast.expr, scope: Scope) -> ast.expr | None:
    """The value of a variable that has one assignment in its scope, or of `self.name` that has one in its class."""
    found = scope.bound(node)
    return found[0].whole if len(found) == 1 and isinstance(found[0], Assigned) else None


def _may_name_a_dtype(node: ast.expr) -> bool:
    """Return whether an argument of `to` may be a dtype that the text does not say."""
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return "dtype" in name or name == "type"


def _is_tensor(node: ast.expr, scope: Scope, code: Code, depth: int) -> bool:
    """Return whether an expression is certainly a tensor: what a function of torch made."""
    value = _only_value(node, scope)
    if value is not None and depth > 0:
        return _is_tensor(value, scope, code, depth - 1)
    if not isinstance(node, ast.Call):
        return False
    made = code.qualified(node.func, scope) or ""
    if made.startswith("torch."):
        return made.count(".") == 1 and made.rpartition(".")[2].islower()
    return isinstance(node.func, ast.Attribute) and depth > 0 and _is_tensor(node.func.value, scope, code, depth - 1)
