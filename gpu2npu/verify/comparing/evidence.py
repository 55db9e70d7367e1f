"""The evidence of a divergence in all that was measured of one program: multiples, sums, and what else differs."""

from __future__ import annotations

import numpy as np

from gpu2npu.verify.comparing.compare import Comparison, Difference, Measured
from gpu2npu.verify.comparing.likeness import SAME, is_near, is_simple, scaled
from gpu2npu.verify.comparing.tolerance import FACTOR
from gpu2npu.verify.recording.records import RecordedEvent, Tensor


def ratio_of(first: Difference) -> float | None:
    """By what the migrated tensor is the original's multiplied, if that explains the difference and says something: of
    a number, every other is a multiple, so only a simple one does."""
    ratio = _multiple(first)
    assert first.original is not None
    tensor = first.original.tensor
    is_number = tensor is not None and tensor.sketch[tensor.sketch != 0].size <= 1
    return None if ratio is None or (is_number and not is_simple(ratio)) else ratio


def _multiple(first: Difference) -> float | None:
    assert first.original is not None and first.migrated is not None
    one, other = first.original.tensor, first.migrated.tensor
    if one is None or other is None:
        return None
    square = float(one.sketch @ one.sketch)
    if not square:
        return None
    ratio = float(one.sketch @ other.sketch) / square
    return ratio if is_near(other.sketch, scaled(one, ratio), first.tolerance) else None


def gradient_factors(comparison: Comparison, step: int) -> list[float]:
    """By what the gradients of a step that differ are multiplied, those of one number too, which have to agree with the
    rest; empty if one is not, or if others would show it."""
    ratios = [
        _multiple(each)
        for each in comparison.differences
        if each.event.kind == "parameter gradient" and each.event.step == step
    ]
    factors = [ratio for ratio in ratios if ratio is not None]
    if len(factors) < len(ratios) or not factors:
        return []
    change = abs(1 - factors[0])
    alike = (
        each
        for each in comparison.measured
        if each.original.kind == "parameter gradient" and each.original.step == step and each.error <= each.tolerance
    )
    return [] if any(each.tolerance < change and _norm(each.original) for each in alike) else factors


def are_all_others(comparison: Comparison, step: int) -> bool:
    """Return whether all parameters' gradients of a step differ, and no gradient on the way back.

    One that is 0, or nothing but rounding, may be alike.
    """
    alike = [each for each in comparison.measured if each.original.step == step and each.error <= each.tolerance]
    kinds = {each.original.kind for each in alike if _norm(each.original) and each.tolerance < 1}
    found = [each for each in _both(comparison, step) if each.event.kind == "parameter gradient"]
    multiples = sum(ratio_of(each) is not None for each in found)  # of those that follow one, by the norm of all
    return "gradient" in kinds and "parameter gradient" not in kinds and len(found) > max(1, 2 * multiples)


def other_limit(comparison: Comparison, step: int) -> str:
    """Name the limit of the elements of the gradients that differ, as `clip_grad_value_` sets it: in one program it is
    the largest element of each, in the other all have a larger one. Empty where there is none."""
    found = [each for each in _both(comparison, step) if each.event.kind == "parameter gradient"]
    tensors = [(each.original and each.original.tensor, each.migrated and each.migrated.tensor) for each in found]
    pairs = [(one.largest, other.largest) for one, other in tensors if one and other]
    for ordered in (pairs, [(other, one) for one, other in pairs]):
        limits = [limit for limit, _ in ordered]
        is_one = len(limits) > 1 and min(limits) > 0 and max(limits) - min(limits) <= SAME * max(limits)
        if is_one and all(largest > limit for limit, largest in ordered):
            return f"the gradients that differ are at most {limits[0]:.3g} in one of the programs: clipped otherwise"
    return ""


def _both(comparison: Comparison, step: int) -> list[Difference]:
    """The differences of a step in what both programs do."""
    pairs = [each for each in comparison.differences if each.event.step == step]
    return [each for each in pairs if each.original is not None and each.migrated is not None]


def is_sum(tensor: Tensor, one: Tensor, before: Tensor, tolerance: float) -> bool:
    """Return whether a tensor is the sum of two, within the tolerance, and far nearer to it than to the first."""
    remains, apart = tensor.sketch - before.sketch, np.linalg.norm(tensor.sketch - one.sketch)
    return is_near(remains, one, tolerance) and bool(np.linalg.norm(remains - one.sketch) < apart / 2)


def _norm(event: RecordedEvent) -> float:
    return event.tensor.norm if event.tensor is not None else 0.0


def other_weight(comparison: Comparison, first: Difference) -> Measured | None:
    """The weight of a module, or of one within it, that was farther apart than rounding moved it, and about as far."""
    weights = {
        each.original.name: each
        for each in comparison.measured
        if each.original.kind == "parameter"
        and each.original.step < first.event.step
        and each.original.name.startswith(f"{first.event.name}.")
    }
    farthest = max(weights.values(), key=lambda each: each.error, default=None)
    if farthest is None or farthest.error <= farthest.tolerance / FACTOR or farthest.error < first.error / FACTOR:
        return None
    return farthest


def is_evaluated(comparison: Comparison, event: RecordedEvent) -> bool:
    """Return whether a module is recorded by what it is given and returns alone, as no gradient was computed."""
    inner = any(each.name.startswith(f"{event.name}.") for each in comparison.original.events if each.kind == "output")
    before: RecordedEvent | None = None
    for each in comparison.original.events:
        if each.key == event.key:
            break
        before = each if (each.kind, each.name) != ("output", event.name) else before
    return inner and before is not None and (before.kind, before.name) == ("input", event.name)


def other_optimizer(comparison: Comparison, step: int) -> str:
    """Name both classes where an optimizer of another one makes a step; empty where it is of the same."""
    rates = (each.name for each in comparison.original.events if each.kind == "rate" and each.step == step)
    there = next(rates, "").partition(".")[0]
    here = comparison.optimizers.get(there, there)
    if here == there:
        return ""
    return f"the step is one of {there.partition('#')[0]} in the original and of {here.partition('#')[0]} in the copy"
