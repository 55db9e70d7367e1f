import pytest
import torch
import torch.nn.functional as F
import torch_npu


def deformed(x, weight, offset, bias, stride, padding, dilation, groups, deformable):
    """Each kernel point is a bilinear sample, by grid_sample; then one product."""
    n, c, height, width = x.shape
    kh, kw = weight.shape[2:]
    oh, ow = offset.shape[2:]
    dx, dy, mask = offset.view(n, 3, deformable, kh * kw, oh, ow).unbind(1)
    columns = []
    for k in range(kh * kw):
        i, j = divmod(k, kw)
        parts = []
        for g, image in enumerate(x.chunk(deformable, 1)):
            y = torch.arange(oh)[:, None] * stride - padding + i * dilation + dy[:, g, k]
            z = torch.arange(ow)[None, :] * stride - padding + j * dilation + dx[:, g, k]
            grid = torch.stack((z / (width - 1), y / (height - 1)), -1) * 2 - 1
            parts.append(F.grid_sample(image, grid, align_corners=True) * mask[:, g, k, None])
        columns.append(torch.cat(parts, 1))
    stacked = torch.stack(columns, 2).view(n, groups, c // groups * kh * kw, oh * ow)
    y = weight.view(groups, -1, c // groups * kh * kw) @ stacked
    return y.view(n, -1, oh, ow) + bias.view(-1, 1, 1)


@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "groups", "deformable"), [(1, 1, 1, 1, 1), (2, 1, 1, 2, 2), (1, 2, 2, 1, 2)]
)
def test_deformable_convolution(agrees, stride, padding, dilation, groups, deformable):
    x, weight, bias = torch.randn(2, 4, 7, 8), torch.randn(6, 4 // groups, 3, 3), torch.randn(6)
    oh, ow = ((size + 2 * padding - 2 * dilation - 1) // stride + 1 for size in (7, 8))
    offset = torch.randn(2, 27 * deformable, oh, ow)

    def operator(x, weight, offset, bias):
        return torch_npu.npu_deformable_conv2d(
            x, weight, offset, bias, [3, 3], [1, 1, stride, stride], [padding] * 4, [1, 1, dilation, dilation],
            groups, deformable,
        )  # fmt: skip

    def formula(x, weight, offset, bias):
        return deformed(x, weight, offset, bias, stride, padding, dilation, groups, deformable)

    agrees(operator, formula, x, weight, offset, bias)


def test_without_shifts_it_is_a_convolution():
    x, weight = torch.randn(1, 3, 6, 6), torch.randn(5, 3, 3, 3)
    offset = torch.cat((torch.zeros(1, 18, 6, 6), torch.ones(1, 9, 6, 6)), 1)
    y, samples = torch_npu.npu_deformable_conv2d(
        x.npu(), weight.npu(), offset.npu(), None, [3, 3], [1, 1, 1, 1], [1, 1, 1, 1]
    )
    torch.testing.assert_close(y.cpu(), F.conv2d(x, weight, padding=1), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(F.conv2d(samples.cpu(), weight, stride=3), y.cpu(), rtol=1e-4, atol=1e-4)
    with pytest.raises(NotImplementedError, match="modulated=False"):
        torch_npu.npu_deformable_conv2d(
            x.npu(), weight.npu(), offset.npu(), None, [3, 3], [1] * 4, [1] * 4, [1] * 4, 1, 1, False
        )
