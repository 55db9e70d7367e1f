import pytest

from gpu2npu.emulator.soc import DEFAULT_SOC, SOCS, current_soc


@pytest.fixture
def uncached():
    current_soc.cache_clear()
    yield
    current_soc.cache_clear()


def test_the_environment_chooses_the_chip(monkeypatch, uncached):
    monkeypatch.setenv("GPU2NPU_SOC", "Ascend310P")
    assert current_soc().name == "Ascend310P"
    assert current_soc().memory == 24 << 30


def test_the_default_is_the_training_card_with_64_gib(monkeypatch, uncached):
    monkeypatch.delenv("GPU2NPU_SOC", raising=False)
    assert current_soc() is SOCS[DEFAULT_SOC]
    assert current_soc().memory == 64 << 30
    assert current_soc().bfloat16


def test_an_unknown_chip_is_an_error_that_names_the_known_ones(monkeypatch, uncached):
    monkeypatch.setenv("GPU2NPU_SOC", "H100")
    with pytest.raises(RuntimeError, match=r"GPU2NPU_SOC is 'H100': known chips are Ascend910A, Ascend910B"):
        current_soc()
