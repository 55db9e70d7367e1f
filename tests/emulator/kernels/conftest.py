"""Run torch on the CPU and, beside every operator, our kernel on the same arrays; collect what differs."""

from __future__ import annotations

import sys
import types as modules
import unittest
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from gpu2npu.emulator import kernels
from gpu2npu.emulator.device.dispatch import limits
from gpu2npu.emulator.device.dispatch.signature import overload
from gpu2npu.emulator.device.dispatch.without_kernel import DEFINED

if "expecttest" not in sys.modules:  # torch's own test tables import it, and use only this of it
    sys.modules["expecttest"] = modules.ModuleType("expecttest")
    sys.modules["expecttest"].TestCase = unittest.TestCase  # type: ignore[attr-defined]

NOT_HANDED_ON = ("device", "layout", "pin_memory", "memory_format", "non_blocking", "generator")
# Absolute and relative: what one rounding to the dtype costs, and a little for another order of summation.
TOLERANCE = {
    torch.float64: (1e-9, 1e-7),
    torch.float32: (3e-5, 1e-5),
    torch.float16: (2e-3, 2e-3),
    torch.bfloat16: (2e-2, 1.6e-2),
    torch.complex64: (2e-5, 1e-5),
    torch.complex128: (1e-9, 1e-7),
}
# PyTorch asks a back end of its own for convolutions by another name.
REQUESTED_AS = {"aten::convolution": "aten::convolution_overrideable"}
# Which of several equal elements is named is not specified; the values that come with the indices are compared.
UNSPECIFIED_INDICES = {"aten::topk": 1, "aten::sort": 1, "aten::median.dim": 1, "aten::kthvalue": 1, "aten::mode": 1}
# Results that are differences of nearly equal numbers.
CANCELLATION = {"aten::native_layer_norm_backward": 10, "aten::polygamma": 3}
# Intermediate results that torch's CPU code rounds to the half dtype, where they may overflow.
ROUNDED_ALONG_THE_WAY = {
    "aten::polygamma",
    "aten::soft_margin_loss",
    "aten::soft_margin_loss_backward",
    "aten::grid_sampler_2d",
    "aten::grid_sampler_3d",
}
# An accelerator keeps the statistics of halves in float32; torch's CPU code rounds them to the input's dtype.
STATISTICS_IN_FLOAT32 = {
    "aten::native_layer_norm",
    "aten::native_batch_norm",
    "aten::_native_batch_norm_legit",
    "aten::_native_batch_norm_legit.no_stats",
    "aten::_batch_norm_with_update",
    "aten::_fused_rms_norm",
}


def to_dtype(dtype: torch.dtype) -> np.dtype:
    """The NumPy dtype of a torch dtype."""
    if dtype == torch.bfloat16:
        return np.dtype(ml_dtypes.bfloat16)
    return torch.empty(0, dtype=dtype).numpy().dtype


def to_array(tensor: torch.Tensor) -> np.ndarray:
    """A NumPy view of the tensor's bytes, with its strides."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def to_tensor(array: np.ndarray) -> torch.Tensor:
    """A tensor with a copy of the array."""
    assert isinstance(array, np.ndarray), f"a kernel returned {type(array).__name__}"
    array = array.copy()
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def convert(value: Any) -> Any:
    """An operator's argument as a kernel gets it."""
    if isinstance(value, torch.Tensor):
        return to_array(value)
    if isinstance(value, torch.dtype):
        return to_dtype(value)
    if isinstance(value, list | tuple):
        return [convert(each) for each in value]
    return value


def on_npu(name: str) -> Callable[..., Any]:
    """An operator that PyTorch's definition computes on the device, called as a kernel is."""

    def placed(value: Any) -> Any:
        if isinstance(value, np.dtype):
            return to_tensor(np.empty(0, value)).dtype
        return to_tensor(value).npu() if isinstance(value, np.ndarray) else value

    def run(*args: Any, **kwargs: Any) -> Any:
        values, named = tree_map(placed, (args, kwargs))
        with pytest.MonkeyPatch.context() as patch:  # more dtypes than the NPU takes
            patch.setattr(limits, "refuses", ContextVar("refuses", default=False))
            return tree_map(lambda v: to_array(v.cpu()), overload(name)(*values, **named))

    return run


