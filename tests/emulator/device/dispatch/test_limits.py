"""The emulated NPU refuses what `limit` says, on every kind of chip."""

import threading

import pytest
import torch

from gpu2npu.emulator.device.dispatch.limits import LimitError, message, refused, refused_dtypes, taken_whole
from gpu2npu.emulator.soc import current_soc
from gpu2npu.support.behaviour import RAISES, behaviour, rows
from gpu2npu.support.chips import chip_family, representatives
from gpu2npu.support.conditions import ALL_DTYPES, CallFacts, TensorFacts
from gpu2npu.support.releases import RELEASES

OPERATORS = sorted({operator for each in rows() for operator in each.operators})


def of(dtype):
    """The facts of a call with a tensor of a dtype."""
    return CallFacts(others=(TensorFacts(dtype),))


@pytest.fixture(params=["Ascend910A", *representatives()])
def chip(request, monkeypatch):
    """The family of the chip in use, which is each in turn."""
    monkeypatch.setenv("GPU2NPU_SOC", request.param)
    monkeypatch.delenv("GPU2NPU_TORCH_NPU", raising=False)
    for cached in (current_soc, refused_dtypes):
        cached.cache_clear()
    yield chip_family(request.param)
    monkeypatch.undo()
    for cached in (current_soc, refused_dtypes):
        cached.cache_clear()


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_dtypes_of_every_operator(chip, operator):
    raising = set()
    for dtype in ALL_DTYPES:
        found = behaviour(operator, of(dtype), RELEASES[-1], chip)
        if found is not None and found.outcome == RAISES:
            raising.add(dtype)
    assert refused_dtypes(operator).keys() == raising


def test_bfloat16_is_where_the_limits_have_it(chip):
    assert current_soc().bfloat16 == (refused("aten::mm", of("bfloat16")) is None)


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_error_names_its_operator_once(operator):
    bare = operator.rpartition("::")[2]
    for each in rows():
        if operator in each.operators and not each.words:
            text = message(operator, each, CallFacts())
            assert text.startswith(f"{operator}: ")
            assert f"{operator}: {bare}: " not in text, text


def test_one_thread_is_refused_while_another_composes_an_operator():
    square = torch.ones(2, 2, dtype=torch.float64, device="npu")
    composing, done, computed = threading.Event(), threading.Event(), []

    def compose():
        with taken_whole():
            composing.set()
            done.wait(30)
            computed.append(square @ square)

    thread = threading.Thread(target=compose)
    thread.start()
    assert composing.wait(30)
    try:
        with pytest.raises(LimitError):
            square @ square
    finally:
        done.set()
        thread.join()
    assert computed[0].cpu().tolist() == [[2, 2], [2, 2]]
