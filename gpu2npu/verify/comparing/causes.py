"""The causes for which two programs diverge, judged from the first place at which they do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gpu2npu.language import message
from gpu2npu.verify.comparing.compare import Comparison, Difference, became
from gpu2npu.verify.comparing.diagnosis import Diagnosis, FaultKind
from gpu2npu.verify.comparing.evidence import (
    are_all_others,
    gradient_factors,
    is_evaluated,
    is_sum,
    other_limit,
    other_optimizer,
    other_weight,
    ratio_of,
)
from gpu2npu.verify.comparing.likeness import SAME, is_reordered, is_same_batch
from gpu2npu.verify.comparing.rank_causes import (
    batch_after,
    given_to,
    is_not_averaged,
    is_one_against_several,
    is_repeated,
)
from gpu2npu.verify.comparing.tolerance import FACTOR
from gpu2npu.verify.recording.format import STATE_OF
from gpu2npu.verify.recording.records import RecordedEvent

_OTHER_LOSS = "what modules return is the same, and the loss made of it is not"
_AGAINST = 0.9  # cosine of the angle between two differences, one of which explains the other


def explain(comparison: Comparison) -> Diagnosis | None:
    """The cause of the first divergence; None when there is none."""
    first = comparison.first
    if first is None:
        return None
    if first.original is None or first.migrated is None:
        return _structure(comparison, first)
    otherwise = None if first.event.kind == "checkpoint" else _otherwise_made(comparison, first)
    return otherwise or _BY_KIND[first.event.kind](comparison, first)


def _otherwise_made(comparison: Comparison, first: Difference) -> Diagnosis | None:
    """Explain a tensor of another shape or dtype."""
    assert first.original is not None and first.migrated is not None
    one, other = first.original.tensor, first.migrated.tensor
    if one is None or other is None:
        return None
    if one.shape != other.shape:
        is_split = one.shape[1:] == other.shape[1:] or one.shape[-1:] == other.shape[-1:]
        cause = FaultKind.SHAPE if is_split or _is_given_by_the_loop(comparison, first.event) else FaultKind.OPERATOR
        return Diagnosis(cause, became(one.shape, other.shape), _maker(comparison, first.event))
    if one.dtype != other.dtype:
        return Diagnosis(FaultKind.PRECISION, became(one.dtype, other.dtype), _maker(comparison, first.event))
    return None


def _module(event: RecordedEvent) -> str | None:
    """The module that an event belongs to."""
    if event.kind in ("input", "output", "gradient", "mode"):
        return event.name
    if event.kind in ("parameter", "parameter gradient", "buffer", "initial weight", "weight"):
        return event.name.rpartition(".")[0]
    if event.kind == "state":
        return event.name.rpartition(STATE_OF)[2].rpartition(".")[0]
    return None


def _maker(comparison: Comparison, event: RecordedEvent) -> str | None:
    """The module whose code made a tensor: for what a module within another one is given, the other one."""
    caller = _caller(comparison, event.name) if event.kind == "input" else None
    return caller or _module(event)


def _is_given_by_the_loop(comparison: Comparison, event: RecordedEvent) -> bool:
    return event.kind == "input" and _caller(comparison, event.name) is None


def _caller(comparison: Comparison, module: str) -> str | None:
    """The innermost module enclosing a module that is called itself; a ModuleList is not."""
    called = {event.name for event in comparison.original.events if event.kind in ("input", "output", "mode")}
    while "." in module:
        module = module.rpartition(".")[0]
        if module in called:
            return module
    return None


def _structure(comparison: Comparison, first: Difference) -> Diagnosis:
    event = first.event
    if event.step >= comparison.steps:
        return Diagnosis(FaultKind.STEPS, "one program ends before the other")
    batch = batch_after(comparison, first) if event.kind == "draw" else None
    if batch is not None:
        explanation = _given(comparison, batch)
        if explanation is not None:
            return explanation
    if event.kind == "draw":
        return Diagnosis(FaultKind.DRAW, "the programs draw other random numbers, or from another seed", event.within)
    if event.kind == "collective":
        return Diagnosis(FaultKind.COLLECTIVE, f"one program alone does {event.name}")
    if event.kind == "checkpoint":
        return Diagnosis(FaultKind.CHECKPOINT, "one program alone saves it")
    if event.kind == "rate":
        return Diagnosis(FaultKind.OPTIMIZER, f"{event.name} is optimized by one program alone")
    if event.kind in ("parameter", "parameter gradient"):
        return Diagnosis(FaultKind.OPTIMIZER, f"{event.name} is optimized by one program alone", _module(event))
    if event.kind == "loss scale":
        return Diagnosis(FaultKind.SCALE, "one program alone scales its loss")
    if event.kind == "weight":
        return Diagnosis(FaultKind.STATE, "one program alone changes it between two calls", _module(event))
    return Diagnosis(FaultKind.BRANCH, "one program does what the other does not", _module(event))


def _input(comparison: Comparison, first: Difference) -> Diagnosis:
    """Explain that a module is given something else and nothing before it differs: data, or code between modules."""
    event = first.event
    assert first.migrated is not None and first.migrated.tensor is not None
    caller = _caller(comparison, event.name)
    if caller is not None:
        return Diagnosis(FaultKind.OPERATOR, f"what {event.name} is given was computed otherwise", caller)
    if comparison.ranks:
        explanation = _input_of_rank(comparison, first)
        if explanation is not None:
            return explanation
    wanted = first.migrated.tensor
    for other in comparison.original.events:
        if other.kind == "input" and other.tensor is not None and is_same_batch(other.tensor, wanted):
            return Diagnosis(FaultKind.ORDER, f"the original gives this batch at step {other.step + 1}", event.name)
    expected = first.original.tensor if first.original is not None else None
    if expected is not None and is_reordered(expected, wanted):
        return Diagnosis(FaultKind.ORDER, "the original gives the numbers of this batch in another order", event.name)
    return Diagnosis(FaultKind.DATA, "the original is never given such a batch", event.name)


def _given(comparison: Comparison, batch: Difference) -> Diagnosis | None:
    return _otherwise_made(comparison, batch) or _input_of_rank(comparison, batch)


def _input_of_rank(comparison: Comparison, first: Difference) -> Diagnosis | None:
    """Explain a batch by those of other ranks and steps."""
    step = is_repeated(comparison, first)
    if step is not None:
        return Diagnosis(FaultKind.EPOCH, f"the rank is given the batch of step {step + 1} once more", first.event.name)
    rank = given_to(comparison, first)
    if rank is not None:
        return Diagnosis(FaultKind.SHARE, f"the original gives this batch to rank {rank}", first.event.name)
    return None


def _output(comparison: Comparison, first: Difference) -> Diagnosis:
    weight = other_weight(comparison, first)
    if weight is not None:
        step = weight.original.step + 1
        sentence = f"its weight {weight.original.name} is {weight.error:.1e} of the norm apart after step {step}"
        return Diagnosis(FaultKind.OPTIMIZER, f"{sentence}, which explains it", _module(weight.original))
    sentence = f"it was given the same, and returns something else{_size(first)}"
    if is_evaluated(comparison, first.event):
        sentence += "; --evaluation records what is within it"
    return Diagnosis(FaultKind.OPERATOR, sentence, first.event.name)


def _size(first: Difference) -> str:
    """The precision whose rounding makes errors as large."""
    for low, high, name in ((2.0**-13, 2.0**-9, "float16 or HF32"), (2.0**-9, 2.0**-6, "bfloat16")):
        if low < first.error <= high:
            return f"; the error is as large as rounding to {name} makes"
    return ""


def _loss(comparison: Comparison, first: Difference) -> Diagnosis:
    assert first.original is not None and first.migrated is not None
    ratio = ratio_of(first)
    if ratio is not None:
        return Diagnosis(FaultKind.LOSS_FACTOR, f"the loss is {ratio:.6g} times the original's")
    if is_one_against_several(comparison):
        sentence = "what modules return is the same, and the mean of the ranks' losses is not the loss of the batch"
        return Diagnosis(FaultKind.LOCAL_MEAN, sentence)
    return Diagnosis(FaultKind.LOSS, _OTHER_LOSS)


def _gradient(comparison: Comparison, first: Difference) -> Diagnosis:
    return _gradient_of(comparison, first.event)


def _gradient_of(comparison: Comparison, event: RecordedEvent) -> Diagnosis:
    """Name the module whose backward pass makes a gradient."""
    if event.kind == "parameter gradient":
        return Diagnosis(FaultKind.GRADIENT, "the gradient of a parameter alone differs", _module(event))
    places = [event, *_returning(comparison, event)]
    consumer = next(filter(None, (_consumer(comparison, each) for each in places)), None)
    if consumer is not None:
        return Diagnosis(FaultKind.GRADIENT, f"in the backward pass of {consumer}", consumer)
    outermost = places[-1].name
    if _caller(comparison, outermost) is None and _is_of_another_loss(comparison, event):
        return Diagnosis(FaultKind.LOSS, _OTHER_LOSS)
    where = f"in the backward pass of what follows {outermost}"
    return Diagnosis(FaultKind.GRADIENT, where, _caller(comparison, outermost))


def _is_of_another_loss(comparison: Comparison, event: RecordedEvent) -> bool:
    """Return whether a loss of the gradient's step is farther apart than rounding moved it, if less than may be."""
    losses = (each for each in comparison.measured if each.original.kind == "loss" and each.original.step == event.step)
    return any(each.error > each.tolerance / FACTOR for each in losses)


