"""The dump of one step that mindstudio-probe reads: names, the tree of modules, statistics and tensors."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from gpu2npu.verify.recording.dump import TENSORS, Dump, frames_of


@pytest.fixture(scope="module")
def dumped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, nn.Module]:
    """The dump of a forward and a backward pass of two layers, the second of which is called twice."""
    folder = tmp_path_factory.mktemp("dump")
    outer, first, second = nn.Identity(), nn.Linear(4, 3), nn.ReLU(inplace=True)
    dump = Dump(folder / "step1", lambda tensor: tensor.detach())

    def called(name: str, module: nn.Module, given: torch.Tensor) -> torch.Tensor:
        dump.enter(
            name, module, [given], {"mask": given} if name == "Net.first" else {}, ["File train.py, line 3, \n net(x)"]
        )
        returned: torch.Tensor = module(given)
        dump.leave([returned])
        return returned

    given = torch.ones(2, 4)
    dump.enter("Net", outer, [given], {}, [])
    returned = called("Net.relu", second, called("Net.relu", second, called("Net.first", first, given)) * 2)
    dump.leave([returned])
    returned.sum().backward()
    assert first.weight.grad is not None
    dump.parameter_gradient("Net.first.weight", first.weight.grad)
    dump.parameter_gradient("SGD#0.0.3", first.weight.grad)  # of no module that was called
    dump.write()
    return folder / "step1" / "rank0", first


def content(dumped: tuple[Path, nn.Module], name: str) -> dict[str, object]:
    loaded: dict[str, object] = json.loads((dumped[0] / name).read_text())
    return loaded


def test_every_call_is_in_the_tree_below_the_module_that_calls_it(dumped: tuple[Path, nn.Module]) -> None:
    tree = content(dumped, "construct.json")
    forward = "Module.Net.Identity.forward.0"
    backward = "Module.Net.Identity.backward.0"
    assert tree == {
        forward: None,
        "Module.Net.first.Linear.forward.0": forward,
        "Module.Net.relu.ReLU.forward.0": forward,
        "Module.Net.relu.ReLU.forward.1": forward,
        "Module.Net.relu.ReLU.backward.1": backward,
        backward: None,
        "Module.Net.relu.ReLU.backward.0": backward,
        "Module.Net.first.Linear.backward.0": backward,
    }


def test_statistics_are_of_the_tensor_in_the_file(dumped: tuple[Path, nn.Module]) -> None:
    dump = content(dumped, "dump.json")
    assert (dump["task"], dump["framework"], dump["level"]) == ("tensor", "pytorch", "L0")
    data = dump["data"]
    assert isinstance(data, dict)
    linear = data["Module.Net.first.Linear.forward.0"]
    assert set(linear) == {"input_args", "input_kwargs", "output", "parameters"}
    (output,) = linear["output"]
    values = torch.load(dumped[0] / TENSORS / output["data_name"], weights_only=True)
    assert (output["shape"], output["dtype"], output["requires_grad"]) == ([2, 3], "torch.float32", True)
    numbers = [output[name] for name in ("Max", "Min", "Mean", "Norm")]
    assert numbers == pytest.approx(
        [float(each) for each in (values.max(), values.min(), values.mean(), values.norm())]
    )
    assert set(linear["parameters"]) == {"weight", "bias"}
    assert data["Module.Net.first.Linear.parameters_grad.0"]["weight"][0]["shape"] == [3, 4]
    assert data["Module.Net.relu.ReLU.backward.1"]["input"][0]["Mean"] == 1.0
    assert not any("SGD" in name for name in data)


def test_every_tensor_that_is_named_is_there(dumped: tuple[Path, nn.Module]) -> None:
    named = {line.split('"')[3] for line in (dumped[0] / "dump.json").read_text().splitlines() if "data_name" in line}
    assert named == {file.name for file in (dumped[0] / TENSORS).iterdir()}


def test_calls_from_one_place_share_a_stack(dumped: tuple[Path, nn.Module]) -> None:
    stacks = content(dumped, "stack.json")
    assert [len(calls) for calls, _ in stacks.values()] == [1, 3]  # type: ignore[misc]


def test_frames_show_the_line(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("x = 1\ny = 2\n")
    assert frames_of(tmp_path, [("train.py", 2)]) == ["File train.py, line 2, \n y = 2"]