KERNELS = kernels.load() | {name: on_npu(name) for name in DEFINED}


def operator_name(operator: Any) -> str:
    """`aten::add.Tensor`, or `aten::relu` for a default overload."""
    schema = operator._schema
    return schema.name + (f".{schema.overload_name}" if schema.overload_name else "")


def difference(result: Any, expected: Any, scale: float = 1.0) -> str | None:
    """Return what distinguishes a kernel's results from torch's, None where nothing does."""
    if expected is None:
        return None if result is None else f"a {type(result).__name__} where torch gives nothing"
    if isinstance(expected, list | tuple):
        if not isinstance(result, list | tuple) or len(result) != len(expected):
            return f"{len(expected)} results expected"
        found = (difference(ours, theirs, scale) for ours, theirs in zip(result, expected, strict=True))
        return next((each for each in found if each), None)
    if not isinstance(expected, torch.Tensor):
        return None if result == expected else f"{result} instead of {expected}"
    if not isinstance(result, np.ndarray):
        return f"a {type(result).__name__} instead of an array"
    if result.dtype != to_dtype(expected.dtype):
        return f"dtype {result.dtype} instead of {expected.dtype}"
    if result.shape != tuple(expected.shape):
        return f"shape {result.shape} instead of {tuple(expected.shape)}"
    absolute, relative = TOLERANCE.get(expected.dtype, (0, 0))
    ours = to_tensor(result)
    if expected.dtype in (torch.float16, torch.bfloat16) and expected.numel():
        # torch's CPU code may round intermediate sums: what cancels keeps the error of the largest terms.
        absolute *= max(1.0, float(expected.float().nan_to_num(0, 0, 0).abs().max()) / 16)
    if torch.allclose(ours, expected, rtol=relative * scale, atol=absolute * scale, equal_nan=True):
        return None
    return f"values {ours.flatten()[:8].tolist()} instead of {expected.flatten()[:8].tolist()}"