def _output_at(comparison: Comparison, event: RecordedEvent) -> RecordedEvent | None:
    """The output of the module of a gradient."""
    place = (event.step, "output", event.name, event.call, event.part)
    return next((each for each in comparison.original.events if each.key == place), None)


def _returning(comparison: Comparison, event: RecordedEvent) -> list[RecordedEvent]:
    """The outputs of modules enclosing a gradient's module that are the very tensor which that module returned."""
    found: list[RecordedEvent] = []
    output, caller = _output_at(comparison, event), _caller(comparison, event.name)
    while output is not None and output.tensor is not None and caller is not None:
        enclosing = _output_at(comparison, replace(event, name=caller))
        if (
            enclosing is None
            or enclosing.tensor is None
            or not np.array_equal(enclosing.tensor.sketch, output.tensor.sketch)
        ):
            break
        found.append(enclosing)
        caller = _caller(comparison, caller)
    return found


def _consumer(comparison: Comparison, event: RecordedEvent) -> str | None:
    """The innermost module that is given what the event's module returns."""
    output = _output_at(comparison, event)
    if output is None or output.tensor is None:
        return None
    returned = output.tensor
    found = [
        each.name
        for each in comparison.original.events
        if each.kind == "input"
        and each.step == event.step
        and each.tensor is not None
        and each.tensor.shape == returned.shape
        and np.array_equal(each.tensor.sketch, returned.sketch)
    ]
    return max(found, key=lambda name: name.count("."), default=None)


