"""The evidence that several ranks together give of a divergence."""

from __future__ import annotations

import numpy as np

from gpu2npu.verify.comparing.compare import Comparison, Difference
from gpu2npu.verify.recording.records import Key, RecordedEvent, Recording, Tensor

_SAME = 1e-3  # share of the norm within which two tensors are one


def is_repeated(comparison: Comparison, first: Difference) -> int | None:
    """The earlier step at which the rank was given the same batch, where the original has another: 0 is the first."""
    assert first.migrated is not None
    return _step_of(first.migrated, comparison.migrated, before=first.event.step)


def batch_after(comparison: Comparison, first: Difference) -> Difference | None:
    """The batch that differs in the step of a draw that differs: which samples a rank has decides what it draws."""
    if not comparison.ranks:
        return None
    step = first.event.step
    given = (event.name for event in comparison.original.events if event.kind == "input" and event.step == step)
    model = next(given, None)
    for each in comparison.differences:
        is_batch = each.event.kind == "input" and each.event.name == model and each.event.step == step
        if is_batch and each.original is not None and each.migrated is not None:
            return each
    return None


def given_to(comparison: Comparison, first: Difference) -> int | None:
    """The other rank to which the original gives this batch."""
    assert first.migrated is not None
    for rank, (original, _) in enumerate(comparison.ranks):
        if rank != comparison.migrated.rank and _step_of(first.migrated, original) is not None:
            return rank
    return None


def _step_of(wanted: RecordedEvent, recording: Recording, before: int | None = None) -> int | None:
    tensor = wanted.tensor
    assert tensor is not None
    for event in recording.events:
        if before is not None and event.step >= before:
            return None
        given = event.tensor if event.kind == "input" and event.name == wanted.name else None
        if given is not None and given.shape == tensor.shape and np.array_equal(given.sketch, tensor.sketch):
            return event.step
    return None


def is_not_averaged(comparison: Comparison, first: Difference) -> bool:
    """Return whether ranks have gradients of their own whose mean is the original's gradient."""
    found = [_tensor(migrated, first.event.key) for _, migrated in comparison.ranks]
    gradients = [tensor for tensor in found if tensor is not None]
    wanted = first.original.tensor if first.original is not None else None
    if len(gradients) < max(len(found), 2) or wanted is None:
        return False
    apart = max(float(np.linalg.norm(each.sketch - gradients[0].sketch)) for each in gradients[1:])
    allowed = max(first.tolerance, _SAME) * wanted.norm
    mean = np.mean([tensor.sketch for tensor in gradients], axis=0)
    return apart > allowed and float(np.linalg.norm(mean - wanted.sketch)) <= allowed


def _tensor(recording: Recording, key: Key) -> Tensor | None:
    return next((event.tensor for event in recording.events if event.key == key), None)


def is_one_against_several(comparison: Comparison) -> bool:
    """Return whether one process of the original is compared with several ranks."""
    return comparison.original.world == 1 and len(comparison.ranks) > 1
