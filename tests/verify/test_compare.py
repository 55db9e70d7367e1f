"""Comparing recordings made by hand: what is a divergence, which comes first, and why."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gpu2npu.cli.verify.text import show_verdict
from gpu2npu.verify.comparing.causes import explain
from gpu2npu.verify.comparing.compare import Comparison, compare
from gpu2npu.verify.comparing.diagnosis import FaultKind
from gpu2npu.verify.comparing.ranks import earliest
from gpu2npu.verify.comparing.tolerance import FACTOR, Tolerance, measured
from gpu2npu.verify.recording.records import RecordedEvent, Recording, Tensor
from gpu2npu.verify.recording.sketch import summary


def tensor(values: torch.Tensor) -> Tensor:
    made = summary(values)
    sketch = made.sketch.astype(np.float64)
    return Tensor(made.shape, made.dtype, made.norm, made.mean, made.largest, made.unfinite, made.first, sketch)


def values(seed: int, *shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape, np.float32))


def event(kind: str, name: str, of: torch.Tensor, step: int = 0) -> RecordedEvent:
    return RecordedEvent(step, kind, name, tensor=tensor(of))


def recording(*events: RecordedEvent, steps: int = 2) -> Recording:
    return Recording("2.13.0", events, (1.0,) * steps)


BATCH, ACTIVATION, GRADIENT, WEIGHT = values(0, 8, 3), values(1, 8, 4), values(2, 4, 3), values(3, 4, 3)


def program(step: int = 0) -> list[RecordedEvent]:
    """A model of one layer that makes one step."""
    return [
        event("input", "Net", BATCH + step, step),
        event("output", "Net.layer", ACTIVATION + step, step),
        event("loss", "loss", torch.tensor(0.5 + step), step),
        event("parameter gradient", "Net.layer.weight", GRADIENT + step, step),
        event("parameter", "Net.layer.weight", WEIGHT + step, step),
    ]


ORIGINAL = recording(*program(0), *program(1))
EXACT = Tolerance({})


def test_a_gradient_of_zeros_is_as_good_as_none() -> None:
    for flows, same in ((torch.zeros(8, 4), True), (ACTIVATION, False)):
        alone = event("gradient", "Net.layer", flows)
        assert (
            compare(recording(*program(), alone, steps=1), recording(*program(), steps=1), EXACT).first is None
        ) is same


def migrated(change: dict[tuple[int, str], torch.Tensor]) -> Recording:
    """The original's recording with other values at some steps and kinds."""
    return replace(
        ORIGINAL,
        events=tuple(
            replace(each, tensor=tensor(change[each.step, each.kind])) if (each.step, each.kind) in change else each
            for each in ORIGINAL.events
        ),
    )


def cause(change: dict[tuple[int, str], torch.Tensor]) -> tuple[int, FaultKind]:
    comparison = compare(ORIGINAL, migrated(change), EXACT)
    explanation = explain(comparison)
    assert explanation is not None and comparison.first is not None
    return comparison.first.event.step, explanation.cause


@given(st.integers(1, 400), st.integers(0, 1000), st.floats(1e-4, 10))
def test_sketches_give_the_distance_of_two_tensors(size: int, seed: int, scale: float) -> None:
    one, change = values(seed, size), values(seed + 1, size) * scale
    estimated = float(np.linalg.norm(tensor(one).sketch - tensor(one + change).sketch))
    assert estimated == pytest.approx(float(change.norm()), rel=0.9, abs=1e-5)  # 5 standard deviations of 0.18


def test_what_is_not_finite_is_counted_and_left_out() -> None:
    made = summary(torch.tensor([1.0, float("nan"), float("inf"), -2.0]))
    assert (made.unfinite, made.largest, made.norm) == (2, 2.0, pytest.approx(5**0.5))


def test_equal_recordings_do_not_diverge() -> None:
    assert not compare(ORIGINAL, ORIGINAL, EXACT).differences


