"""Chips of the first generation, in a process of its own: a process has one kind of chip."""

import json
import os
import subprocess
import sys
from functools import partial

import pytest
import torch

from gpu2npu.emulator.launch import emulating


@pytest.fixture
def on_chip(training_python, tmp_path):
    """`on_chip("Ascend910A", code)`: what the code prints as JSON on such a chip."""
    return partial(run_on_chip, [*training_python, tmp_path / "script.py"])


def run_on_chip(command, soc, code, **environment):
    command[-1].write_text(code)
    ran = subprocess.run(
        command,
        env={**emulating(os.environ, python=sys.executable, npus=2, soc=soc), **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


OVERFLOWS = """
import json, torch, torch_npu

lib = torch.library.Library("mine", "DEF")
lib.define("square(Tensor x) -> Tensor")
lib.impl("square", lambda x: x * x, "CPU")
x = torch.tensor([12.0, 1.0], dtype=torch.float16, device="npu")
nan = torch.tensor([0.0], dtype=torch.float16, device="npu")
found = {
    "exp": x.exp()[0].item(),
    "in place": x.clone().mul_(60000)[0].item(),
    "cast": torch.tensor([1e6]).npu().half().item(),
    "nan": (nan / nan).item(),
    "copy": nan.copy_(torch.tensor([1e6])).item(),
    "borrowed": torch.ops.mine.square(x * 100)[0].item(),
}
wide = torch.tensor([100.0]).npu().exp().item()
"""

CHIP = """
found.update({
    "wide": wide, "bfloat16": torch.npu.is_bf16_supported(), "name": torch.npu.get_device_name(),
    "memory": torch.npu.get_device_properties().total_memory >> 30,
    "hf32": [torch.npu.conv.allow_hf32, torch.npu.matmul.allow_hf32],
})
"""

FIRST_GENERATION = """
import warnings

x, told = torch.ones(2, 2).npu(), []
for attempt in (lambda: x.bfloat16(), lambda: torch.ones(2, dtype=torch.bfloat16).npu() + 1):
    try:
        attempt()
    except RuntimeError as error:
        told.append(str(error))
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    with torch.autocast("npu", dtype=torch.bfloat16):
        y = x @ x
found.update({"told": told, "dtype": str(y.dtype), "warned": [str(w.message) for w in warned]})

from gpu2npu.emulator.device import chip_family

chip_family.clear_overflow()
weight = torch.nn.Parameter(torch.ones(1, device="npu"))
optimizer = torch.optim.SGD([weight], lr=0.5)
scaler = torch.amp.GradScaler("npu", init_scale=4.0, growth_interval=100)
steps = []
for factor in (1.0, 60000.0, 1.0):
    optimizer.zero_grad()
    scaler.scale((weight.half() * factor).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    steps.append((weight.item(), scaler.get_scale()))
masked = torch.ones(2).npu().half().masked_fill(torch.tensor([True, False]).npu(), float("-inf"))
found.update({"steps": steps, "masked": masked.tolist(), "overflowed": chip_family.has_overflowed()})
"""

PRINT = "print(json.dumps(found))"
OVERFLOWING = ("exp", "in place", "cast", "copy", "borrowed")


def test_a_chip_of_the_first_generation(on_chip):
    found = on_chip("Ascend910A", OVERFLOWS + CHIP + FIRST_GENERATION + PRINT, GPU2NPU_CONV_HF32="0")
    assert {found[name] for name in OVERFLOWING} == {65504.0}
    assert (found["nan"], found["wide"]) == (0.0, float("inf"))
    assert (found["name"], found["bfloat16"], found["memory"]) == ("Ascend910A", False, 32)
    assert found["hf32"] == [False, False]

    assert len(found["told"]) == 2
    assert all("DT_BFLOAT16" in message and "[bfloat16-" in message for message in found["told"])
    assert found["dtype"] == "torch.float32"
    assert "target dtype is not supported" in found["warned"][0]

    # The gradient scaler learns of overflow from the float status, where nothing is ever infinite.
    assert found["steps"] == [[0.5, 4.0], [0.5, 2.0], [0.0, 2.0]]
    assert found["masked"] == [-65504.0, 1.0]
    assert found["overflowed"] is False


def test_a_chip_of_the_second_generation_that_is_set_to_saturate(on_chip):
    settings = {"INF_NAN_MODE_ENABLE": "0", "INF_NAN_MODE_FORCE_DISABLE": "1"}
    found = on_chip("Ascend910B4", OVERFLOWS + CHIP + PRINT, GPU2NPU_CONV_HF32="1", **settings)
    assert {found[name] for name in OVERFLOWING} == {65504.0}
    assert (found["nan"], found["wide"]) == (0.0, float("inf"))
    assert (found["name"], found["bfloat16"], found["memory"]) == ("Ascend910B4", True, 32)
    assert found["hf32"] == [True, False]


def test_half_that_overflows_is_infinite_on_the_second_generation(plain, borrowing):
    x = torch.tensor([12.0, 1.0], dtype=torch.float16, device="npu")
    zero = torch.zeros(1, dtype=torch.float16, device="npu")
    for y in (x.exp(), x.clone().mul_(60000), torch.tensor([1e6]).npu().half(), plain(x * 3000), zero + 1e6):
        assert y[0].item() == float("inf")
    assert torch.isnan(zero / zero).all()
