import pytest

from gpu2npu.emulator.device.dispatch import signature, support_table
from gpu2npu.emulator.device.dispatch.without_kernel import warn_of_fallback


@pytest.fixture(autouse=True)
def chosen(monkeypatch):
    """Chooses the release of torch_npu."""

    def choose(version):
        monkeypatch.setenv("GPU2NPU_TORCH_NPU", version)
        support_table._table.cache_clear()

    support_table._table.cache_clear()
    yield choose
    support_table._table.cache_clear()


def test_an_operator_is_supported_by_its_own_kernel_or_that_of_its_out_overload(chosen):
    chosen("2.13.0")
    for name in ("aten::exp", "aten::add.Tensor", "aten::add_.Tensor", "aten::softplus_backward"):
        assert support_table.is_supported(name), name
    for name in ("aten::special_airy_ai", "aten::lgamma", "aten::_ctc_loss.Tensor"):
        assert not support_table.is_supported(name), name
    assert support_table.is_supported("npu::npu_rms_norm")
    assert not support_table.is_supported("torchvision::nms"), "torch_npu's fallback is that of all libraries"


def test_without_a_release_the_newest_decides_about_pytorchs_operators(monkeypatch):
    monkeypatch.delenv("GPU2NPU_TORCH_NPU", raising=False)
    assert support_table.is_supported("aten::exp") and support_table.is_supported("a_library::anything")
    assert not support_table.is_supported("aten::lgamma")
    assert support_table.release() is None


@pytest.mark.parametrize(("requested", "wheel"), [("2.3.0", "2.3.1.post6"), ("2.1.0.post0", "2.1.0")])
def test_the_release_is_that_of_the_wheel(chosen, requested, wheel):
    chosen(requested)
    assert support_table.release() == wheel


@pytest.mark.parametrize(
    ("operator", "name"),
    [
        ("aten::lgamma", "aten::lgamma.out"),  # structured: the device sees its out= overload
        ("aten::_standard_gamma_grad", "aten::_standard_gamma_grad"),
        ("aten::exp", None),
        ("aten::softplus_backward", None),  # listed as softplus_backward.grad_input
        ("aten::square", None),  # PyTorch multiplies
        ("aten::select_backward", None),  # PyTorch composes it of views
        ("aten::_thnn_fused_gru_cell_backward", None),  # which the CPU lacks: torch_npu's own gradient takes its place
    ],
)
def test_what_the_npu_lacks_has_the_name_that_torch_npu_gives_it(chosen, operator, name):
    chosen("2.13.0")
    assert signature.read(signature.overload(operator)).fallback == name


def test_the_cpu_may_be_forbidden(chosen, monkeypatch):
    chosen("2.13.0")
    lacking = signature.read(signature.overload("aten::lgamma"))
    monkeypatch.setenv("TORCH_NPU_FALLBACK_CPU_DISABLE", "1")
    with pytest.raises(RuntimeError, match=r"'aten::lgamma.out' would execute .*TORCH_NPU_FALLBACK_CPU_DISABLE=1"):
        warn_of_fallback(lacking)
    monkeypatch.setenv("TORCH_NPU_FALLBACK_CPU_DISABLE", "0")
    with pytest.warns(UserWarning, match=r"CAUTION: The operator 'aten::lgamma.out'"):
        warn_of_fallback(lacking)


def test_an_unknown_release_is_one_sentence(chosen):
    chosen("2.0.0")
    with pytest.raises(RuntimeError, match=r"GPU2NPU_TORCH_NPU: .*2\.0\.0.* is not known; use one of"):
        support_table.is_supported("aten::add.Tensor")


def test_torch_npus_own_operators(chosen):
    chosen("2.1.0.post0")
    assert support_table.has_custom("npu_rotary_mul")
    assert support_table.has_custom("npu_dtype_cast")
    assert not support_table.has_custom("npu_fusion_attention_v3")