def test_rounding_is_no_divergence_and_more_than_rounding_is_one() -> None:
    rounded = migrated({(1, "output"): (ACTIVATION + 1) * (1 + 1e-4)})
    tolerance = measured(ORIGINAL, [rounded])
    near = migrated({(1, "output"): (ACTIVATION + 1) * (1 - 1e-4 * FACTOR / 2)})
    far = migrated({(1, "output"): (ACTIVATION + 1) * (1 - 1e-4 * FACTOR * 2)})
    assert not compare(ORIGINAL, near, tolerance).differences
    first = compare(ORIGINAL, far, tolerance).first
    assert first is not None and first.event.key == (1, "output", "Net.layer", 0, 0)


def test_a_tolerance_does_not_shrink_from_step_to_step() -> None:
    tolerance = measured(ORIGINAL, [migrated({(0, "output"): ACTIVATION * (1 + 1e-4)})])
    later = next(each for each in ORIGINAL.events if each.key[:2] == (1, "output"))
    assert tolerance.of(later) == pytest.approx(FACTOR * 1e-4, rel=0.2)


HIDDEN = -float("inf")
MASK = torch.zeros(6, 6).masked_fill(torch.ones(6, 6).triu(1).bool(), HIDDEN)


@pytest.mark.parametrize(
    ("other", "error"),
    [
        (torch.zeros(6, 6).masked_fill(torch.ones(6, 6).triu(2).bool(), HIDDEN), 1 / 3),  # 10 places, not 15
        (MASK.t().contiguous(), 3 / 4),  # other places: 3 of the first 4
        (MASK.abs(), 3 / 4),
    ],
)
def test_a_mask_that_hides_otherwise_differs(other: torch.Tensor, error: float) -> None:
    one, changed = (recording(*program(), event("input", "Net.attention", each), steps=1) for each in (MASK, other))
    assert compare(one, one, EXACT).first is None
    comparison = compare(one, changed, EXACT)
    assert comparison.first is not None and comparison.first.error == pytest.approx(error)
    assert (explanation := explain(comparison)) is not None and explanation.module == "Net"


def steps_with_noise(moved: float, noise: float, jump: float, scale: float = 1.0) -> Recording:
    """Two steps of four weights, and of four biases whose gradients are nothing but rounding: `noise`.

    `moved` is the share by which rounding moves the weights' gradients, and `jump` how far the biases go.
    """
    events = []
    for step in (0, 1):
        for layer in range(4):
            events += [
                event("parameter gradient", f"{layer}.weight", GRADIENT * scale * (1 + moved), step),
                event("parameter gradient", f"{layer}.bias", values(5, 8) * noise * scale, step),
                event("parameter", f"{layer}.weight", WEIGHT * (1 + moved), step),
                event("parameter", f"{layer}.bias", values(6, 8) + jump, step),
            ]
    return recording(*events)


@pytest.mark.parametrize("scale", [0.5, 2.0, 10.0])
def test_gradients_that_are_rounding_do_not_hide_a_scaled_gradient(scale: float) -> None:
    original = steps_with_noise(0, 1e-9, 0)
    tolerance = measured(original, [steps_with_noise(1e-5, -2e-9, 0.01), steps_with_noise(-1e-5, 3e-9, 0.02)])
    assert not compare(original, steps_with_noise(2e-5, -5e-9, -0.02), tolerance).differences
    first = compare(original, steps_with_noise(0, 1e-9, 0, scale), tolerance).first
    assert first is not None and first.event.key == (0, "parameter gradient", "0.weight", 0, 0)


def test_parameters_that_jump_by_rounding_hide_no_others() -> None:
    original = steps_with_noise(0, 1e-9, 0)
    tolerance = measured(original, [steps_with_noise(1e-5, -2e-9, 0.01), steps_with_noise(-1e-5, 3e-9, 0.02)])
    weight, bias = (each for each in original.events if each.key[:2] == (1, "parameter") and each.name[0] == "0")
    assert tolerance.of(weight) < 1e-3 < 0.1 < tolerance.of(bias)


