"""Tests of how operators run: kernels, compositions, fallbacks."""

import pytest

from gpu2npu.support.operators import (
    Reached,
    exists,
    first_release,
    has_kernel,
    is_view,
    missing,
    torch_release,
)
from gpu2npu.support.release_tables import table_for

TABLE, TORCH = table_for("2.7.0"), torch_release("2.7.0")


def reached(operator, *parts):
    return Reached(f"aten::{operator}", tuple(parts))


def test_a_kernel_is_torch_npus_or_that_of_the_out_overload():
    assert has_kernel("aten::mm", TABLE, TORCH)
    assert "aten::argmax" not in TABLE.supported and has_kernel("aten::argmax", TABLE, TORCH)
    assert not has_kernel("aten::linear", TABLE, TORCH)


def test_a_composition_needs_its_parts():
    assert not missing([reached("linear", reached("t", reached("as_strided")), reached("addmm"))], TABLE, TORCH)
    lacks = missing([reached("linalg_inv", reached("linalg_inv_ex"))], TABLE, TORCH)
    assert lacks.falls_back == {"aten::linalg_inv_ex"} and not lacks.absent


def test_the_parts_of_an_operator_with_a_kernel_do_not_matter():
    assert not missing([reached("matmul", reached("no_such_operator"))], TABLE, TORCH)


def test_an_operator_that_the_release_lacks_is_absent_unless_its_parts_say_more():
    old = torch_release("2.1.0")
    assert missing([reached("hash_tensor")], table_for("2.1.0"), old).absent == {"aten::hash_tensor"}
    assert not missing([reached("rms_norm", reached("rsqrt"))], table_for("2.1.0"), old)


def test_a_composition_may_come_with_a_release():
    """torch 2.4 composes foreach operators one tensor at a time where a device has none."""
    node = reached("_foreach_mul_.Tensor", reached("mul_.Tensor"))
    assert missing([node], table_for("2.3.0"), torch_release("2.3.0")).falls_back == {"aten::_foreach_mul_.Tensor"}
    assert not missing([node], table_for("2.4.0"), torch_release("2.4.0"))


def test_views():
    def shown(node):
        return is_view(node, TABLE, TORCH)

    assert shown(reached("transpose.int", reached("as_strided")))
    assert shown(reached("broadcast_tensors")) and shown(reached("dropout")) is ("aten::dropout" not in TABLE.supported)
    assert not shown(reached("linear", reached("t", reached("as_strided")), reached("addmm")))
    assert not shown(reached("relu"))
    # its composition ends in what only a device's own kernel stands for
    assert not shown(reached("conv2d", reached("convolution", reached("convolution_overrideable"))))


def test_names_come_and_go():
    assert first_release("torch.add") == "2.1.0" and first_release("torch.nn.RMSNorm") == "2.4.0"
    assert first_release("torch.nonsense") is None
    assert "torch.Tensor.align_as" in torch_release("2.12.0").names
    assert "torch.Tensor.align_as" not in torch_release("2.13.0").names


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("torch.add", True),
        ("torch.nn.Module", True),
        ("torch.nn.Module.to", True),
        ("torch.nn.Module.to.more", True),
        ("torch.Tensor.no_such_method", True),
        ("torch.fx.Anything", True),
        ("torch.nonsense", False),
        ("torch.Nonsense", False),
        ("torch.nn.Nonsense", False),
        ("torch.nn.Nonsense.to", False),
        ("torch.nn.functional.nonsense", False),
        ("torch.linalg.inv.more", False),
    ],
)
def test_a_name_exists_by_itself_or_in_a_class_or_package_whose_names_are_not_listed(name, expected):
    assert exists(name) is expected


def test_a_release_is_shown_without_its_thousands_of_names():
    assert repr(TORCH) == "Torch(release='2.7.0')"


def test_every_release_of_torch_has_about_as_many_operators_and_names():
    for release in ("2.1.0", "2.7.0", "2.14.0"):
        torch = torch_release(release)
        assert 2400 < len(torch.operators) < 2900 and 5000 < len(torch.names) < 10_000
        assert (
            torch.operators["aten::linear"] == "implicit" and torch.operators["aten::mm"] == "structured aten::mm.out"
        )
    with pytest.raises(ValueError, match=r"2\.0\.0"):
        torch_release("2.0.0")
