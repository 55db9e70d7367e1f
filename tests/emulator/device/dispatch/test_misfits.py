"""Tests of the words for arguments that do not fit together."""

import pytest
import torch
import torch_npu

from gpu2npu.emulator.device.dispatch import misfits
from gpu2npu.emulator.npu_ops import definition


def _message(operator, **shapes):
    return misfits.misfit(f"npu::{operator}", {name: torch.empty(shape) for name, shape in shapes.items()})


@pytest.mark.parametrize(
    ("operator", "shapes", "expected"),
    [
        (
            "npu_lstm",
            {"input": (5, 2, 3), "weight": (7, 16), "bias": (15,), "h": (1, 2, 4), "c": (1, 2, 4)},
            "bias of shape [15] does not fit the others, which ask for [16]",
        ),
        (
            "npu_lstm",
            {"input": (5, 2, 3), "weight": (8, 16), "bias": (16,), "h": (1, 2, 4), "c": (1, 2, 4)},
            "weight of shape [8, 16] does not fit the others, which ask for [7, 16]",
        ),
        (
            "npu_deep_norm_backward",
            {"dy": (2, 3, 4), "x": (2, 3, 4), "gx": (2, 4), "gamma": (4,), "mean": (2, 3, 1), "rstd": (2, 3, 1)},
            "gx of shape [2, 4] does not fit the others, which ask for [2, 3, 4]",
        ),
        (
            "npu_linear",
            {"input": (6, 3), "weight": (4, 5)},
            "weight of shape [4, 5] does not fit input of shape [6, 3]",
        ),
        (
            "npu_quant_matmul",
            {"x1": (2, 3), "x2": (3, 4), "scale": (1,), "offset": (4,), "pertoken_scale": (5,)},
            "pertoken_scale of shape [5] does not fit x1 of shape [2, 3]",
        ),
        (
            "npu_fusion_attention",
            {"query": (2, 3, 8), "key": (4, 3, 8), "value": (2, 3, 8)},
            "key of shape [4, 3, 8] does not fit the others, which ask for [2, 3, G]",
        ),
    ],
)
def test_the_argument_that_does_not_fit_is_named_first(operator, shapes, expected):
    assert _message(operator, **shapes) == f"npu::{operator}: {expected}"


@pytest.mark.parametrize(
    ("operator", "shapes"),
    [
        ("npu_linear", {"input": (2, 6, 3), "weight": (4, 3), "bias": (4,)}),
        ("npu_quant_matmul", {"x1": (2, 3), "x2": (3, 4), "scale": (1,), "offset": (4,)}),
        ("npu_diou_backward", {"bboxes": (4, 3), "gtboxes": (4, 2), "grad": (2, 3)}),  # its second line
        ("npu_not_in_the_table", {"input": (2, 3)}),
        ("npu_lstm_cell", {"input": (2, 3), "w_ih": (4, 8), "w_hh": (3, 8), "h": (2, 2), "c": (2, 5)}),  # not one alone
    ],
)
def test_what_fits_and_what_no_argument_alone_explains_has_no_words(operator, shapes):
    assert _message(operator, **shapes) is None


def test_the_table_names_operators_and_their_arguments():
    schemas = {schema.partition("(")[0]: schema for schema in definition.schemas()}
    for operator, patterns in misfits._patterns().items():
        overloads = [each for name, each in schemas.items() if name.partition(".")[0] == operator]
        for pattern in patterns:
            assert len(pattern) > 1, operator
            for name in pattern:
                assert any(f" {name}" in schema for schema in overloads), (operator, name)


def test_an_error_by_accident_names_the_argument():
    x, gamma = torch.ones(2, 3, 4).npu(), torch.ones(4).npu()
    with pytest.raises(RuntimeError, match=r"npu_deep_norm_backward: gx of shape \[2, 3, 5\] does not fit the others"):
        torch_npu.npu_deep_norm_backward(x, x, torch.ones(2, 3, 5).npu(), gamma, x[..., :1], x[..., :1])
