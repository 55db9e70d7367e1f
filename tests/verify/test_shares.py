"""One process of the original against two ranks, by recordings made by hand."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from gpu2npu.emulator.launch import LaunchError
from gpu2npu.verify.commands import cards_of, commands
from gpu2npu.verify.comparing.causes import explain
from gpu2npu.verify.comparing.compare import Difference
from gpu2npu.verify.comparing.diagnosis import FaultKind
from gpu2npu.verify.comparing.ranks import compare_ranks, earliest
from gpu2npu.verify.comparing.tolerance import Tolerance
from gpu2npu.verify.recording.records import RecordedEvent, Recording, RecordingError, Tensor
from gpu2npu.verify.recording.sketch import summary

BATCH = torch.from_numpy(np.random.default_rng(0).standard_normal((8, 3), np.float32))
OUTPUT, SLOPE, WEIGHT = BATCH * 2, BATCH / 8, BATCH[:2] * 3


def tensor(values: torch.Tensor) -> Tensor:
    made = summary(values)
    sketch = made.sketch.astype(np.float64)
    return Tensor(made.shape, made.dtype, made.norm, made.mean, made.largest, made.unfinite, made.first, sketch)


def event(kind: str, name: str, of: torch.Tensor, step: int = 0, call: int = 0) -> RecordedEvent:
    return RecordedEvent(step, kind, name, call, tensor=tensor(of))


def recording(*events: RecordedEvent, rank: int = 0, world: int = 1) -> Recording:
    return Recording("2.13.0", events, (1.0,), rank=rank, world=world)


def original() -> Recording:
    """A model on two cards, which deals its batch out, and a loss module that has the whole batch."""
    cards = [
        each
        for card in range(2)
        for each in (
            event("input", f"Net@{card}", BATCH[card::2]),
            event("output", f"Net@{card}.layer", OUTPUT[card::2]),
            event("gradient", f"Net@{card}.layer", SLOPE[card::2]),
            event("buffer", f"Net@{card}.mean", WEIGHT, call=1),
        )
    ]
    whole = (
        event("input", "Loss", OUTPUT),
        event("loss", "loss", torch.tensor(2.0)),
        event("parameter gradient", "Net.layer.weight", WEIGHT),
        event("buffer", "Net.mean", WEIGHT),
        event("checkpoint", "module.layer.weight", WEIGHT),
    )
    return recording(*cards, *whole)


def rank(number: int) -> Recording:
    """A rank that does its share of it; the mean of its loss is over the share."""
    return recording(
        event("input", "Net", BATCH[number::2]),
        event("output", "Net.layer", OUTPUT[number::2]),
        event("gradient", "Net.layer", SLOPE[number::2] * 2),
        event("buffer", "Net.mean", WEIGHT, call=1),
        event("input", "Loss", OUTPUT[number::2]),
        event("loss", "loss", torch.tensor(1.5 + number)),
        event("collective", "all_reduce", WEIGHT),
        event("parameter gradient", "Net.layer.weight", WEIGHT),
        event("buffer", "Net.mean", WEIGHT + number),
        event("checkpoint", "optimizer.state" if number else "module.layer.weight", WEIGHT),  # of rank 1, its own
        rank=number,
        world=2,
    )


def changed(of: Recording, kind: str, values: torch.Tensor, call: int = 0) -> Recording:
    found = [each for each in of.events if (each.kind, each.call) == (kind, call)]
    assert found
    return replace(
        of, events=tuple(replace(each, tensor=tensor(values)) if each is found[0] else each for each in of.events)
    )


def verdict(*ranks: Recording) -> tuple[int, FaultKind] | None:
    """The rank that diverges first, and why."""
    comparison = earliest(compare_ranks([(original(), Tolerance({}))], ranks))
    explanation = explain(comparison)
    return None if explanation is None else (comparison.migrated.rank, explanation.cause)


def test_ranks_that_share_a_batch_do_what_one_process_does() -> None:
    comparisons = compare_ranks([(original(), Tolerance({}))], [rank(0), rank(1)])
    assert [comparison.differences for comparison in comparisons] == [(), ()]
    assert [len(comparison.measured) for comparison in comparisons] == [
        9,
        7,
    ]  # the buffers kept and the checkpoint are of rank 0
    assert [comparison.migrated.losses for comparison in comparisons] == [{0: 2.0}, {0: 2.0}]


@pytest.mark.parametrize(
    ("kind", "call", "values", "expected"),
    [
        ("input", 0, BATCH[0::2], FaultKind.SHARE),
        ("input", 0, BATCH[1::2] + 1, FaultKind.DATA),
        ("input", 0, BATCH * 2, FaultKind.SHAPE),
        ("output", 0, OUTPUT[1::2] * 2, FaultKind.OPERATOR),
        ("gradient", 0, SLOPE[1::2], FaultKind.GRADIENT),
        ("buffer", 1, WEIGHT * 2, FaultKind.NOT_BROADCAST),
        ("loss", 0, torch.tensor(3.7), FaultKind.LOCAL_MEAN),
        ("loss", 0, torch.tensor(6.5), FaultKind.LOSS_FACTOR),
    ],
)
def test_what_one_rank_does_otherwise_has_a_cause(
    kind: str, call: int, values: torch.Tensor, expected: FaultKind
) -> None:
    found = verdict(rank(0), changed(rank(1), kind, values, call))
    assert found == (0 if kind == "loss" else 1, expected)  # the mean of losses is that of all ranks


def test_the_checkpoint_is_the_one_that_the_first_rank_writes() -> None:
    assert verdict(changed(rank(0), "checkpoint", WEIGHT * 2), rank(1)) == (0, FaultKind.CHECKPOINT)
    silent = replace(rank(0), events=tuple(each for each in rank(0).events if each.kind != "checkpoint"))
    assert verdict(silent, rank(1)) == (0, FaultKind.CHECKPOINT)


def given_boxes(samples: Sequence[int], fields: int) -> tuple[RecordedEvent, ...]:
    """A loss that is given a model's output, for each sample a list of `fields` tensors of any length, and weights."""
    lists = [BATCH[: 1 + sample % 3, :number] + sample for sample in samples for number in range(1, fields + 1)]
    parts = (OUTPUT[list(samples)], *lists, WEIGHT)
    return tuple(replace(event("input", "Boxes", each), part=part) for part, each in enumerate(parts))