def _parameter_gradient(comparison: Comparison, first: Difference) -> Diagnosis:
    assert first.original is not None and first.migrated is not None
    one, other, module = first.original.tensor, first.migrated.tensor, _module(first.event)
    assert one is not None and other is not None
    key = first.event.step - 1, *first.event.key[1:]
    before = next((each.tensor for each in comparison.migrated.events if each.key == key and each.tensor), None)
    if before is not None and is_sum(other, one, before, first.tolerance):
        return Diagnosis(FaultKind.RETAINED, "the gradient is the original's plus that of the step before", module)
    if is_not_averaged(comparison, first):
        return Diagnosis(FaultKind.NOT_AVERAGED, "each rank has its own, and their mean is the original's", module)
    factors = gradient_factors(comparison, first.event.step)
    apart = max(SAME, first.tolerance / FACTOR)  # by as much rounding moves each of them
    if len(factors) > 1 and max(factors) - min(factors) <= apart * abs(factors[0]):
        sentence = f"all gradients are {float(np.median(factors)):.3g} times the original's"
        return Diagnosis(FaultKind.FACTOR, f"{sentence}: averaged, summed, unscaled or clipped otherwise")
    if are_all_others(comparison, first.event.step):
        sentence = "all parameters' gradients differ, and none on the way back: clipped, unscaled or averaged otherwise"
        return Diagnosis(FaultKind.FACTOR, sentence)
    if limited := other_limit(comparison, first.event.step):
        return Diagnosis(FaultKind.FACTOR, limited)
    return _gradient_of(comparison, first.event)


def _parameter(comparison: Comparison, first: Difference) -> Diagnosis:
    if _follows_gradient(comparison, first):
        origin = next(
            each.original
            for each in comparison.measured
            if each.original.step == first.event.step
            and each.original.kind in ("gradient", "parameter gradient")
            and (each.error > each.tolerance / FACTOR or each.original.key[2:] == first.event.key[2:])
        )
        explanation = _gradient_of(comparison, origin)
        return Diagnosis(FaultKind.GRADIENT, f"its gradient differs, {explanation.sentence}", explanation.module)
    other = other_optimizer(comparison, first.event.step)
    if other:
        return Diagnosis(FaultKind.OPTIMIZER, other)
    sentence = "the gradient and the learning rate are the same, and the parameter after the step is not"
    return Diagnosis(FaultKind.OPTIMIZER, sentence, _module(first.event))


