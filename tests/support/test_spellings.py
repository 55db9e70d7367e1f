"""The spellings of names of torch, and the spaces that names are in."""

from __future__ import annotations

import pytest

from gpu2npu.support.spellings import (
    is_for_other_device,
    is_in,
    is_of_host,
    is_of_library,
    public_spellings,
    same_operators,
    spellings,
)


@pytest.mark.parametrize(
    ("api", "others"),
    [
        ("torch.add", []),
        ("torch.functional", []),
        ("torch.functional.einsum", ["torch.einsum"]),
        ("torch.nn.functional.relu", ["torch.nn.relu"]),
        ("torch.nn.Conv2d", []),
        ("torch.nn.modules.conv.Conv2d", ["torch.nn.Conv2d"]),
        ("torch.nn.utils.spectral_norm.spectral_norm", ["torch.nn.utils.spectral_norm", "torch.nn.spectral_norm"]),
        ("torch.nn.utils.spectral_norm", ["torch.nn.spectral_norm"]),
        ("torch.optim.Adam", []),
        ("torch.optim.adam.Adam", ["torch.optim.Adam"]),
        ("torch.optimum.adam.Adam", []),
        ("torch.distributions.normal.Normal", ["torch.distributions.Normal"]),
    ],
)
def test_a_name_comes_first_and_then_where_the_same_is_exported(api: str, others: list[str]) -> None:
    assert spellings(api) == [api, *others]


@pytest.mark.parametrize(
    ("api", "expected"),
    [
        ("torch.add", []),
        ("torch.Size", []),
        ("torch.nn.Conv2d", ["torch.Conv2d"]),
        ("torch.optim.adam.Adam", ["torch.optim.Adam", "torch.adam.Adam"]),
        ("torch.optim.adam.adam", []),
        ("torch.nn.Module.Inner", ["torch.Module.Inner"]),
    ],
)
def test_a_class_may_be_public_without_one_of_its_modules(api: str, expected: list[str]) -> None:
    assert list(public_spellings(api)) == expected


@pytest.mark.parametrize(
    ("api", "expected"),
    [
        ("torch.Tensor.relu", ["torch.relu"]),
        ("torch.nn.init.kaiming_normal", ["torch.nn.init.kaiming_normal_"]),
        ("torch.nn.init.kaiming_normal_", []),
        ("torch.nn.utils.clip_grad_norm", ["torch.nn.utils.clip_grad_norm_"]),
        ("torch.nn.functional.relu", []),
        ("torch.relu", []),
    ],
)
def test_other_names_reach_the_same_operators(api: str, expected: list[str]) -> None:
    assert same_operators(api) == expected


def test_a_space_has_its_own_name_and_those_below_it() -> None:
    spaces = ("torch.cuda", "torch.fx")
    assert all(is_in(api, spaces) for api in ("torch.cuda", "torch.cuda.Event", "torch.fx.graph.Graph"))
    assert not any(is_in(api, spaces) for api in ("torch", "torch.cudart", "torch.nn.fx", "torch.fxs.x"))
    assert is_for_other_device("torch.mps.synchronize") and not is_for_other_device("torch.npu.synchronize")
    assert is_of_host("torch.hub.load") and not is_of_host("torch.hubs")


@pytest.mark.parametrize(
    ("api", "expected"),
    [
        ("torch.ops.pyg.sampled_op", True),
        ("torch.ops.pyg.sampled_op.default", True),
        ("torch.ops.aten.add", False),
        ("torch.ops.aten.add.Tensor", False),
        ("torch.ops.npu.npu_min", False),
        ("torch.ops.load_library", False),
        ("torch.nn.pyg.sampled_op", False),
    ],
)
def test_operators_of_other_libraries(api: str, expected: bool) -> None:
    assert is_of_library(api) is expected