def test_a_gradient_that_one_run_moves_by_chance_still_counts() -> None:
    original = steps_with_noise(0, 1e-9, 0)
    tolerance = measured(original, [steps_with_noise(1e-5, 1e-9, 0), steps_with_noise(1e-5, -2e-9, 0)])
    assert tolerance.of(original.events[0]) > 1


def test_an_overflow_in_one_run_is_tolerated_in_its_step_alone() -> None:
    def made(overflows: bool, moved: float = 0.0) -> Recording:
        flows = values(7, 50) * (1 + moved)
        first = torch.where(torch.arange(50) < 2, torch.inf, flows) if overflows else flows
        events = [event("gradient", name, first if step == 0 else flows, step) for step in (0, 1) for name in "abcd"]
        return recording(*events)

    original = made(False)
    tolerance = measured(original, [made(True), made(True), made(False, 1e-5)])
    assert [tolerance.of(each) < 1e-3 for each in original.events] == [False] * 4 + [True] * 4


def passes_relu(seed: int, scale: float = 1.0) -> Recording:
    """2,000 elements of a gradient behind a ReLU, two of which rounding switches off, others for each seed."""
    flows = values(7, 2000) * scale
    if seed:
        flows[[seed, 100 * seed]] = 0.0
    return recording(event("gradient", "Net.layer", flows), steps=1)


@pytest.mark.parametrize("scale", [0.8, 0.9, 1.1])
def test_elements_that_rounding_switches_do_not_hide_a_scaled_gradient(scale: float) -> None:
    original = passes_relu(0)
    tolerance = measured(original, [passes_relu(seed) for seed in (1, 2, 3)])
    assert not compare(original, passes_relu(4), tolerance).differences
    scaled = compare(original, passes_relu(0, scale), tolerance)
    assert tolerance.of(original.events[0]) > abs(scale - 1)
    assert scaled.first is not None and scaled.first.message.startswith("the norm changes by")
    assert scaled.measured[0].error == pytest.approx(abs(scale - 1), rel=1e-3)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({(0, "input"): BATCH + 1}, (0, FaultKind.ORDER)),  # the second batch
        ({(0, "input"): BATCH + 7}, (0, FaultKind.DATA)),
        ({(0, "input"): BATCH.flip(0)}, (0, FaultKind.ORDER)),  # the same samples
        ({(1, "output"): ACTIVATION * 2}, (1, FaultKind.OPERATOR)),
        ({(0, "loss"): torch.tensor(1.0)}, (0, FaultKind.LOSS_FACTOR)),
        ({(0, "loss"): torch.tensor(0.50001)}, (0, FaultKind.LOSS)),  # no multiple but of about 1
        ({(1, "parameter gradient"): 2 * GRADIENT + 1}, (1, FaultKind.RETAINED)),
        ({(1, "parameter gradient"): values(9, 4, 3)}, (1, FaultKind.GRADIENT)),
        ({(0, "parameter"): WEIGHT * 1.5}, (0, FaultKind.OPTIMIZER)),
        ({(1, "input"): BATCH.half()}, (1, FaultKind.PRECISION)),
        ({(1, "input"): BATCH[:4]}, (1, FaultKind.SHAPE)),
        ({(0, "output"): ACTIVATION * float("nan")}, (0, FaultKind.OPERATOR)),
    ],
)
def test_a_divergence_has_a_step_and_a_cause(
    change: dict[tuple[int, str], torch.Tensor], expected: tuple[int, FaultKind]
) -> None:
    assert cause(change) == expected


