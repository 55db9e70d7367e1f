import json

import pytest

from gpu2npu.emulator.device import signature, support_table
from gpu2npu.emulator.device.borrowed import warn_of_fallback


@pytest.fixture(autouse=True)
def forgotten():
    support_table._operators.cache_clear()
    support_table._table.cache_clear()
    yield
    support_table._operators.cache_clear()
    support_table._table.cache_clear()


@pytest.fixture
def table(monkeypatch, tmp_path):
    """Writes the table that the environment names."""
    path = tmp_path / "table.json"
    monkeypatch.setenv("GPU2NPU_SUPPORT_TABLE", str(path))
    return lambda content: path.write_text(content)


def test_any_overload_of_an_operator_supports_it(table):
    table(json.dumps({"operators": {"supported": ["aten::exp.out", "aten::add_.Tensor", "aten::max.dim_out"]}}))
    for name in ("aten::exp", "aten::add.Tensor", "aten::max.dim"):
        assert support_table.is_supported(name)
    for name in ("aten::airy", "aten::add.Scalar", "aten::max"):
        assert not support_table.is_supported(name)
    assert support_table.is_supported("torchvision::nms")


def test_without_a_table_all_is_supported(monkeypatch):
    monkeypatch.delenv("GPU2NPU_SUPPORT_TABLE", raising=False)
    assert support_table.is_supported("aten::anything")
    assert support_table.release() is None


def test_a_table_names_the_release_it_was_made_from(table):
    table(json.dumps({"operators": {"supported": []}, "wheel": {"version": "2.3.1"}}))
    assert support_table.release() == "2.3.1"


@pytest.mark.parametrize(
    ("operator", "name"),
    [
        ("aten::lgamma", "aten::lgamma.out"),  # structured: the device sees its out= overload
        ("aten::nonzero_static", "aten::nonzero_static"),
        ("aten::exp", None),
        ("aten::softplus_backward", None),  # listed as softplus_backward.grad_input
        ("aten::square", None),  # PyTorch multiplies
        ("aten::select_backward", None),  # PyTorch composes it of views
    ],
)
def test_what_the_npu_lacks_has_the_name_that_torch_npu_gives_it(table, operator, name):
    table(json.dumps({"operators": {"supported": ["aten::exp.out", "aten::softplus_backward.grad_input"]}}))
    assert signature.read(signature.overload(operator)).fallback == name


def test_the_cpu_may_be_forbidden(table, monkeypatch):
    table(json.dumps({"operators": {"supported": []}}))
    lacking = signature.read(signature.overload("aten::exp"))
    monkeypatch.setenv("TORCH_NPU_FALLBACK_CPU_DISABLE", "1")
    with pytest.raises(RuntimeError, match=r"'aten::exp.out' would execute .*TORCH_NPU_FALLBACK_CPU_DISABLE=1"):
        warn_of_fallback(lacking)
    monkeypatch.setenv("TORCH_NPU_FALLBACK_CPU_DISABLE", "0")
    with pytest.warns(UserWarning, match=r"CAUTION: The operator 'aten::exp.out'"):
        warn_of_fallback(lacking)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"operators": {"supported": 5}}'])
def test_what_is_no_table_is_an_error_that_names_the_file(table, content):
    table(content)
    with pytest.raises(RuntimeError, match=r"GPU2NPU_SUPPORT_TABLE: .*table.json is not a table of operators"):
        support_table.is_supported("aten::add.Tensor")


def test_torch_npus_own_operators(table):
    table(json.dumps({"operators": {"supported": [], "custom": ["npu::npu_rotary_mul", "npu::npu_dtype_cast.out"]}}))
    assert support_table.is_custom("npu_rotary_mul")
    assert support_table.is_custom("npu_dtype_cast")
    assert not support_table.is_custom("npu_fusion_attention")
