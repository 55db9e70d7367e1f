"""Labels of tensors, and the effects of torch's and NumPy's functions on them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from gpu2npu.python.text.source import vocabulary

DTYPES = {
    f"torch.{spelling}": name
    for name, spellings in json.loads(Path(__file__).with_name("dtypes.json").read_bytes()).items()
    for spelling in spellings
}
NUMPY_DTYPES = {f"numpy.{name}": name for name in {*DTYPES.values()} - {"bool"}} | {
    "numpy.double": "float64", "numpy.single": "float32", "numpy.complex_": "complex128", "float": "float64"
}  # fmt: skip
OF_NUMBERS = {int: "int64", bool: "bool"}  # a float is of the default dtype


def _names(text: str, prefix: str = "") -> frozenset[str]:
    return frozenset(prefix + name for name in text.split())


# Methods of a tensor that convert it, and functions that keep its dtype.
CONVERTING = {
    name: DTYPES[f"torch.{name}"]
    for name in ("double", "float", "half", "bfloat16", "long", "int", "short", "bool", "cfloat", "cdouble")
}
SAME_SHAPE = _names("cuda npu cpu to type clone detach contiguous requires_grad_ type_as")
KEEPING = SAME_SHAPE | _names(
    "view reshape t transpose permute unsqueeze squeeze expand expand_as repeat flatten narrow select chunk split "
    "roll flip index_select gather masked_select movedim swapaxes repeat_interleave conj zero_ fill_ copy_ add_ sub_ "
    "mul_ div_ new_zeros new_ones new_empty new_full new_tensor zeros_like ones_like empty_like rand_like randn_like "
    "full_like cat stack concat hstack vstack fftshift ifftshift masked_fill masked_fill_ scatter scatter_ index_add "
    "index_add_ tril triu"
)
# What keeps real and complex numbers of any precision; of integers it may make floats.
COMPUTING = _names(
    "sum mean prod cumsum exp log sqrt rsqrt sin cos tanh sigmoid relu softmax neg square reciprocal dropout expm1 "
    "log1p clamp linear conv1d conv2d conv3d"
)
OPERATORS = _names("add sub mul div matmul mm bmm mv outer true_divide multiply einsum tensordot where addcmul")
# Those of which the result has another shape than they have together, and those that give bools.
CONTRACTING = _names("matmul mm bmm mv outer einsum tensordot MatMult")
TESTS = _names(
    "Lt LtE Gt GtE Eq NotEq lt le gt ge eq ne less greater logical_not logical_and logical_or isnan isinf isfinite"
)
# What keeps the shape of what it computes with.
ELEMENTWISE = _names(
    "exp log sqrt rsqrt sin cos tanh sigmoid relu softmax neg square reciprocal dropout expm1 log1p clamp masked_fill "
    "masked_fill_ tril triu zeros_like ones_like empty_like rand_like randn_like full_like zero_ fill_ copy_ roll flip"
)
REAL = _names("abs angle real imag view_as_real")
_LAYER = re.compile(r"torch\.nn\.[A-Z]\w*")
# Methods of a layer that give its parameters, or it; and one of theirs.
OF_LAYERS = _names("parameters named_parameters train eval requires_grad_ apply detach")
# Methods that are known of what came through many calls too.
OF_FAR = OF_LAYERS | CONVERTING.keys() | _names("to type cuda npu cpu numpy")
_FIELDS = _names(".T .mT .H .mH .data .grad .dtype .device")
# What makes complex numbers of real ones, and the reverse.
COMPLEX = _names("view_as_complex complex polar", "torch.") | _names(
    "fft ifft fft2 ifft2 fftn ifftn rfft rfft2 rfftn ihfft", "torch.fft."
)
FROM_COMPLEX = _names("irfft irfft2 irfftn hfft hfft2 hfftn", "torch.fft.")
# Functions that take tensors.
COMPUTED_BY = _names("torch torch.distributed torch.linalg torch.fft torch.nn.functional")
# What makes tensors of integers without being given a dtype, and what takes the dtype of its argument.
INTEGERS = _names("randint randperm", "torch.")
DEFAULT_FLOATS = _names("rand randn ones zeros empty eye linspace", "torch.")
FROM_VALUES = _names("from_numpy tensor as_tensor nn.Parameter nn.parameter.Parameter autograd.Variable", "torch.")
TENSORS_OF_NUMBERS = _names("tensor as_tensor IntTensor LongTensor", "torch.")
# What makes a tensor on the CPU unless it is given a device.
FACTORIES = _names("tensor zeros ones empty full eye arange linspace from_numpy rand randn", "torch.")
# Functions of NumPy whose result is float64 unless they are given a dtype, with the position of it.
NUMPY_FLOAT64 = dict.fromkeys(("eye", "identity", "linspace", "random.rand", "random.randn", "random.normal"), "") | {
    "zeros": "1", "ones": "1", "empty": "1"
}  # fmt: skip
# Without one of these a file makes no float64, and converts nothing to it; where NumPy is imported under another name
# than np, any of its functions may be called.
_FLOAT64_WORDS = re.compile(r"float64|[dD]ouble|\bfloat_\b")
_OF_NUMPY = "|".join(sorted(each.replace(".", r"\.") for each in NUMPY_FLOAT64))
_FLOAT64_CODE = [  # each begins with letters, which are found faster
    re.compile(each)
    for each in (
        r"astype\(['\"]?float\b", r"dtype=['\"]?float\b", "from numpy", r"import\x20numpy\x20as\x20(?!np\b)",
        r"\barray\(\[[^\]]*\d\.",
        rf"np\.(?:{_OF_NUMPY})\b", rf"numpy\.(?:{_OF_NUMPY})\b",
    )
]  # fmt: skip
# Functions that take the sizes of what they make.
SHAPED = _names("zeros ones empty rand randn full", "torch.")


@lru_cache(maxsize=1)
def may_have_float64(text: str) -> bool:
    """Return whether the code of a file may make float64, or convert something to it."""
    return _FLOAT64_WORDS.search(vocabulary(text)) is not None or any(each.search(text) for each in _FLOAT64_CODE)


class Label(NamedTuple):
    """One thing that a value may be: a tensor, an array, a number, or a dtype or device itself. `is_stated`: the
    program states the dtype; `is_moved`: it moves the value to a device; `name`: of what is otherwise not known."""

    dtype: str | None = None
    device: str | None = None
    shape: tuple[int | None, ...] | None = None
    is_stated: bool = False
    is_moved: bool = False
    of_numpy: bool = False
    is_number: bool = False
    name: str = "?"


UNKNOWN = Label()


def of_text(text: str | None) -> Label:
    """Label what a text names: a device or a dtype of NumPy."""
    kind = (text or "").partition(":")[0]
    if kind in ("cuda", "npu", "cpu"):
        return Label(device="cpu" if kind == "cpu" else "npu")
    return Label(NUMPY_DTYPES.get(kind) or NUMPY_DTYPES.get(f"numpy.{kind}"), name=kind)


def is_layer(label: Label) -> bool:
    """Return whether a label is of one of torch's layers, whose parameters it describes."""
    return _LAYER.fullmatch(label.name) is not None