def test_the_first_divergence_is_the_first_in_program_order() -> None:
    comparison = compare(ORIGINAL, migrated({(1, "loss"): torch.tensor(9.0), (0, "parameter"): WEIGHT * 2}), EXACT)
    assert [each.event.key[:2] for each in comparison.differences] == [(0, "parameter"), (1, "loss")]


def of_events(*events: RecordedEvent, steps: int = 2) -> Comparison:
    return compare(ORIGINAL, recording(*events, steps=steps), EXACT)


def test_a_module_called_on_one_side_only_is_a_divergence_where_it_is_called() -> None:
    extra = event("output", "Net.dropout", ACTIVATION)
    comparison = of_events(*program(0)[:2], extra, *program(0)[2:], *program(1))
    assert [each.event for each in comparison.differences] == [extra]
    explanation = explain(comparison)
    assert explanation is not None and (explanation.cause, explanation.module) == (
        FaultKind.BRANCH,
        "Net.dropout",
    )


def test_a_program_that_ends_early_is_a_divergence_after_its_last_step() -> None:
    comparison = of_events(*program(0), steps=1)
    explanation = explain(comparison)
    assert comparison.first is not None and comparison.first.event.step == 1
    assert explanation is not None and explanation.cause is FaultKind.STEPS


def test_the_verdict_names_place_cause_lines_and_change(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    change = "File,Start Line,End Line,Operation Type,Message,Rule,Before,After\nnet.py,12,12,MODIFY,Moved.,rule,a,b\n"
    (tmp_path / "change_list.csv").write_text(change)
    stack = (("net.py", 12), ("train.py", 30))
    there = recording(*(replace(each, stack=stack) for each in ORIGINAL.events))
    here = replace(
        there,
        events=tuple(
            replace(each, tensor=tensor(ACTIVATION * 3)) if each.key[:2] == (0, "output") else each
            for each in there.events
        ),
        operators={"Net.layer": (("aten::mm", "numpy"),)},
    )
    show_verdict(compare(there, here, EXACT), tmp_path)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Diverged at step 1 in Net.layer: operator computed otherwise."
    assert lines[2] == "original: net.py, line 12; migrated: net.py, line 12"
    assert lines[3] == "Operators of Net.layer on the NPU: aten::mm (NumPy kernel)."
    assert lines[4] == "change_list.csv, row 1: net.py, line 12: Moved."
    assert len(lines) == 5


def test_a_verdict_of_no_difference_says_how_near_it_was(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    show_verdict(compare(ORIGINAL, ORIGINAL, EXACT), tmp_path)
    assert capsys.readouterr().out.startswith("The same: 2 steps, 10 places compared.")


def test_of_several_ranks_the_one_that_diverges_first_is_shown(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    changes: list[dict[tuple[int, str], torch.Tensor]] = [
        {},
        {(1, "output"): ACTIVATION * 3},
        {(0, "parameter"): WEIGHT * 2},
    ]
    ranks = [replace(migrated(change), rank=rank, world=3) for rank, change in enumerate(changes)]
    comparison = earliest(tuple(compare(ORIGINAL, rank, EXACT) for rank in ranks))
    show_verdict(comparison, tmp_path)
    assert capsys.readouterr().out.startswith(
        "Diverged at step 1 of rank 2 in Net.layer: optimizer computed otherwise."
    )
    assert earliest((compare(ORIGINAL, ranks[0], EXACT),) * 2).migrated.rank == 0


@pytest.mark.parametrize(
    ("taken", "included", "words"),
    [
        (("conv",), ("conv",), "The NPU takes HF32 for conv: the tolerance includes it."),
        (("matmul",), (), "The NPU takes HF32 for matmul, which the tolerance does not include"),
        ((), ("conv",), "The tolerance includes HF32 for conv, which the NPU does not take"),
    ],
)
def test_a_verdict_says_which_hf32_the_tolerance_is_for(
    taken: tuple[str, ...], included: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    copy = replace(ORIGINAL, reduced=taken)
    show_verdict(compare(ORIGINAL, copy, Tolerance({}, included)), tmp_path)
    assert capsys.readouterr().out.splitlines()[-1].startswith(words)


def test_one_gradient_that_is_a_multiple_is_not_all_of_them() -> None:
    other = event("parameter gradient", "Net.other.weight", WEIGHT)
    there = recording(*program(), other)
    here = recording(
        *program()[:3], event("parameter gradient", "Net.layer.weight", GRADIENT * 2), *program()[4:], other
    )
    explanation = explain(compare(there, here, EXACT))
    assert explanation is not None and (explanation.cause, explanation.module) == (
        FaultKind.GRADIENT,
        "Net.layer",
    )
    doubled = event("parameter gradient", "Net.other.weight", WEIGHT * 2)
    explanation = explain(compare(there, replace(here, events=(*here.events[:-1], doubled)), EXACT))
    assert explanation is not None and (explanation.cause, explanation.module) == (FaultKind.FACTOR, None)


def explained(original: list[RecordedEvent], migrated: list[RecordedEvent]) -> tuple[FaultKind, str | None]:
    explanation = explain(compare(recording(*original), recording(*migrated), EXACT))
    assert explanation is not None
    return explanation.cause, explanation.module


def test_what_is_computed_between_two_modules_is_the_code_of_the_enclosing_module() -> None:
    def calls(given: torch.Tensor) -> list[RecordedEvent]:
        return [
            event("input", "Net", BATCH),
            event("output", "Net.blocks.0.first", ACTIVATION),
            event("input", "Net.blocks.0.second", given),
            event("output", "Net.blocks.0", ACTIVATION),
        ]

    assert explained(calls(ACTIVATION), calls(ACTIVATION * 2)) == (FaultKind.OPERATOR, "Net.blocks.0")
    assert explained(calls(ACTIVATION), calls(ACTIVATION.half())) == (FaultKind.PRECISION, "Net.blocks.0")


def test_a_gradient_is_made_by_what_follows() -> None:
    def calls(gradient: torch.Tensor, of: str) -> list[RecordedEvent]:
        returned = [event("output", name, ACTIVATION) for name in ("Net.first", "Net.last", "Net")]
        inputs = [event("input", "Net", BATCH), event("input", "Net.last", ACTIVATION)]
        return [inputs[0], returned[0], inputs[1], *returned[1:], event("gradient", of, gradient)]

    assert explained(calls(GRADIENT, "Net.first"), calls(GRADIENT * 2, "Net.first")) == (
        FaultKind.GRADIENT,
        "Net.last",
    )
    apart = [
        replace(each, tensor=tensor(values(5, 8, 4))) if each.kind == "input" else each
        for each in calls(GRADIENT, "Net.first")
    ]
    wrong = [replace(each, tensor=tensor(GRADIENT * 2)) if each.kind == "gradient" else each for each in apart]
    assert explained(apart, wrong) == (
        FaultKind.GRADIENT,
        None,
    )  # Net returns the very tensor, and the loss is made of it
    inner = [replace(each, tensor=tensor(values(6, 8, 4))) if each.name == "Net" else each for each in apart]
    wrong = [replace(each, tensor=tensor(GRADIENT * 2)) if each.kind == "gradient" else each for each in inner]
    assert explained(inner, wrong) == (FaultKind.GRADIENT, "Net")


def test_a_parameter_that_goes_where_its_gradient_goes_is_not_the_optimizers_fault() -> None:
    tolerance = Tolerance({each.key: 0.02 for each in ORIGINAL.events if each.kind == "parameter gradient"})
    off = GRADIENT * 1.1
    follows = migrated({(0, "parameter gradient"): off, (0, "parameter"): WEIGHT - 0.1 * (off - GRADIENT)})
    explanation = explain(compare(ORIGINAL, follows, tolerance))
    assert explanation is not None and explanation.cause is FaultKind.GRADIENT
    apart = migrated({(0, "parameter gradient"): off, (0, "parameter"): WEIGHT + values(7, 4, 3)})
    explanation = explain(compare(ORIGINAL, apart, tolerance))
    assert explanation is not None and explanation.cause is FaultKind.OPTIMIZER


def test_a_draw_is_of_the_module_that_draws() -> None:
    batch = event("input", "Net", BATCH)
    draw = RecordedEvent(0, "draw", "chance(8, 4) from seed 1", within="Net.dropout")
    assert explained([batch, draw], [batch]) == (FaultKind.DRAW, "Net.dropout")


def test_a_constant_is_no_batch_of_another_step() -> None:
    def calls(target: torch.Tensor) -> list[RecordedEvent]:
        return [event("input", "BCELoss", target), event("input", "BCELoss", torch.ones(8), step=1)]

    assert explained(calls(torch.zeros(8)), calls(torch.ones(8))) == (FaultKind.DATA, "BCELoss")


@pytest.mark.parametrize(
    ("kind", "step", "expected"),
    [
        ("initial weight", 0, (FaultKind.WEIGHTS, "Net.layer")),
        ("initial weight", 1, (FaultKind.STATE, "Net.layer")),
        ("weight", 1, (FaultKind.STATE, "Net.layer")),
    ],
)
def test_weights_that_no_optimizer_trains(kind: str, step: int, expected: tuple[FaultKind, str]) -> None:
    one, other = (event(kind, "Net.layer.weight", WEIGHT * factor, step) for factor in (1, 2))
    assert explained([one], [other]) == expected


def test_gradients_that_only_one_program_keeps() -> None:
    zeroed, retained = (RecordedEvent(1, "kept gradients", "SGD#0", value=value) for value in (0.0, 1.0))
    assert explained([zeroed], [retained]) == (FaultKind.RETAINED, None)


def test_gradients_near_the_loss_are_not_forgiven_what_rounding_does_far_from_it() -> None:
    names = [f"Net.layers.{number}" for number in range(9)]
    reference = recording(*(event("gradient", name, GRADIENT) for name in names))
    off = [1e-6] * 4 + [1e-2] * 5
    rounded = recording(
        *(event("gradient", name, GRADIENT * (1 + share)) for name, share in zip(names, off, strict=True))
    )
    tolerance = measured(reference, [rounded])
    allowed = [tolerance.of(each) for each in reference.events]
    assert max(allowed[:2]) < 1e-4 and min(allowed[2:]) > 1e-2


def test_a_checkpoint_has_keys_shapes_and_values() -> None:
    saved = event("checkpoint", "model.layer.weight", WEIGHT)
    momentum = event("checkpoint", "optimizer.state.0.momentum_buffer", GRADIENT)
    assert not compare(recording(saved, momentum), recording(saved, momentum), EXACT).differences
    assert explained([saved, momentum], [saved]) == (FaultKind.CHECKPOINT, None)
    for other in (WEIGHT.half(), WEIGHT[:2], WEIGHT + 1):
        assert explained([saved], [event("checkpoint", "model.layer.weight", other)]) == (
            FaultKind.CHECKPOINT,
            None,
        )


def test_another_release_of_pytorch_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    for release, named in (("2.12.1", True), ("2.13.0+cpu", False)):
        show_verdict(compare(replace(ORIGINAL, torch=release), ORIGINAL, EXACT), Path())
        assert ("The original ran with PyTorch 2.12.1, and" in capsys.readouterr().out) == named


def test_a_program_that_calls_compile_is_reported_to_run_without(capsys: pytest.CaptureFixture[str]) -> None:
    for original in (ORIGINAL, replace(ORIGINAL, compiles=True)):
        show_verdict(compare(original, ORIGINAL, EXACT), Path())
        assert ("torch.compile is refused here" in capsys.readouterr().out) == original.compiles