class Differential(TorchDispatchMode):
    """While active, checks every operator torch runs that has a kernel: see `calls`, `missing` and `failures`."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale
        self.calls: Counter[str] = Counter()
        self.missing: Counter[str] = Counter()
        self.failures: dict[str, str] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = operator_name(func)
        random = torch.Tag.nondeterministic_seeded in func.tags
        base, _, overload = name.partition(".")
        mutated = [i for i, a in enumerate(func._schema.arguments) if a.alias_info and a.alias_info.is_write]
        functional = base[:-1] + (f".{overload}" if overload else "") if base.endswith("_") and mutated else name
        found = KERNELS.get(REQUESTED_AS.get(name, name)) or KERNELS.get(functional)
        half = any(isinstance(a, torch.Tensor) and a.dtype in (torch.float16, torch.bfloat16) for a in args)
        foreign = (half and name in ROUNDED_ALONG_THE_WAY) or any(
            isinstance(a, torch.Tensor) and not _has_array(a) for a in args
        )
        if random or foreign or found is None:
            if not func.is_view:
                self.missing[name] += found is None
            return func(*args, **kwargs)
        self.calls[name] += 1
        arrays = [convert(each) for each in args]
        options = {key: convert(each) for key, each in kwargs.items() if key not in NOT_HANDED_ON}
        in_place = name in KERNELS and bool(mutated)
        if mutated:
            arrays = [_copies(a) for a in arrays]
        problem: str | None
        try:
            result = found(*arrays, **options)
        except NotImplementedError:  # declined: the device computes it another way
            self.missing[name] += 1
            return func(*args, **kwargs)
        except Exception as error:
            result, problem = None, f"{type(error).__name__}: {error}"
        else:
            problem = None
        expected = func(*args, **kwargs)
        scale = self.scale * CANCELLATION.get(name, 1)
        if problem is None and name in STATISTICS_IN_FLOAT32:
            result = tuple(a.astype(to_dtype(t.dtype)) for a, t in zip(result, expected, strict=True))
        if problem is None and in_place:
            pairs = [(arrays[i], args[i]) for i in mutated if i < len(args)]
            problem = difference([ours for ours, _ in pairs], [theirs for _, theirs in pairs], scale)
            if func._schema.returns and not any(r.alias_info for r in func._schema.returns):
                problem = problem or difference(result, expected, scale)
        elif problem is None:
            if functional != name and isinstance(result, np.ndarray):
                result = result.astype(to_dtype(expected.dtype))
            if name in UNSPECIFIED_INDICES:
                compared = [i for i in range(len(expected)) if i != UNSPECIFIED_INDICES[name]]
                result, expected_ = [result[i] for i in compared], [expected[i] for i in compared]
                problem = difference(result, expected_, scale)
            else:
                problem = difference(result, expected, scale)
            # torch's result may be that of this processor's path: the definition's is nearer to the one in float64.
            if problem and not mutated and not difference(result, in_float64(func, args, kwargs, expected), scale):
                problem = None
        if problem:
            self.failures.setdefault(name, f"{problem}; called with {_describe(args)} {_describe(kwargs)}")
        return expected


def in_float64(operator: Any, args: Any, kwargs: Any, like: Any) -> Any:
    """The results that torch computes in float64, in the dtypes of those that it computed."""

    def widened(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [widened(each) for each in value]
        if isinstance(value, torch.dtype):
            return torch.float64 if value.is_floating_point else value
        return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    try:
        results = operator(*widened(args), **{name: widened(value) for name, value in kwargs.items()})
    except RuntimeError:  # there is no such operator of float64
        return like
    if isinstance(like, torch.Tensor):
        return results.to(like.dtype)
    if not isinstance(like, list | tuple):
        return results
    return [one.to(other.dtype) if torch.is_tensor(other) else one for one, other in zip(results, like, strict=True)]


def _has_array(tensor: torch.Tensor) -> bool:
    """NumPy has neither sparse arrays nor complex numbers of float16."""
    return tensor.layout == torch.strided and tensor.dtype != torch.complex32


def _copies(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.copy()
    return [_copies(each) for each in value] if isinstance(value, list) else value


def _describe(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype)[6:]}{list(value.shape)}"
    if isinstance(value, list | tuple):
        return "(" + ", ".join(_describe(each) for each in value) + ")"
    if isinstance(value, dict):
        return "(" + ", ".join(f"{key}={_describe(each)}" for key, each in value.items()) + ")"
    return repr(value)


def check(operator: Any, *args: Any, scale: float = 1.0, **kwargs: Any) -> None:
    """Assert that the kernel of one operator overload agrees with torch on the CPU."""
    name = operator_name(operator)
    mode = Differential(scale)
    with mode:
        operator(*args, **kwargs)
    assert mode.calls[name], f"{name} has no kernel"
    assert not mode.failures, mode.failures


def check_values(operator: Any, expected: torch.Tensor, *args: Any) -> None:
    """Assert that the kernel of an operator overload gives these values, rounded to the dtype of torch's result."""
    on_no_device = [each.to("meta") if isinstance(each, torch.Tensor) else each for each in args]
    result = KERNELS[operator_name(operator)](*(convert(each) for each in args))
    assert not (found := difference(result, expected.to(operator(*on_no_device).dtype))), found


@pytest.fixture(name="check_values", scope="session")
def check_values_fixture() -> Callable[..., None]:
    """`check_values(torch.ops.aten.exp.default, values, x)`: the kernel gives them."""
    return check_values


@pytest.fixture(name="check", scope="session")
def check_fixture() -> Callable[..., None]:
    """`check(torch.ops.aten.add.Tensor, a, b)`: the kernel agrees with torch on the CPU."""
    return check


@pytest.fixture
def differential() -> type[Differential]:
    """The mode that checks every operator torch runs while it is active."""
    return Differential


@pytest.fixture
def kernels_of() -> dict[str, Any]:
    """The table of kernels, all families loaded, without those of operators that this PyTorch has no longer."""
    return {
        name: each for name, each in KERNELS.items() if name != "aten::cholesky" or hasattr(torch.ops.aten, "cholesky")
    }


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Tests run beside each other; torch must not take every core in each of them."""
    torch.set_num_threads(1)
