"""One operator of `op_db`: all its samples on the emulated NPU against the CPU, forward and backward."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from gpu2npu.emulator.device.dispatch.limits import LimitError, met
from gpu2npu.support.behaviour import OTHER_DTYPE, rows
from tools.emulator_coverage.compare import (
    DifferenceError,
    check_kind,
    check_values,
    copied,
    draws,
    located,
    tensors,
    to_npu,
    tolerances,
)

# Results that are whatever memory held: the CPU's differ from one another.
UNINITIALIZED = ("empty", "new_empty", "empty_like", "empty_strided", "empty_permuted", "new_empty_strided")

# Their tensors beside the first are sizes and positions, which torch wants on the CPU for every device.
TAKES_HOST_TENSORS = ("tensor_split",)
# The position of `dim` among the arguments after the first of operators that name one of several equal elements.
POINTS = {"sort": 0, "argsort": 0, "mode": 0, "topk": 1, "kthvalue": 1}


@dataclass
class Tried:
    """The comparisons made so far."""

    samples: int = 0
    gradients: int = 0
    random: bool = False
    by_wider: bool = False  # results in the next wider dtype had to decide
    uncomparable: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Run:
    """One sample on one device: what came out, and the gradients of what went in (None without)."""

    results: list[Any]
    gradients: list[torch.Tensor | None]


def check(op: Any, dtype: torch.dtype, tried: Tried, limit: int | None = None) -> None:
    """Compare all samples, or the first `limit`; `tried` is kept up to date, so that it says what was compared.

    Raises:
        Exception: Whatever the NPU raised, or a DifferenceError; the message names the sample.
    """
    backward = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    for requires_grad in (False, True) if backward else (False,):
        for number, sample in enumerate(itertools.islice(_samples(op, dtype, requires_grad), limit)):
            with located(f"with gradients, sample {number}" if requires_grad else f"sample {number}"):
                _check_sample(op, dtype, sample, requires_grad, tried)


def _samples(op: Any, dtype: torch.dtype, requires_grad: bool) -> Iterator[Any]:
    torch.manual_seed(0)
    yield from op.sample_inputs_func(op, "cpu", dtype, requires_grad)


def _check_sample(op: Any, dtype: torch.dtype, sample: Any, requires_grad: bool, tried: Tried) -> None:
    limits = tolerances(op, dtype)
    given = (sample.input, sample.args, sample.kwargs)
    try:
        expected = _run(op, sample, copied(given), requires_grad, seed=1)
    except Exception as error:
        tried.uncomparable.append(f"{type(error).__name__}: {error}")
        return
    random = op.name in UNINITIALIZED or draws(lambda: _run(op, sample, copied(given), False, seed=1))
    tried.random |= random
    on_npu = to_npu(given) if op.name not in TAKES_HOST_TENSORS else (to_npu(given[0]), given[1], given[2])
    if not tensors(on_npu) and "device" in _keywords(op, sample):
        on_npu = (on_npu[0], on_npu[1], {**on_npu[2], "device": torch.device("npu")})
    before = dict(met)
    try:
        actual = _run(op, sample, on_npu, requires_grad, seed=1)
    except LimitError as error:
        tried.uncomparable.append(f"the NPU refuses it: {error}")
        return
    others = [each.id for each in rows() if each.outcome == OTHER_DTYPE and met.get(each.id) != before.get(each.id)]
    if others:
        tried.uncomparable.append(f"the NPU gives another dtype: {', '.join(others)}")
        return
    wide: list[Run] = []

    def in_wider_dtype() -> Run | None:
        if not wide:
            with contextlib.suppress(Exception):  # the operator may not exist in that dtype
                wide.append(_run(op, sample, copied(given, wide=True), requires_grad, seed=1))
        return wide[0] if wide else None

    _check_results(actual.results, expected.results, None if random else in_wider_dtype, limits, tried)
    if random and op.name not in UNINITIALIZED and not requires_grad:
        _check_repeatable(_run(op, sample, on_npu, False, seed=1).results, actual.results)
    tried.samples += 1
    if not requires_grad or all(each is None for each in expected.gradients):
        return
    for number, (ours, theirs) in enumerate(zip(actual.gradients, expected.gradients, strict=True)):
        with located(f"gradient {number}"):
            if (ours is None) != (theirs is None):
                raise DifferenceError("there is none" if ours is None else "there should be none")
            if ours is None or theirs is None:
                continue
            check_kind(ours, theirs)
            if not random:
                wider = lambda n=number: _gradient(in_wider_dtype(), n)  # noqa: E731
                tried.by_wider |= check_values(ours.cpu(), theirs, wider, limits)
    tried.gradients += 1


def _gradient(run: Run | None, number: int) -> torch.Tensor | None:
    return run.gradients[number] if run is not None and number < len(run.gradients) else None


def _result(run: Run | None, number: int) -> torch.Tensor | None:
    return run.results[number].detach() if run is not None else None


def _check_results(
    actual: list[Any],
    expected: list[Any],
    in_wider_dtype: Callable[[], Run | None] | None,
    limits: tuple[float, float],
    tried: Tried,
) -> None:
    if len(actual) != len(expected):
        raise DifferenceError(f"{len(actual)} results instead of {len(expected)}")
    for number, (ours, theirs) in enumerate(zip(actual, expected, strict=True)):
        check_kind(ours, theirs)
        if in_wider_dtype is None:
            continue
        if not isinstance(theirs, torch.Tensor):
            if ours != theirs and theirs == theirs:
                raise DifferenceError(f"{ours} instead of {theirs}")
        elif theirs.layout is torch.strided:
            wider = lambda n=number: _result(in_wider_dtype(), n)  # noqa: E731
            tried.by_wider |= check_values(ours.detach().cpu(), theirs.detach(), wider, limits)


def _pointed_to(name: str, given: tuple[Any, Any, Any], out: Any) -> Any:
    """The results with indices replaced by the elements that they point to."""
    source, args, kwargs = given
    at = POINTS[name]
    dim = kwargs.get("dim", args[at] if len(args) > at else -1)

    def element(leaf: Any) -> Any:
        if leaf.dtype is not torch.int64 or not source.dim():
            return leaf
        indices = leaf if leaf.dim() == source.dim() else leaf.unsqueeze(dim)
        return torch.take_along_dim(source.detach(), indices, dim)

    return tree_map(element, out)


def _check_repeatable(again: list[Any], results: list[Any]) -> None:
    """A random operator gives the same, bit for bit, after the same seed."""
    for one, other in zip(tensors(again), tensors(results), strict=True):
        if not torch.equal(one.detach().cpu(), other.detach().cpu()):
            raise DifferenceError("another result after the same seed")


def _keywords(op: Any, sample: Any) -> tuple[str, ...]:
    """Keyword arguments that a sample without tensors takes: a factory's is its device."""
    if "device" in sample.kwargs:
        return ("device",)
    try:
        op.op(sample.input, *sample.args, **{**sample.kwargs, "device": torch.device("cpu")})
    except TypeError:
        return ()
    return ("device",)


def _run(op: Any, sample: Any, given: tuple[Any, Any, Any], requires_grad: bool, seed: int) -> Run:
    first, args, kwargs = given
    torch.manual_seed(seed)
    with torch.set_grad_enabled(requires_grad):
        out = op.op(first, *args, **kwargs)
        if op.name in POINTS:
            out = _pointed_to(op.name, given, out)
        results = tree_leaves(sample.output_process_fn_grad(out) if tensors(out) else out)
    if not requires_grad:
        return Run(results, [])
    roots = [each for each in tensors(results) if each.requires_grad]
    leaves = [each for each in tensors(given) if each.requires_grad]
    if not roots or not leaves:
        return Run(results, [])
    torch.manual_seed(3)
    weights = [torch.randn(each.shape, dtype=each.dtype).to(each.device) for each in roots]
    return Run(results, list(torch.autograd.grad(roots, leaves, weights, allow_unused=True)))