@pytest.mark.parametrize("fields", [1, 2])
def test_lists_with_tensors_of_each_sample_are_dealt_out(fields: int) -> None:
    def differences(second: Sequence[int]) -> list[Difference]:
        reference = [(recording(*given_boxes(range(8), fields)), Tolerance({}))]
        ranks = [
            recording(*given_boxes(samples, fields), rank=rank) for rank, samples in enumerate(([0, 2, 4, 6], second))
        ]
        return [each for comparison in compare_ranks(reference, ranks) for each in comparison.differences]

    assert not differences([1, 3, 5, 7])
    assert {each.event.kind for each in differences([1, 3, 7, 5])} == {"input"}


def test_one_rank_that_shares_shuffles_in_its_own_way() -> None:
    draw = RecordedEvent(0, "draw", "permutation(8,) from seed 1", 1)
    there, here = recording(event("input", "Net", BATCH), draw), recording(event("input", "Net", BATCH))
    (apart,), (alike,) = (compare_ranks([(there, Tolerance({}))], [here], shared) for shared in (False, True))
    assert [each.event for each in apart.differences] == [draw] and not alike.differences


def test_a_model_on_two_cards_is_compared_with_one_on_one_card() -> None:
    whole = recording(
        *(event(kind, name, of) for kind, name, of in (("input", "Net", BATCH), ("output", "Net.layer", OUTPUT))),
        event("gradient", "Net.layer", SLOPE),
        *(each for each in original().events if "@" not in each.name),
    )
    (comparison,) = compare_ranks([(original(), Tolerance({}))], [whole])
    assert not comparison.differences and len(comparison.measured) == 8
    (comparison,) = compare_ranks([(original(), Tolerance({}))], [changed(whole, "output", OUTPUT * 2)])
    assert [each.event.name for each in comparison.differences] == ["Net.layer"]


