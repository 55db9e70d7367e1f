import pytest
import torch
import torch.nn.functional as F
import torch_npu

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES)
def test_linear(agrees, dtype):
    agrees(torch_npu.npu_linear, F.linear, torch.randn(5, 8), torch.randn(3, 8), torch.randn(3), dtype=dtype)
    agrees(torch_npu.npu_linear, F.linear, torch.randn(5, 8), torch.randn(3, 8), dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("first", "second"),
    [((2, 3, 4), (2, 4, 5)), ((4, 3), (3, 2)), ((2, 1, 3, 4), (5, 4, 6)), ((2, 3, 4), (4, 5))],
)
def test_bmm_v2(agrees, first, second, dtype):
    operator = lambda a, b: torch_npu.npu_bmmV2(a, b, [])  # noqa: E731
    agrees(operator, torch.matmul, torch.randn(first), torch.randn(second), dtype=dtype)


def test_bmm_v2_sums_to_the_size_it_is_given(agrees):
    agrees(
        lambda a, b: torch_npu.npu_bmmV2(a, b, [3, 5]), lambda a, b: (a @ b).sum(0),
        torch.randn(2, 3, 4), torch.randn(2, 4, 5), gradients=False,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_confusion_transpose(agrees, dtype):
    x = torch.randn(2, 3, 4, 6)
    agrees(
        lambda t: torch_npu.npu_confusion_transpose(t, (0, 2, 1, 3), (2, 4, 18), True),
        lambda t: t.permute(0, 2, 1, 3).reshape(2, 4, 18), x, dtype=dtype,
    )  # fmt: skip
    agrees(
        lambda t: torch_npu.npu_confusion_transpose(t, (1, 2, 0), (2, 12, 6), False),
        lambda t: t.reshape(2, 12, 6).permute(1, 2, 0), x, dtype=dtype,
    )  # fmt: skip
    assert torch_npu.npu_confusion_transpose(x.npu(), (0, 2, 1, 3), (2, 4, 18), True).is_contiguous()


def test_transposed_batches(agrees):
    x, w = torch.randn(4, 2, 3), torch.randn(2, 3, 5)
    agrees(
        lambda a, b: torch_npu.npu_transpose_batchmatmul(a, b, perm_x1=[1, 0, 2], perm_y=[1, 0, 2]),
        lambda a, b: (a.transpose(0, 1) @ b).transpose(0, 1), x, w, gradients=False,
    )  # fmt: skip


def test_convolutions_are_pytorchs(agrees):
    x, w, b = torch.randn(2, 4, 6, 6), torch.randn(6, 2, 3, 3), torch.randn(6)
    agrees(
        lambda *t: torch_npu.npu_conv2d(*t, [1, 1], [1, 1], [1, 1], 2), lambda *t: F.conv2d(*t, padding=1, groups=2),
        x, w, b,
    )  # fmt: skip
    agrees(
        lambda *t: torch_npu.npu_conv_transpose2d(*t, None, [1, 1], [0, 0], [2, 2], [1, 1], 1),
        lambda *t: F.conv_transpose2d(*t, stride=2, padding=1), x, torch.randn(4, 3, 3, 3),
    )  # fmt: skip
