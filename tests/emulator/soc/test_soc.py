import pytest

from gpu2npu.emulator.soc import DEFAULT_SOC, SOCS, current_soc, saturates, soc_named
from gpu2npu.support.chips import representatives


@pytest.fixture(autouse=True)
def uncached():
    current_soc.cache_clear()
    saturates.cache_clear()
    yield
    current_soc.cache_clear()
    saturates.cache_clear()


def test_the_environment_chooses_the_chip(monkeypatch):
    monkeypatch.setenv("GPU2NPU_SOC", "Ascend910B4")
    assert current_soc() is SOCS["Ascend910B4"]
    assert current_soc().memory == 32 << 30
    assert (current_soc().cube_cores, current_soc().vector_cores) == (20, 40)


def test_every_chip_has_a_number_of_its_own_in_torch_npus_list():
    assert len({soc.number for soc in SOCS.values()}) == len(SOCS)
    # c10_npu::SocVersion, NpuVariables.h: each row of chips begins at a number and counts up.
    expected = {"Ascend910A": 102, "Ascend310P3": 202, "Ascend910B2C": 222, "Ascend310B4": 243, "Ascend910_9362": 255}
    assert {name: SOCS[name].number for name in expected} == expected


@pytest.mark.parametrize("family", representatives())
def test_a_family_stands_for_one_of_its_members(monkeypatch, family):
    monkeypatch.setenv("GPU2NPU_SOC", family)
    assert current_soc().name.startswith(family)


def test_the_default_is_the_training_card_with_64_gib(monkeypatch):
    monkeypatch.delenv("GPU2NPU_SOC", raising=False)
    assert current_soc() is soc_named(DEFAULT_SOC)
    assert current_soc().memory == 64 << 30
    assert current_soc().bfloat16


def test_an_unknown_chip_is_an_error_that_names_the_known_ones(monkeypatch):
    monkeypatch.setenv("GPU2NPU_SOC", "H100")
    with pytest.raises(
        RuntimeError, match=r"GPU2NPU_SOC: 'H100' is not a chip .*: choose one of Ascend910B, .*Ascend910A"
    ):
        current_soc()


@pytest.mark.parametrize(
    ("soc", "enable", "force", "expected"),
    [
        ("Ascend910A", None, None, True),
        ("Ascend910A", "1", None, True),
        ("Ascend310P3", None, None, True),
        ("Ascend910B2", None, None, False),
        ("Ascend910_9392", None, None, False),
        ("Ascend910B2", "0", "1", True),
    ],
)
def test_first_generation_chips_saturate_and_others_where_set_to(monkeypatch, soc, enable, force, expected):
    monkeypatch.setenv("GPU2NPU_SOC", soc)
    for name, value in (("INF_NAN_MODE_ENABLE", enable), ("INF_NAN_MODE_FORCE_DISABLE", force)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert saturates() is expected
    assert current_soc().bfloat16 is (soc not in ("Ascend910A", "Ascend310P3"))


def test_one_variable_alone_does_not_switch_inf_nan_mode_off(monkeypatch):
    monkeypatch.setenv("GPU2NPU_SOC", "Ascend910B2")
    monkeypatch.setenv("INF_NAN_MODE_ENABLE", "0")
    monkeypatch.delenv("INF_NAN_MODE_FORCE_DISABLE", raising=False)
    with pytest.raises(RuntimeError, match="please export INF_NAN_MODE_FORCE_DISABLE=1"):
        saturates()


def test_every_chip_says_where_its_facts_come_from():
    for soc in SOCS.values():
        assert soc.source
        assert soc.memory % (1 << 30) == 0
