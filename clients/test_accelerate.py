"""accelerate: its own path for NPUs, taken by itself, on one emulated NPU and on two."""

import copy
import json
import subprocess
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState, PartialState
from accelerate.utils import DistributedType, GradScalerKwargs, is_npu_available
from torch.testing import assert_close

TRAINING = Path(__file__).parent / "training.py"


@pytest.fixture(autouse=True)
def fresh_state():
    reset()  # tests of other libraries make an Accelerator too
    yield
    reset()


def reset():
    """Accelerator keeps its device and precision for the process."""
    for state in (AcceleratorState, GradientState, PartialState):
        state._reset_state()


def make_training():
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    samples = torch.utils.data.TensorDataset(torch.randn(32, 6), torch.randn(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return model, optimizer, torch.utils.data.DataLoader(samples, batch_size=4)


def train(accelerator, model, optimizer, loader):
    losses = []
    for values, targets in loader:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.mse_loss(model(values), targets)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def test_accelerate_selects_the_npu_by_itself():
    assert is_npu_available(check_device=True)
    accelerator = Accelerator()
    assert accelerator.device.type == "npu"
    assert accelerator.distributed_type is DistributedType.NO
    model, _, loader = accelerator.prepare(*make_training())
    assert {p.device.type for p in model.parameters()} == {"npu"}
    assert {values.device.type for values, _ in loader} == {"npu"}


@pytest.mark.parametrize("steps", [1, 4])
def test_training_with_gradient_accumulation_equals_the_cpu(steps):
    results = []
    for cpu in (True, False):
        accelerator = Accelerator(cpu=cpu, gradient_accumulation_steps=steps)
        model, optimizer, loader = accelerator.prepare(*make_training())
        losses = train(accelerator, model, optimizer, loader)
        results.append((losses, {name: p.detach().cpu() for name, p in model.named_parameters()}))
        reset()
    assert_close(results[1], results[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_mixed_precision(precision):
    exact = Accelerator(cpu=True)
    expected = train(exact, *exact.prepare(*make_training()))
    reset()
    scale = GradScalerKwargs(init_scale=256)  # the default overflows half, and the first steps are left out
    accelerator = Accelerator(mixed_precision=precision, kwargs_handlers=[scale])
    assert accelerator.device.type == "npu"
    assert (accelerator.scaler is not None) == (precision == "fp16")
    dtypes = set()
    model, optimizer, loader = make_training()
    model[0].register_forward_hook(lambda module, inputs, output: dtypes.add(output.dtype))
    losses = train(accelerator, *accelerator.prepare(model, optimizer, loader))
    assert dtypes == {torch.float16 if precision == "fp16" else torch.bfloat16}
    assert losses == pytest.approx(expected, rel=0.05)


def test_state_is_saved_and_loaded(tmp_path):
    accelerator = Accelerator()
    model, optimizer, loader = accelerator.prepare(*make_training())
    train(accelerator, model, optimizer, loader)
    accelerator.save_state(tmp_path)
    saved = copy.deepcopy(model.state_dict())
    expected = train(accelerator, model, optimizer, loader)
    accelerator.load_state(tmp_path)
    assert_close(model.state_dict(), saved)
    assert train(accelerator, model, optimizer, loader) == expected


def trained(output, *command):
    result = subprocess.run([*command, output], capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr
    return json.loads(output.read_text())


def test_launch_on_two_npus_equals_one(gpu2npu, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path))  # where the user's own settings of accelerate are
    emulated = (gpu2npu, "run", "--npus", "2")
    launcher = ("-m", "accelerate.commands.launch", "--num_processes", "2", "--main_process_port", "0")
    one = trained(tmp_path / "one.json", *emulated, TRAINING)
    two = trained(tmp_path / "two.json", *emulated, *launcher, TRAINING)
    assert (one["processes"], one["type"], one["device"]) == (1, "NO", "npu")
    assert (two["processes"], two["type"], two["backend"], two["device"]) == (2, "MULTI_NPU", "hccl", "npu:0")
    assert two["losses"] == pytest.approx(one["losses"], rel=1e-5)
