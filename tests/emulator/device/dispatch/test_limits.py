"""The emulated NPU refuses what `limit` says, on every kind of chip."""

import pytest

from gpu2npu.emulator.device.dispatch.limits import refused, refused_dtypes
from gpu2npu.emulator.soc import FAMILIES, current_soc
from gpu2npu.support.limits import RAISES, CallFacts, chip_family, known_limits, limit, limits_of
from gpu2npu.support.releases import RELEASES

OPERATORS = sorted({operator for each in known_limits() for operator in each.operators})


@pytest.fixture(params=["Ascend910A", *(name for name in FAMILIES if name != "Ascend310B")])
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


def test_every_limit_of_every_table(chip):
    """Check each API and operator of the limits, with all that makes each of them apply."""
    walked = 0
    for each in known_limits():
        arguments = {name: min(texts) for name, texts in (each.arguments or {}).items()} | dict.fromkeys(
            each.unless or (), "2"
        )
        given = CallFacts(tuple(each.dtypes), tuple(each.layouts), tuple(each.devices), arguments)
        applies = each.is_for(RELEASES[-1], chip) and each.outcome == RAISES
        for name in (*each.apis, *each.operators):
            met = limit(name, given, RELEASES[-1], chip)
            assert refused(name, given) == (met if met is not None and met.outcome == RAISES else None)
            walked += 1
            assert refused(name, given) is not None or not applies
    assert walked > 300


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_dtypes_of_every_operator(chip, operator):
    named = {dtype for each in limits_of(operator) for dtype in each.dtypes}
    raising = {dtype for dtype in named if limit(operator, CallFacts((dtype,)), RELEASES[-1], chip) is not None}
    assert refused_dtypes(operator).keys() == raising


def test_bfloat16_is_where_the_limits_have_it(chip):
    assert current_soc().bfloat16 == (refused("aten::mm", CallFacts(("bfloat16",))) is None)
