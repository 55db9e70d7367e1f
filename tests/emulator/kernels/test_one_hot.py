import numpy as np
import pytest
import torch
from torch.nn.functional import one_hot


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("classes", [-1, 5])
def test_each_index_has_its_own_place(dtype, classes):
    index = torch.tensor([[0, 3], [2, 1]])
    hot = one_hot(index.to("npu", dtype), classes)
    assert hot.dtype is dtype
    assert torch.equal(hot.cpu().long(), one_hot(index, classes))


def test_an_index_out_of_range_is_all_zeros():
    assert one_hot(torch.tensor([1, 7, -1], device="npu"), 3).tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 0]]


def test_no_index_has_no_rows():
    assert one_hot(torch.zeros(2, 0, dtype=torch.int64, device="npu"), 1).shape == (2, 0, 1)


@pytest.mark.parametrize(
    ("index", "classes", "words"),
    [
        (torch.tensor([1.0]), 3, "one_hot takes int32 and int64"),
        (torch.tensor([1]), -2, "negative num_classes"),
        (torch.tensor([], dtype=torch.int64), -1, "from empty tensor"),
        (torch.tensor([], dtype=torch.int64), 0, "from empty tensor"),
    ],
)
def test_what_the_npu_refuses(index, classes, words):
    with pytest.raises(RuntimeError, match=words):
        one_hot(index.npu(), classes)


def test_no_classes_at_all(kernels_of):
    assert kernels_of["aten::one_hot"](np.array([0, 1, 2]), 0).shape == (3, 0)
    assert kernels_of["aten::one_hot"](np.array([0, 1, 2]), -1).shape == (3, 3)
