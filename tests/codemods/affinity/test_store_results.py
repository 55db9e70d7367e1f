"""Results of stores under a mask before and after they are rewritten."""

import pytest
import torch

from tests.codemods.affinity.test_stores import fix

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16]
DTYPES += [torch.int8, torch.uint8, torch.bool, torch.complex64]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("value", ["0", "1", "-1", "127", "-127", "0.5", "0.0", "2.75"])
def test_both_forms_give_one_result(dtype: torch.dtype, value: str) -> None:
    """Values, aliasing and gradients, for every dtype a mask can be made of."""
    before = f"import torch\nx: torch.Tensor\nx = x.clone()\nview = x.view(-1)\nx[x != 1] = {value}\n"
    after = fix(before)
    assert after is not None and "masked_fill_" in after
    results = []
    for text in (before, after):
        start = torch.arange(6).reshape(2, 3).to(dtype)
        if dtype.is_floating_point:
            start.requires_grad_(True)
        names = {"x": start}
        exec(text, names)
        gradient = None
        if dtype.is_floating_point:
            names["x"].sum().backward()
            gradient = start.grad
        results.append((names["x"].detach(), names["view"].detach(), gradient))
    one, other = results
    assert torch.equal(one[0], other[0]) and torch.equal(one[1], other[1])
    assert (one[2] is None and other[2] is None) or torch.equal(one[2], other[2])
