"""Updates of optimizers, and weights that explain what a module returns: recordings made by hand."""

import numpy as np
import pytest
import torch

from gpu2npu.verify.comparing.causes import explain
from gpu2npu.verify.comparing.compare import compare
from gpu2npu.verify.comparing.diagnosis import FaultKind
from gpu2npu.verify.comparing.tolerance import Tolerance, measured
from gpu2npu.verify.recording.records import RecordedEvent, Recording, Tensor
from gpu2npu.verify.recording.sketch import summary


def values(seed: int, size: int = 2000) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(size, np.float32))


def event(kind: str, name: str, of: torch.Tensor, step: int = 0) -> RecordedEvent:
    made = summary(of)
    sketch = made.sketch.astype(np.float64)
    tensor = Tensor(made.shape, made.dtype, made.norm, made.mean, made.largest, made.unfinite, made.first, sketch)
    return RecordedEvent(step, kind, name, tensor=tensor)


def moves_by_signs(seed: int, scale: float = 1.0) -> Recording:
    """Two layers that one step moves by the signs of gradients, as Adam does; rounding turns some, others by seed."""
    events = []
    for number, name in enumerate(("a.weight", "b.weight")):
        weight, signs = values(11 + number, 2000), values(7 + number, 2000).sign()
        if seed:
            signs[seed * 100 : seed * 100 + 20] *= -1
        events += [event("initial weight", name, weight), event("parameter", name, weight + 0.01 * scale * signs)]
    return Recording("2.13.0", tuple(events), (1.0,))


def test_signs_that_rounding_turns_do_not_hide_longer_updates() -> None:
    original = moves_by_signs(0)
    tolerance = measured(original, [moves_by_signs(seed) for seed in (1, 2, 3)])
    assert not compare(original, moves_by_signs(4), tolerance).differences
    longer = compare(original, moves_by_signs(5, 2.0), tolerance)
    assert [each.event.kind for each in longer.differences] == ["parameter"]
    assert longer.first is not None and longer.first.message.startswith("the step's updates are")
    found = explain(longer)
    assert found is not None and found.cause is FaultKind.OPTIMIZER


def decayed(seed: int, share: float = 0.0) -> Recording:
    """Two steps of four layers, each of which takes a share off all weights; rounding moves them by more, at random."""
    weights = {f"{name}.weight": values(50 + number) for number, name in enumerate("abcd")}
    events = [event("initial weight", name, weight) for name, weight in weights.items()]
    for step in range(2):
        for number, name in enumerate(weights):
            noise = values(60 + 10 * seed + number) * (2e-5 if seed else 0.0)
            weights[name] = weights[name] * (1 - share) + 0.01 * values(90 + number + step) + noise
            events.append(event("parameter", name, weights[name], step))
    return Recording("2.13.0", tuple(events), (1.0, 1.0))


def test_a_weight_decay_below_rounding_shows_in_the_norm_of_all_parameters() -> None:
    original = decayed(0)
    tolerance = measured(original, [decayed(seed) for seed in (1, 2, 3)])
    assert not compare(original, decayed(4), tolerance).differences
    found = compare(original, decayed(5, 1e-5), tolerance)
    assert found.first is not None and found.first.event.step == 0 and "norm of all parameters" in found.first.message
    explanation = explain(found)
    assert explanation is not None and explanation.cause is FaultKind.OPTIMIZER


def steps(weight: float, output: float) -> Recording:
    """Two steps of a layer whose weight after the first, and what it returns in the second, are off by a share."""
    events = [
        event("output", "Net.layer", values(1)),
        event("parameter", "Net.layer.weight", values(2) * (1 + weight)),
        event("output", "Net.layer", values(3) * (1 + output), 1),
    ]
    return Recording("2.13.0", tuple(events), (1.0, 1.0))


@pytest.mark.parametrize(
    ("weight", "output", "expected"),
    [(1e-3, 2e-3, FaultKind.OPTIMIZER), (1e-3, 1e-1, FaultKind.OPERATOR), (1e-6, 2e-3, FaultKind.OPERATOR)],
)
def test_an_operator_is_blamed_where_its_weights_do_not_explain_it(
    weight: float, output: float, expected: FaultKind
) -> None:
    original = steps(0, 0)
    allowed = {each.key: 1e-3 / 4 for each in original.events if each.kind == "parameter"}
    found = explain(compare(original, steps(weight, output), Tolerance(allowed)))
    assert found is not None and found.cause is expected


def averaging(seed: int, of_squares: float = 1.0, name: str = "Adam#0", noise: float = 0.0) -> Recording:
    """A step whose parameters rounding moves far, and averages of squares hardly; one gradient is rounding alone."""
    events = [RecordedEvent(0, "rate", f"{name}.0", value=0.1), RecordedEvent(0, "option", f"{name}.0.eps", value=1e-8)]
    for layer in ("a", "b"):
        error = values(20 + seed, 2000) * (1e-3 if seed else 0)
        events.append(event("parameter gradient", f"Net.{layer}.weight", values(5) + error))
    events.append(event("parameter gradient", "Net.a.bias", values(30 + seed) * (noise or 1)))
    for layer in ("a", "b"):
        moved = values(40 + seed) * (0.03 if seed else 0)
        events.append(event("parameter", f"Net.{layer}.weight", values(6) + moved))
        state = (values(5) + values(20 + seed, 2000) * (1e-3 if seed else 0)) ** 2 * of_squares
        events.append(event("state", f"{name}.exp_avg_sq of Net.{layer}.weight", state))
    events.append(event("state", f"{name}.exp_avg_sq of Net.a.bias", (values(30 + seed) * (noise or 1)) ** 2))
    return Recording("2.13.0", tuple(events), (1.0,))


