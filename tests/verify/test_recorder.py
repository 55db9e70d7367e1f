"""The recording of a program: what modules are given by keyword, and what is saved."""

import os
import subprocess
import sys

import pytest

from gpu2npu.verify.programs import SITE
from gpu2npu.verify.recording.environment import RecordingSettings
from gpu2npu.verify.recording.records import Recording, read_recordings

PROGRAM = """
import copy
import torch
from torch import nn

class Scaled(nn.Module):
    def forward(self, x, *, by, label="none"):
        return x * by["factor"]


class Halves(nn.Module):
    def forward(self, x):
        return x.split(2, 1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.scaled, self.halves = nn.Linear(3, 2), Scaled(), Halves()

    def forward(self, x):
        first, second = self.halves(self.linear(x).repeat(1, 2))  # nothing flows back to the second
        return self.scaled(first, by={"factor": torch.full((2,), 3.0)}, label="mean")


net = Net()
net.linear = copy.deepcopy(net.linear)
average, spare = copy.deepcopy(net), copy.deepcopy(nn.Linear(1, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
torch.save(net, "untrained.pt")
for step in range(2):
    optimizer.zero_grad()
    net(torch.ones(4, 3)).sum().backward()
    optimizer.step()
    for own, new in zip(average.parameters(), net.parameters()):
        own.data.lerp_(new.data, 0.1)
    for name in ("last.pt", f"{step}.pt"):
        torch.save({"model": net.state_dict(), "states": [optimizer.state_dict(), torch.get_rng_state()]}, name)
assert torch.load("0.pt")["model"].keys() == {"linear.weight", "linear.bias"}
"""


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """The recording of a program that starts as users start it, where Python itself begins the recording."""
    folder = tmp_path_factory.mktemp("recorder")
    script = folder / "train.py"
    script.write_text(PROGRAM)
    path = {"PYTHONPATH": os.pathsep.join((str(SITE), os.environ.get("PYTHONPATH", "")))}
    environment = os.environ | path | RecordingSettings(folder / "recording", folder, steps=5).variables()
    done = subprocess.run([sys.executable, script], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (found,) = read_recordings(folder / "recording")
    return found


def test_what_a_module_is_given_by_keyword_follows_what_it_is_given_by_position(recording: Recording) -> None:
    given = [each for each in recording.events if (each.kind, each.name, each.step) == ("input", "Net.scaled", 1)]
    assert [(each.part, each.tensor and each.tensor.shape) for each in given] == [(0, (4, 2)), (1, (2,))]
    assert given[1].tensor is not None and given[1].tensor.first == (3.0, 3.0)
    assert [each.part for each in recording.events if each.kind == "input" and each.name == "Net.linear"] == [0, 0]


def test_a_checkpoint_is_part_of_the_step_before_it(recording: Recording) -> None:
    saved = [each for each in recording.events if each.kind == "checkpoint"]
    places = [(each.step, each.call) for each in saved if each.name.endswith("linear.weight")]
    assert places == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]  # before the first step, and two after each
    names = {each.name for each in saved if each.step == 1}
    momentum = {f"states.0.state.{number}.momentum_buffer" for number in range(2)}
    assert names == {"model.linear.weight", "model.linear.bias", *momentum}
    assert len({each.key for each in saved}) == len(saved)


def test_an_output_to_which_nothing_flows_back_has_no_gradient(recording: Recording) -> None:
    parts = [each.part for each in recording.events if (each.kind, each.name) == ("gradient", "Net.halves")]
    assert parts == [0, 0]


def test_a_copy_that_nobody_calls_is_recorded_where_it_changed(recording: Recording) -> None:
    changed = [(each.step, each.name) for each in recording.events if each.kind == "weight"]
    assert changed == [(1, "Net#1.linear.weight"), (1, "Net#1.linear.bias")]
    names = {each.name.rpartition(".")[0] for each in recording.events if each.kind == "initial weight"}
    assert names == {"Net.linear", "Net#1.linear", "Linear"}  # and no copy for what is part of a model