def test_gradients_that_are_not_averaged_are_distinguished_from_others() -> None:
    own = torch.ones(2, 3)
    apart = [changed(rank(number), "parameter gradient", WEIGHT + own * (1 - 2 * number)) for number in range(2)]
    assert verdict(*apart) == (0, FaultKind.NOT_AVERAGED)
    summed = [changed(rank(number), "parameter gradient", WEIGHT * 2) for number in range(2)]
    assert verdict(*summed) == (0, FaultKind.GRADIENT)


def test_two_ranks_on_one_card_are_a_wrong_index() -> None:
    def on_card(of: Recording, name: str, card: float) -> Recording:
        return replace(of, events=(RecordedEvent(0, "device", name, value=card), *of.events))

    there = on_card(on_card(original(), "Net@0", 0.0), "Net@1", 1.0)
    pair = [(there, Tolerance({}))]
    wrong = earliest(compare_ranks(pair, [on_card(rank(0), "Net", 0.0), on_card(rank(1), "Net", 0.0)]))
    explanation = explain(wrong)
    assert explanation is not None and explanation.cause is FaultKind.DEVICE and wrong.migrated.rank == 1
    apart = compare_ranks(pair, [on_card(rank(0), "Net", 4.0), on_card(rank(1), "Net", 5.0)])
    assert not any(comparison.differences for comparison in apart)  # each sees its own part of the machine


def test_other_numbers_of_ranks_are_refused() -> None:
    with pytest.raises(RecordingError, match="2 ranks and the migrated program on 1"):
        compare_ranks([(rank(0), Tolerance({})), (rank(1), Tolerance({}))], [rank(0)])


HEADING = "File,Start Line,End Line,Operation Type,Message,Rule,Before,After\n"
LAUNCHED = ("bash", "run_distributed_npu.sh", "python", "train.py")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy that the migration gave a process group."""
    row = "train.py,9,9,INSERT,A group.,data-parallel,,dist.init_process_group('hccl')\n"
    (tmp_path / "change_list.csv").write_text(HEADING + row)
    (tmp_path / "run_distributed_npu.sh").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("typed", "cards", "first", "second", "shared"),
    [
        (("train.py",), 2, ("train.py",), LAUNCHED, True),
        (("-m", "net.train"), 2, ("-m", "net.train"), (*LAUNCHED[:3], "-m", "net.train"), True),
        (("train.py",), 1, ("train.py",), ("train.py",), True),
        (LAUNCHED, 2, ("python", "train.py"), LAUNCHED, True),
        (("torchrun", "train.py"), 2, ("torchrun", "train.py"), ("torchrun", "train.py"), False),
    ],
)
def test_a_copy_that_became_several_processes_is_launched(
    typed: tuple[str, ...], cards: int, first: tuple[str, ...], second: tuple[str, ...], shared: bool, copy: Path
) -> None:
    found = commands(typed, copy, cards)
    assert (found.original, found.migrated, found.shared) == (first, second, shared)


def test_an_original_of_several_processes_is_started_by_torchrun(copy: Path) -> None:
    (copy / "change_list.csv").write_text(HEADING)
    found = commands(LAUNCHED, copy, 2)
    assert found.original == ("-m", "torch.distributed.run", "--nproc_per_node", "2", "train.py")
    assert (found.migrated, found.shared) == (LAUNCHED, False)
    with pytest.raises(LaunchError, match="say what it starts"):
        commands(LAUNCHED[:2], copy, 2)


def test_torchrun_says_how_many_cards_there_are() -> None:
    assert cards_of(("torchrun", "--nproc_per_node", "4", "train.py")) == 4
    assert cards_of(("torchrun", "--nproc-per-node=2", "train.py")) == 2
    assert cards_of(("torchrun", "--nproc_per_node", "gpu", "train.py")) == cards_of(("train.py",)) == 1