def test_an_average_of_squares_shows_what_the_parameters_do_not() -> None:
    original = averaging(0)
    tolerance = measured(original, [averaging(seed) for seed in (1, 2, 3)])
    assert not compare(original, averaging(4), tolerance).differences
    assert not compare(original, averaging(4, noise=9), tolerance).differences, "of rounding alone"
    other = compare(original, averaging(4, of_squares=1.1), tolerance)
    assert other.first is not None and other.first.event.kind == "state"
    found = explain(other)
    assert found is not None and (found.cause, found.module) == (FaultKind.OPTIMIZER, "Net.a")
    assert not compare(original, averaging(4, of_squares=1.1, name="NpuFusedAdam#0"), tolerance).differences


def test_a_number_of_an_optimizer_has_no_rounding_unless_a_run_shows_some() -> None:
    def given(value: float | None) -> Recording:
        options = () if value is None else (RecordedEvent(0, "option", "SGD#0.0.weight_decay", value=value),)
        return Recording("2.13.0", (RecordedEvent(0, "rate", "SGD#0.0", value=0.1), *options), (1.0,))

    exact = measured(given(1e-4), [given(1e-4)])
    found = explain(compare(given(1e-4), given(0.0), exact))
    assert found is not None and found.cause is FaultKind.OPTIMIZER
    assert not compare(given(1e-4), given(None), exact).differences
    assert not compare(given(1e-4), given(1.01e-4), measured(given(1e-4), [given(1.005e-4)])).differences


def test_an_optimizer_of_another_class_differs_by_what_it_does_alone() -> None:
    def rated(name: str, seed: int) -> Recording:
        rate, weight = RecordedEvent(0, "rate", f"{name}#0.0", value=0.1), event("parameter", "a.weight", values(seed))
        return Recording("2.13.0", (rate, weight), (1.0,))

    exact = Tolerance({})
    assert not compare(rated("FusedAdam", 1), rated("NpuFusedAdamW", 1), exact).differences
    explanation = explain(compare(rated("FusedAdam", 1), rated("AdamW", 2), exact))
    assert explanation is not None and explanation.cause is FaultKind.OPTIMIZER
    assert explanation.sentence == "the step is one of FusedAdam in the original and of AdamW in the copy"


@pytest.mark.parametrize(("last", "expected"), [(0.3, FaultKind.FACTOR), (0.5, FaultKind.GRADIENT)])
def test_the_gradient_of_one_number_has_to_agree_with_all_others(last: float, expected: FaultKind) -> None:
    def gradients(factor: float, of_number: float) -> Recording:
        names = {"a.weight": values(1), "b.weight": values(2)}
        events = [event("parameter gradient", name, each * factor) for name, each in names.items()]
        number = event("parameter gradient", "b.bias", torch.tensor([0.7 * of_number]))
        return Recording("2.13.0", (*events, number), (1.0,))

    found = explain(compare(gradients(1, 1), gradients(0.3, last), Tolerance({})))
    assert found is not None and found.cause is expected


def test_a_gradient_of_rounding_alone_does_not_hide_that_all_others_are_clipped_otherwise() -> None:
    def accumulated(seed: int, is_clipped: bool = False) -> Recording:
        events = [event("gradient", "Net.layer", values(1))]
        for number, name in enumerate("abc"):
            first, second = values(70 + number), values(80 + number)
            events.append(event("parameter gradient", f"{name}.weight", first * (0.4 if is_clipped else 1.0) + second))
        events.append(event("parameter gradient", "c.bias", values(90 + seed) * 1e-9))
        return Recording("2.13.0", tuple(events), (1.0,))

    tolerance = measured(accumulated(0), [accumulated(seed) for seed in (1, 2, 3)])
    explanation = explain(compare(accumulated(0), accumulated(4, is_clipped=True), tolerance))
    assert explanation is not None and explanation.cause is FaultKind.FACTOR


def limited(*limits: float) -> Recording:
    """A step of gradients of which the elements are limited, and of one that none of the limits reaches."""
    gradients = {
        "small": values(2) / 1000,
        **{f"{index}.weight": values(3).clamp(-each, each) for index, each in enumerate(limits)},
    }
    return Recording(
        "2.13.0", tuple(event("parameter gradient", name, each) for name, each in gradients.items()), (1.0,)
    )


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((0.1, 0.1), (0.01, 0.01), FaultKind.FACTOR),
        ((0.01, 0.01), (9.0, 9.0), FaultKind.FACTOR),
        ((0.1, 0.1), (0.01, 0.02), FaultKind.GRADIENT),  # no limit that both have
        ((0.1,), (0.01,), FaultKind.GRADIENT),
        ((0.1, 0.1), (0.0, 0.0), FaultKind.GRADIENT),  # lost, and not clipped
    ],
)
def test_gradients_whose_elements_are_clipped_otherwise_are_named(
    one: tuple[float, ...], other: tuple[float, ...], expected: FaultKind
) -> None:
    explanation = explain(compare(limited(*one), limited(*other), Tolerance({})))
    assert explanation is not None and explanation.cause is expected


@pytest.mark.parametrize(("error", "diverges"), [(1e-3, False), (0.1, True)])
def test_a_copy_of_a_weight_may_move_as_far_as_that_of_another(error: float, diverges: bool) -> None:
    def copies(*errors: float) -> Recording:
        numbered = enumerate(errors)
        events = (event("weight", f"copy 1 of {at}", values(70 + at) + by * values(80 + at)) for at, by in numbered)
        return Recording("2.13.0", tuple(events), (1.0,))

    original = copies(0, 0)
    compared = compare(original, copies(1e-6, error), measured(original, [copies(1e-3, 1e-6)]))
    assert bool(compared.differences) is diverges