def field_of(label: Label, field: str) -> Label:
    """Label an attribute or element of a tensor or a layer."""
    if is_layer(label) and field[0] == ".":
        return label._replace(name=field) if field in (".weight", ".bias") else UNKNOWN._replace(name=field)
    if field in (".real", ".imag", ".abs", ".angle", ".view_as_real"):
        if not (label.dtype or "").startswith("complex"):
            return label._replace(dtype=label.dtype if (label.dtype or "").startswith("float") else None)
        return label._replace(
            dtype={"complex128": "float64", "complex64": "float32"}.get(label.dtype or ""), shape=None
        )
    if field[0] == "[":
        is_axis = field[1:-1] in ("None", "each") or field[1:-1].lstrip("-").isdecimal()
        return label._replace(shape=viewed(label.shape, [field[1:-1]]) if is_axis else None)
    if field in _FIELDS:
        name = field if field == ".dtype" else label.name  # what is made of it has another dtype, known or not
        return label._replace(shape=label.shape if field in (".data", ".grad") else None, name=name)
    return UNKNOWN._replace(name=field)


def cast(label: Label, dtype: str) -> Label:
    """A tensor of another dtype on the same device: on an NPU, a cast to float64 gives float32 (row float64-cast).

    Where the device is not known it is float64 only if it is moved to the NPU afterwards.
    """
    is_wide = dtype == "float64" and label.dtype != "float64"
    is_narrowed = is_wide and label.device == "npu"
    return label._replace(dtype="float32" if is_narrowed else dtype, is_stated=not is_wide or is_narrowed)


def spectrum(name: str, last: str, given: dict[str, int], label: Label) -> Label:
    """Label what a transform gives that makes complex numbers or takes them: of another precision for float64."""
    is_wide = label.dtype in ("float64", "complex128")
    is_real = name in FROM_COMPLEX or last == "istft" or (last == "stft" and "return_complex" not in given)
    dtype = ("float64" if is_wide else "float32") if is_real else ("complex128" if is_wide else "complex64")
    return label._replace(dtype=dtype, is_stated=True, shape=None, name=name, is_number=False)


