"""Chips of the first generation, each in a process of its own: a process has one kind of chip."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

from gpu2npu.emulator.launch import emulating


def on_chip(soc, code, **environment):
    """What `code` prints as JSON on such a chip."""
    ran = subprocess.run(
        [sys.executable, "-c", f"import json, torch, torch_npu\n{textwrap.dedent(code)}"],
        env={**emulating(os.environ, python=sys.executable, npus=2, soc=soc), **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


OVERFLOWS = """
    x = torch.tensor([12.0, 1.0], dtype=torch.float16, device="npu")
    nan = torch.tensor([0.0], dtype=torch.float16, device="npu")
    print(json.dumps({
        "exp": x.exp()[0].item(), "in place": x.clone().mul_(60000)[0].item(), "cast": torch.tensor([-1e6]).npu().half().item(),
        "nan": (nan / nan).item(), "copy": nan.copy_(torch.tensor([1e6])).item(), "borrowed": torch.special.i0(x * 2)[0].item(),
        "wide": torch.tensor([100.0]).npu().exp().item(), "bfloat16": torch.npu.is_bf16_supported(),
        "name": torch.npu.get_device_name(), "memory": torch.npu.get_device_properties().total_memory >> 30,
    }))
"""  # noqa: E501


@pytest.mark.parametrize(
    ("soc", "environment"), [("Ascend910A", {}), ("Ascend910B2", {"INF_NAN_MODE_ENABLE": "0"})], ids=["910A", "910B2"]
)
def test_half_that_overflows_saturates(soc, environment):
    force = {"INF_NAN_MODE_FORCE_DISABLE": "1"} if environment else {}
    found = on_chip(soc, OVERFLOWS, **environment, **force)
    assert found["exp"] == found["in place"] == found["copy"] == found["borrowed"] == 65504.0
    assert found["cast"] == -65504.0
    assert found["nan"] == 0.0
    assert found["wide"] == float("inf")
    assert found["name"] == soc
    assert found["bfloat16"] is (soc == "Ascend910B2")
    assert found["memory"] == (32 if soc == "Ascend910A" else 64)


def test_half_that_overflows_is_infinite_on_the_second_generation():
    found = on_chip("Ascend910B4", OVERFLOWS)
    assert found["exp"] == found["in place"] == found["copy"] == found["borrowed"] == float("inf")
    assert found["nan"] != found["nan"]
    assert found["memory"] == 32


def test_bfloat16_is_refused_and_autocast_does_without():
    found = on_chip(
        "Ascend910A",
        """
        x = torch.ones(2, 2).npu()
        told = []
        for attempt in (lambda: x.bfloat16(), lambda: torch.ones(2, dtype=torch.bfloat16).npu() + 1):
            try:
                attempt()
            except RuntimeError as error:
                told.append(str(error))
        import warnings
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            with torch.autocast("npu", dtype=torch.bfloat16):
                y = x @ x
        print(json.dumps({"told": told, "dtype": str(y.dtype), "warned": [str(w.message) for w in warned]}))
        """,
    )
    assert len(found["told"]) == 2
    assert all("DT_BFLOAT16" in told and "Ascend910A has no bfloat16" in told for told in found["told"])
    assert found["dtype"] == "torch.float32"
    assert "target dtype is not supported" in found["warned"][0]


def test_the_gradient_scaler_learns_of_overflow_where_nothing_is_infinite():
    found = on_chip(
        "Ascend910A",
        """
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
        from gpu2npu.emulator.device import generation
        print(json.dumps({"steps": steps, "masked": masked.tolist(), "overflowed": generation.has_overflowed()}))
        """,
    )
    assert found["steps"] == [[0.5, 4.0], [0.5, 2.0], [0.0, 2.0]]
    assert found["masked"] == [-65504.0, 1.0]
    assert found["overflowed"] is False


def test_convolutions_begin_with_hf32_unless_the_environment_says_otherwise():
    code = "print(json.dumps([torch.npu.conv.allow_hf32, torch.npu.matmul.allow_hf32]))"
    assert on_chip("Ascend910B", code, GPU2NPU_CONV_HF32="1") == [True, False]
    assert on_chip("Ascend910B", code, GPU2NPU_CONV_HF32="0") == [False, False]
