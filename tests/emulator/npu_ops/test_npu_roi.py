import pytest
import torch
import torch.nn.functional as F
import torch_npu


def roi_align(x, rois, scale, height, width, samples, shift=0.0):
    """Bilinear samples by grid_sample, whose border is not ROIAlign's: for regions inside the image."""
    results = []
    for roi in rois:
        x1, y1, x2, y2 = (roi[1:] * scale - shift).tolist()
        ys = y1 + (torch.arange(height * samples) + 0.5) * (y2 - y1) / (height * samples)
        xs = x1 + (torch.arange(width * samples) + 0.5) * (x2 - x1) / (width * samples)
        grid = torch.stack(torch.meshgrid(ys, xs, indexing="ij")[::-1], -1)
        grid = grid / (torch.tensor([x.shape[3], x.shape[2]]) - 1) * 2 - 1
        y = F.grid_sample(x[int(roi[0])][None], grid[None].to(x), align_corners=True)
        results.append(F.avg_pool2d(y, samples))
    return torch.cat(results)


@pytest.mark.parametrize("mode", [0, 2, 3])
def test_roi_align_and_its_gradient(mode):
    x = torch.randn(2, 3, 12, 14)
    rois = torch.tensor([[0, 2.0, 4, 18, 20], [1, 1, 1, 9, 15], [0, 6, 6, 22, 12]])
    ours = torch_npu.npu_roi_align(x.npu(), rois.npu(), 0.5, 3, 2, 2, mode)
    reference = x.clone().requires_grad_()
    theirs = roi_align(reference, rois, 0.5, 3, 2, 2, 0.5 if mode else 0.0)
    torch.testing.assert_close(ours.cpu(), theirs.detach(), rtol=1e-4, atol=1e-4)
    flow = torch.randn_like(theirs)
    theirs.backward(flow)
    grad = torch_npu.npu_roi_alignbk(flow.npu(), rois.npu(), list(x.shape), 2, 3, 0.5, 2, mode)
    torch.testing.assert_close(grad.cpu(), reference.grad, rtol=1e-4, atol=1e-4)


def test_the_documented_example_of_roi_align():
    x = torch.arange(1.0, 37).view(1, 1, 6, 6).npu()
    out = torch_npu.npu_roi_align(x, torch.tensor([[0, -2.0, -2.0, 22.0, 22.0]]).npu(), 0.25, 3, 3, 2, 0)
    documented = [[[[4.5, 6.5, 8.5], [16.5, 18.5, 20.5], [28.5, 30.5, 32.5]]]]
    torch.testing.assert_close(out.cpu(), torch.tensor(documented))
    with pytest.raises(NotImplementedError, match="roi_end_mode 4"):
        torch_npu.npu_roi_align(x, torch.zeros(1, 5).npu(), 0.25, 3, 3, 2, 4)


def test_position_sensitive_pooling_and_its_gradient():
    x = torch.randn(1, 2 * 4, 8, 8)
    rois = torch.tensor([[[0.0], [0], [0], [7], [3]]])  # x 0 to 7, y 0 to 3

    def formula(t):
        blocks = t.view(2, 2, 2, 8, 8)
        bins = [
            [blocks[:, i, j, 2 * i : 2 * i + 2, 4 * j : 4 * j + 4].mean((1, 2)) for j in range(2)] for i in range(2)
        ]
        return torch.stack([torch.stack(row, -1) for row in bins], -2)[None]

    ours, theirs = x.npu().requires_grad_(), x.clone().requires_grad_()
    y = torch_npu.npu_ps_roi_pooling(ours, rois.npu(), 1.0, 2, 2)
    torch.testing.assert_close(y.detach().cpu(), formula(x))
    flow = torch.randn(1, 2, 2, 2)
    y.backward(flow.npu())
    formula(theirs).backward(flow)
    torch.testing.assert_close(ours.grad.cpu(), theirs.grad)
