"""Whole tensors around the first divergence: which are written in the second run, and where in them programs differ."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from gpu2npu.verify.comparing.compare import Comparison, Difference, compare
from gpu2npu.verify.comparing.tolerance import Tolerance
from gpu2npu.verify.comparing.whole import differing, events_near, listed, whole_of
from gpu2npu.verify.recording.clock import Cost
from gpu2npu.verify.recording.environment import RecordingSettings
from gpu2npu.verify.recording.format import WHOLE
from gpu2npu.verify.recording.records import RecordedEvent, Recording, Tensor
from gpu2npu.verify.recording.sites import Sites
from gpu2npu.verify.recording.sketch import summary
from gpu2npu.verify.recording.whole import WholeTensors
from gpu2npu.verify.recording.writer import Writer


def event(name: str, tensor: torch.Tensor) -> RecordedEvent:
    made = summary(tensor)
    sketch = made.sketch.astype(np.float64)
    return RecordedEvent(
        0,
        "output",
        name,
        tensor=Tensor(made.shape, made.dtype, made.norm, made.mean, made.largest, made.unfinite, made.first, sketch),
    )


def write(folder: Path, places: Path, tensors: dict[str, torch.Tensor]) -> None:
    """A process that makes one step, whose modules return tensors."""
    settings = RecordingSettings(folder, folder, 1, whole=places)
    writer, whole = Writer(settings), WholeTensors(settings)
    for name, tensor in tensors.items():
        writer.tensor(0, "output", name, 0, 0, tensor, writer.row(tensor), 0, Sites(folder))
        whole.tensor((0, "output", name, 0, 0), tensor)
    writer.step(0, "SGD#0", Cost(0.1, 0.1, 0))
    writer.finish()


def test_the_element_that_differs_most_is_found(tmp_path: Path) -> None:
    names = [f"Net.{number}" for number in range(30)]
    tensors = {name: torch.full((2, 3), float(number + 1)) for number, name in enumerate(names)}
    wrong = torch.full((2, 3), 21.0)
    wrong[1, 2], wrong[0, 0] = 25.0, 20.5
    copied = {**tensors, "Net.20": wrong}
    sides = [
        Recording("2.13.0", tuple(event(name, each) for name, each in side.items()), (1.0,))
        for side in (tensors, copied)
    ]
    comparison = compare(*sides, Tolerance({}))
    events = events_near(comparison)
    assert [each.name for each in events] == names[12:29]
    places = tmp_path / "whole.json"
    places.write_text(json.dumps(listed(events, None)))
    for side, named in (("original", tensors), ("migrated", copied)):
        write(tmp_path / side, places, named)
    (element,) = differing(events, whole_of(tmp_path / "original", 0), whole_of(tmp_path / "migrated", 0))
    assert (element.event.name, element.place, element.original, element.migrated) == ("Net.20", (1, 2), 21.0, 25.0)
    assert (element.similar, element.size) == (2, 6)
    assert element.sentence == "21 became 25 at [1, 2], 2 of 6 elements differ by a tenth of that or more"
    written = sorted((tmp_path / "migrated").glob(f"process-*/{WHOLE}/*.npy"))
    assert len(written) == 17


def test_programs_that_do_not_diverge_have_no_such_places() -> None:
    same = Recording("2.13.0", (event("Net", torch.ones(2)),), (1.0,))
    assert events_near(compare(same, same, Tolerance({}))) == ()


def test_a_copy_on_a_card_is_found_by_its_name_too() -> None:
    places = listed((event("Net.conv", torch.ones(2)), event("loss", torch.ones(1))), 1)
    assert [(number, place[2]) for number, place in places] == [
        (0, "Net.conv"),
        (1, "loss"),
        (0, "Net@1.conv"),
        (1, "loss@1"),
    ]


def test_tensors_keep_their_values(tmp_path: Path) -> None:
    places = tmp_path / "whole.json"
    tensors = {
        "half": torch.tensor([[1.5, -2.0]], dtype=torch.bfloat16),
        "double": torch.tensor([0.1], dtype=torch.float64),
        "long": torch.tensor([2**53 + 1]),
    }
    places.write_text(json.dumps(listed(tuple(event(name, each) for name, each in tensors.items()), None)))
    write(tmp_path, places, tensors)
    folder = tmp_path / f"process-{os.getpid()}" / WHOLE
    half, double, whole = (np.load(folder / f"{number}.npy") for number in range(3))
    assert (half.dtype, half.tolist()) == (np.float32, [[1.5, -2.0]])
    assert double.tolist() == [0.1] and whole.tolist() == [2**53 + 1]


def test_what_only_one_program_does_has_its_neighbours() -> None:
    alone = event("Net.extra", torch.ones(2))
    common = event("Net", torch.ones(2))
    original = Recording("2.13.0", (common,), (1.0,))
    migrated = replace(original, events=(common, alone))
    comparison = Comparison(original, migrated, (), (Difference(None, alone, "only the migrated program has it"),))
    assert [each.name for each in events_near(comparison)] == ["Net", "Net.extra"]
