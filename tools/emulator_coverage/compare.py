"""Compares results of the emulated NPU with the CPU's, and moves samples from one to the other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.testing._comparison import default_tolerances
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

WIDER = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}


class DifferenceError(AssertionError):
    """The NPU's result is not the CPU's; the message says how."""


class LocatedError(Exception):
    """An error with its place."""


@contextlib.contextmanager
def located(where: str) -> Iterator[None]:
    """Puts a place before what an error says, and the error's kind unless it is a difference.

    Raises:
        LocatedError: For every error within.
    """
    try:
        yield
    except (DifferenceError, LocatedError) as error:
        raise LocatedError(f"{where}: {error}") from error
    except Exception as error:
        raise LocatedError(f"{where}: {type(error).__name__}: {' '.join(str(error).split())}") from error


def tolerances(entry: Any, dtype: torch.dtype) -> tuple[float, float]:
    """Relative and absolute: torch.testing's for the dtype, or the widest that the table's entry asks for.

    Entries carry them as decorators of torch's tests (`toleranceOverride`, `precisionOverride`), some of them for
    one test or one device only; any of them is the entry's authors' word on how exact its results are.
    """
    relative, absolute = default_tolerances(dtype)
    for each in entry.decorators:
        for decorator in getattr(each, "decorators", (each,)):
            given = getattr(decorator, "d", None)
            if not isinstance(given, dict) or dtype not in given:
                continue
            if getattr(each, "dtypes", None) is not None and dtype not in each.dtypes:
                continue
            tolerance = given[dtype]
            if isinstance(tolerance, float):
                absolute = max(absolute, tolerance)
            else:
                relative, absolute = max(relative, tolerance.rtol), max(absolute, tolerance.atol)
    return relative, absolute


def to_npu(value: Any) -> Any:
    """A sample's arguments with their tensors on the NPU, leaves that require gradients where they did."""

    def moved(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf.detach().to("npu").requires_grad_(leaf.requires_grad)
        is_cpu = leaf == "cpu" or (isinstance(leaf, torch.device) and leaf.type == "cpu")
        return torch.device("npu") if is_cpu else leaf

    return tree_map(moved, value)


def copied(value: Any, wide: bool = False) -> Any:
    """A sample's arguments with new leaves, in the next wider dtypes when `wide`."""

    def copy(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            new = leaf.detach().to(WIDER[leaf.dtype]) if wide and leaf.dtype in WIDER else leaf.detach().clone()
            return new.requires_grad_(leaf.requires_grad)
        return WIDER[leaf] if wide and isinstance(leaf, torch.dtype) and leaf in WIDER else leaf

    return tree_map(copy, value)


class _Drawing(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notices operators that draw random numbers."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.drew: bool = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.drew |= torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **(kwargs or {}))


def draws(function: Callable[[], object]) -> bool:
    """Return whether a function draws random numbers on its way, whatever it does with them."""
    with _Drawing() as mode:
        function()
    return bool(mode.drew)


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors in a nest of lists, tuples and dicts."""
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def check_values(
    actual: torch.Tensor,
    expected: torch.Tensor,
    wide: Callable[[], torch.Tensor | None],
    limits: tuple[float, float],
) -> bool:
    """Raise unless every element is as near as the limits ask to the CPU's, or as right as the CPU's.

    The CPU's own code rounds between the parts of many operators, and sums in an order of its own. So where the two
    differ, the CPU's result in the next wider dtype decides: an element is right when it is within the limits of that,
    or within twice the distance of the CPU's farthest element, as `torch._dynamo.utils.same` judges compiled code.

    Args:
        actual: The NPU's result, brought to the CPU.
        expected: The CPU's result.
        wide: The CPU's result of the same operator in the next wider dtype, None where it has none.
        limits: Relative and absolute.

    Returns:
        Whether the wider result had to decide.

    Raises:
        DifferenceError: Naming the first difference.
    """
    if not (actual.dtype.is_floating_point or actual.dtype.is_complex):
        near = actual == expected
    else:
        near = torch.isclose(actual, expected, rtol=limits[0], atol=limits[1], equal_nan=True)
    if near.all():
        return False
    reference = wide() if actual.dtype in WIDER else None
    if reference is not None and reference.shape == actual.shape:
        ours, theirs = actual.to(reference.dtype), expected.to(reference.dtype)
        farthest = 2 * float((theirs - reference).abs().nan_to_num(0, 0, 0).max())
        near |= torch.isclose(ours, reference, rtol=limits[0], atol=max(limits[1], farthest), equal_nan=True)
        if near.all():
            return True
    wrong = int((~near).sum())
    first = tuple(int(each) for each in (~near).nonzero()[0])
    at = f" at {first}" if first else ""
    raise DifferenceError(
        f"{wrong} of {near.numel()} values differ, such as {actual[first].item()} instead of "
        f"{expected[first].item()}{at}"
    )


def check_kind(actual: Any, expected: Any) -> None:
    """Raise unless a result has the CPU's shape, dtype and layout and is on the NPU; numbers must be equal.

    Raises:
        DifferenceError: Naming what differs.
    """
    if not isinstance(expected, torch.Tensor):
        if type(actual) is not type(expected):
            raise DifferenceError(f"a {type(actual).__name__} instead of a {type(expected).__name__}")
        return
    if not isinstance(actual, torch.Tensor):
        raise DifferenceError(f"a {type(actual).__name__} instead of a tensor")
    if actual.device.type != "npu":
        raise DifferenceError(f"a result on {actual.device}")
    for what in ("layout", "dtype", "shape"):
        if getattr(actual, what) != getattr(expected, what):
            raise DifferenceError(f"{what} {getattr(actual, what)} instead of {getattr(expected, what)}")