def _follows_gradient(comparison: Comparison, first: Difference) -> bool:
    """Compare in what direction a parameter and its gradient differ: a step goes against the gradient."""
    assert first.original is not None and first.original.tensor is not None
    assert first.migrated is not None and first.migrated.tensor is not None
    place = (first.event.step, "parameter gradient", *first.event.key[2:])
    for each in comparison.measured:
        if each.original.key == place and each.original.tensor is not None and each.migrated.tensor is not None:
            of_gradient = each.migrated.tensor.sketch - each.original.tensor.sketch
            moved = first.migrated.tensor.sketch - first.original.tensor.sketch
            lengths = float(np.linalg.norm(of_gradient) * np.linalg.norm(moved))
            return lengths > 0 and float(of_gradient @ moved) < -_AGAINST * lengths
    return False


def _buffer(comparison: Comparison, first: Difference) -> Diagnosis:
    if first.event.call:
        sentence = f"rank {comparison.migrated.rank} begins with its own, where the original has it from the first"
        return Diagnosis(FaultKind.NOT_BROADCAST, sentence, _module(first.event))
    return Diagnosis(FaultKind.BUFFER, "the buffer differs, and no output did", _module(first.event))


def _device(comparison: Comparison, first: Difference) -> Diagnosis:
    assert first.migrated is not None and first.migrated.value is not None
    sentence = f"rank {comparison.migrated.rank} uses card {first.migrated.value:.0f}, as another rank does"
    return Diagnosis(FaultKind.DEVICE, sentence, first.event.name)


def _rate(comparison: Comparison, first: Difference) -> Diagnosis:
    other = other_optimizer(comparison, first.event.step)
    return Diagnosis(FaultKind.OPTIMIZER, other) if other else Diagnosis(FaultKind.RATE, _values(first))


def _option(comparison: Comparison, first: Difference) -> Diagnosis:
    return Diagnosis(FaultKind.OPTIMIZER, "the optimizer is given another number")


def _stored(comparison: Comparison, first: Difference) -> Diagnosis:
    sentence = "the gradients are the same, and what the optimizer keeps of them is not"
    return Diagnosis(FaultKind.OPTIMIZER, sentence, _module(first.event))


def _scale(comparison: Comparison, first: Difference) -> Diagnosis:
    return Diagnosis(FaultKind.SCALE, _values(first))


def _values(first: Difference) -> str:
    assert first.original is not None and first.migrated is not None
    return became(f"{first.original.value:.6g}", f"{first.migrated.value:.6g}")


def _retained(comparison: Comparison, first: Difference) -> Diagnosis:
    assert first.migrated is not None
    side = message("migrated program") if first.migrated.value else message("original")
    sentence = f"the {side} alone adds to gradients that {first.event.name} has used"
    return Diagnosis(FaultKind.RETAINED, sentence)


def _weights(comparison: Comparison, first: Difference) -> Diagnosis:
    if first.event.step:
        return Diagnosis(FaultKind.STATE, "the weights differ when the module is first called", _module(first.event))
    return Diagnosis(FaultKind.WEIGHTS, "the weights differ before the first step", _module(first.event))


def _state(comparison: Comparison, first: Difference) -> Diagnosis:
    return Diagnosis(FaultKind.STATE, "no optimizer trains it, and it was changed otherwise", _module(first.event))


def _collective(comparison: Comparison, first: Difference) -> Diagnosis:
    return Diagnosis(FaultKind.COLLECTIVE, f"what {first.event.name} is given differs")


def _checkpoint(comparison: Comparison, first: Difference) -> Diagnosis:
    return Diagnosis(FaultKind.CHECKPOINT, "what is saved differs, and what was trained until then does not")


def _mode(comparison: Comparison, first: Difference) -> Diagnosis:
    words = {True: "in training mode", False: "in evaluation mode"}
    assert first.original is not None and first.migrated is not None
    there, here = words[bool(first.original.value)], words[bool(first.migrated.value)]
    return Diagnosis(FaultKind.MODE, f"the original calls it {there}, the migrated program {here}", first.event.name)


_BY_KIND: dict[str, Callable[[Comparison, Difference], Diagnosis]] = {
    "input": _input,
    "output": _output,
    "loss": _loss,
    "gradient": _gradient,
    "parameter gradient": _parameter_gradient,
    "parameter": _parameter,
    "buffer": _buffer,
    "rate": _rate,
    "option": _option,
    "state": _stored,
    "kept gradients": _retained,
    "loss scale": _scale,
    "initial weight": _weights,
    "weight": _state,
    "collective": _collective,
    "checkpoint": _checkpoint,
    "mode": _mode,
    "device": _device,
}
