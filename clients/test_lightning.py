"""Lightning: an accelerator registered by a third party, as its users on Ascend have it, and transfer_to_npu."""

import json
import os
import subprocess
from pathlib import Path

import pytest

TRAINING = Path(__file__).parent / "lightning_training.py"


def trained(gpu2npu, tmp_path, way, npus=1, **variables):
    output = tmp_path / f"{way}{npus}.json"
    command = [gpu2npu, "run", "--npus", str(npus), TRAINING, way, str(npus), output]
    environment = {name: value for name, value in os.environ.items() if name != "TORCH_NPU_DEVICE_CAPABILITY"}
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**environment, **variables},
        cwd=tmp_path,
    )
    return done, json.loads(output.read_text()) if output.exists() else None


@pytest.fixture
def on_the_cpu(gpu2npu, tmp_path):
    done, found = trained(gpu2npu, tmp_path, "cpu")
    assert done.returncode == 0, done.stderr
    assert found["device"] == "cpu"
    return found["losses"]


def test_a_registered_accelerator(gpu2npu, tmp_path, on_the_cpu):
    done, found = trained(gpu2npu, tmp_path, "registered")
    assert done.returncode == 0, done.stderr
    assert (found["device"], found["accelerator"]) == ("npu:0", "NPUAccelerator")
    assert found["losses"] == pytest.approx(on_the_cpu, rel=1e-4)


def test_a_registered_accelerator_on_two_npus(gpu2npu, tmp_path):
    done, found = trained(gpu2npu, tmp_path, "registered", npus=2)
    assert done.returncode == 0, done.stderr
    assert (found["device"], found["world"], found["backend"]) == ("npu:0", 2, "hccl")
    assert found["losses"][-1] < found["losses"][0]


def test_transfer_to_npu_needs_a_capability(gpu2npu, tmp_path, on_the_cpu):
    """Without TORCH_NPU_DEVICE_CAPABILITY torch_npu answers None for the capability, which Lightning takes apart."""
    done, _ = trained(gpu2npu, tmp_path, "transferred")
    assert done.returncode
    assert "cannot unpack non-iterable NoneType object" in done.stderr
    done, found = trained(gpu2npu, tmp_path, "transferred", TORCH_NPU_DEVICE_CAPABILITY="9.0")
    assert done.returncode == 0, done.stderr
    assert found["accelerator"] == "CUDAAccelerator"
    assert found["losses"] == pytest.approx(on_the_cpu, rel=1e-4)
