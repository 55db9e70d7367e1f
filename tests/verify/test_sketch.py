"""The rows of tensors: summaries made together are those that are made one by one."""

import io

import numpy as np
import pytest
import torch

from gpu2npu.verify.comparing.likeness import is_reordered
from gpu2npu.verify.recording.records import Tensor, rows_of
from gpu2npu.verify.recording.sketch import summary
from gpu2npu.verify.recording.writer import RowWriter

NAN = float("nan")


def test_summaries_made_together_are_those_made_one_by_one() -> None:
    drawn = [torch.from_numpy(np.random.default_rng(size).standard_normal(size, np.float32)) for size in SIZES]
    numbers = [torch.tensor([1.0, NAN, float("inf"), -3.0]), torch.full((30_000,), NAN), torch.full((50,), 1e-20)]
    zeros = [torch.zeros(0, 3), torch.zeros(40), torch.zeros(30_000), torch.full((30_000,), 1e-20)]
    others = [torch.arange(5), torch.tensor(True), torch.ones(3, 4, dtype=torch.complex64), torch.ones(7).bfloat16()]
    tensors = [*drawn, *numbers, *zeros, *others]
    file = io.BytesIO()
    rows = RowWriter(file)
    assert [rows.add(tensor) for tensor in tensors] == list(range(len(tensors)))
    rows.write()
    for row, tensor in zip(rows_of(file.getvalue()), tensors, strict=True):
        alone = summary(tensor)
        assert row["unfinite"] == alone.unfinite
        np.testing.assert_array_equal(row["first"][: len(alone.first)], alone.first)
        np.testing.assert_allclose([row["norm"], row["mean"], row["largest"]], alone[2:5], rtol=1e-12)
        np.testing.assert_allclose(row["sketch"], alone.sketch, rtol=1e-6, atol=1e-6 * alone.norm)


SIZES = (1, 5, 31, 32, 33, 700, 8192, 9000, 70_000, *[8192] * 5)


@pytest.mark.parametrize("count", [24, 300_000])
def test_the_same_numbers_in_another_order_are_not_other_numbers(count: int) -> None:
    def recorded(values: torch.Tensor) -> Tensor:
        made = summary(values)
        numbers = (made.norm, made.mean, made.largest, made.unfinite, made.first)
        return Tensor(made.shape, made.dtype, *numbers, made.sketch.astype(np.float64))

    random = np.random.default_rng(count)
    values = torch.from_numpy(random.standard_normal(count, np.float32))
    mixed = values[torch.from_numpy(random.permutation(count))]
    assert is_reordered(recorded(values), recorded(mixed))
    assert is_reordered(recorded((values * 30).long()), recorded((mixed * 30).long()))
    other = mixed.clone()
    other[0] += 0.5
    assert not is_reordered(recorded(values), recorded(other))
    assert not is_reordered(recorded((values > 0).float()), recorded((mixed > 0).float()))  # as many ones is usual
    assert not is_reordered(recorded(values.sign()), recorded(mixed.sign()))