def promoted(labels: list[Label]) -> Label:
    """Label what arithmetic makes of several: a complex number makes all complex, and what is alike remains."""
    tensors = [each for each in labels if not each.is_number]
    complexes = [each for each in tensors if (each.dtype or "").startswith("complex")]
    if complexes:
        return max(complexes, key=lambda each: each.dtype or "")._replace(shape=None)
    if tensors and len(tensors) < len(labels) and (tensors[0].dtype or "").startswith(("int", "bool", "uint")):
        return tensors[0]._replace(dtype=None, shape=None)  # a number may make floats of them
    floats = [each for each in tensors if (each.dtype or "").startswith(("float", "bfloat"))]
    if floats and all(each.dtype for each in tensors):
        tensors = floats  # whole numbers beside them change nothing
    return agreed(tensors)._replace(shape=None) if tensors else UNKNOWN


def computed(function: str, labels: list[Label]) -> Label:
    """Label what a function or an operator (as `ast` names it) gives that computes with several."""
    if function in TESTS:
        return compared(labels)
    return promoted(labels)._replace(shape=None if function in CONTRACTING else broadcast(labels))


def compared(labels: list[Label]) -> Label:
    """Label what a comparison of several gives: bools where one is a tensor."""
    tensors = [each for each in labels if not each.is_number]
    if not tensors or all(each == UNKNOWN for each in tensors):
        return UNKNOWN
    found = agreed(tensors)
    device = next((each.device for each in tensors if each.device is not None), None)
    is_moved = any(each.is_moved for each in tensors)
    return found._replace(dtype="bool", is_stated=True, is_moved=is_moved, device=device, shape=broadcast(labels))


def broadcast(labels: Iterable[Label]) -> tuple[int | None, ...] | None:
    """The shape that tensors and numbers have together; None where one is not known."""
    shapes = [() if each.is_number else each.shape for each in labels]
    if any(each is None for each in shapes):
        return None
    aligned = zip_longest(*(reversed(each or ()) for each in shapes), fillvalue=1)
    return tuple(reversed([_together(set(sizes)) for sizes in aligned]))


def _together(sizes: set[int | None]) -> int | None:
    larger = sizes - {1}
    return larger.pop() if len(larger) == 1 else None if larger else 1


def reshaped(
    function: str, shape: tuple[int | None, ...] | None, sizes: tuple[int | None, ...] | None
) -> tuple[int | None, ...] | None:
    """The shape that a method gives which is called with numbers, each None where it is not known."""
    if function in ELEMENTWISE:
        return shape
    if not sizes:
        return None
    if function in ("view", "reshape"):
        return tuple(None if each == -1 else each for each in sizes)
    if shape is None or any(type(each) is not int for each in sizes):
        return None
    rank = len(shape)
    axes = [each % rank for each in sizes if each is not None and -rank <= each < rank] if rank else []
    if function == "expand" and len(sizes) >= rank:
        known = (None,) * (len(sizes) - rank) + shape
        return tuple(old if new == -1 else new for new, old in zip(sizes, known, strict=True))
    if function == "unsqueeze":
        at = (sizes[0] or 0) % (rank + 1)
        return (*shape[:at], 1, *shape[at:])
    if function in ("transpose", "swapaxes") and len(axes) == 2:
        order = list(range(rank))
        order[axes[0]], order[axes[1]] = axes[1], axes[0]
        return tuple(shape[each] for each in order)
    if function == "permute" and sorted(axes) == list(range(rank)):
        return tuple(shape[each] for each in axes)
    return None


def agreed(labels: Iterable[Label]) -> Label:
    """Label what holds for all of several; complex numbers of two precisions are complex."""
    several = list(labels)
    if len(several) < 2:
        return several[0] if several else UNKNOWN
    dtypes = {each.dtype for each in several}
    is_complex = all((each or "").startswith("complex") for each in dtypes)
    devices, shapes = {each.device for each in several}, {each.shape for each in several}
    dtype = dtypes.pop() if len(dtypes) == 1 else "complex64" if is_complex else None
    return Label(
        dtype,
        devices.pop() if len(devices) == 1 else None,
        shapes.pop() if len(shapes) == 1 else None,
        is_stated=all(each.is_stated for each in several),
        is_moved=all(each.is_moved for each in several),
        of_numpy=all(each.of_numpy for each in several),
        is_number=all(each.is_number for each in several),
        name=several[0].name,
    )


def viewed(shape: tuple[int | None, ...] | None, axes: Sequence[str]) -> tuple[int | None, ...] | None:
    """The shape of a view by indices: `:` keeps an axis, a number takes it out, None puts one in."""
    if shape is None or len(axes) - axes.count("None") > len(shape):
        return None
    found, sizes = list[int | None](), iter(shape)
    for axis in axes:
        if axis == "None":
            found.append(1)
        else:
            size = next(sizes)
            found += [size] if axis == ":" else []
    return (*found, *sizes)
