import math

import pytest
import torch
import torch_npu

from gpu2npu.emulator.npu_ops import boxes as operators
from gpu2npu.emulator.soc import SOCS


def corners(boxes, trans):
    if not trans:
        return boxes
    x, y, w, h = boxes
    return torch.stack((x - w / 2, y - h / 2, x + w / 2, y + h / 2))


def parts(a, b, trans, is_cross):
    a, b = corners(a, trans), corners(b, trans)
    if is_cross:
        a, b = a[:, None, :], b[:, :, None]
    low, high = torch.maximum(a[:2], b[:2]), torch.minimum(a[2:], b[2:])
    inner = (high - low).clamp(min=0).prod(0)
    sizes = a[2:] - a[:2], b[2:] - b[:2]
    outer = sizes[0].prod(0) + sizes[1].prod(0) - inner
    enclosing = torch.maximum(a[2:], b[2:]) - torch.minimum(a[:2], b[:2])
    distance = ((a[:2] + a[2:] - b[:2] - b[2:]) / 2).pow(2).sum(0)
    return inner / outer, outer, enclosing, distance, sizes


def giou(a, b, trans):
    iou, outer, enclosing, _, _ = parts(a, b, trans, False)
    return (iou - (enclosing.prod(0) - outer) / enclosing.prod(0))[:, None]


def diou(a, b, trans=False, is_cross=False):
    iou, _, enclosing, distance, _ = parts(a, b, trans, is_cross)
    y = iou - distance / enclosing.pow(2).sum(0)
    return y if is_cross else y[None]


def ciou(a, b, trans=False, is_cross=False):
    iou, _, _, _, ((aw, ah), (bw, bh)) = parts(a, b, trans, is_cross)
    v = 4 / math.pi**2 * (torch.atan(bw / bh) - torch.atan(aw / ah)) ** 2
    weight = (v / (1 + v - iou)).detach()
    y = weight * v
    return diou(a, b, trans, is_cross) - (y if is_cross else y[None])


def boxes(n, trans=True):
    made = torch.cat((torch.rand(2, n), torch.rand(2, n) + 0.5))
    return made if trans else corners(made, True)


@pytest.mark.usefixtures("beyond_the_table")
@pytest.mark.parametrize(("name", "formula"), [("npu_diou", diou), ("npu_ciou", ciou)])
@pytest.mark.parametrize("trans", [True, False])
@pytest.mark.parametrize("is_cross", [True, False])
def test_losses_of_boxes(agrees, name, formula, trans, is_cross):
    second = boxes(3 if is_cross else 5, trans)
    agrees(getattr(torch_npu, name), formula, boxes(5, trans), second, trans=trans, is_cross=is_cross)


def test_the_generalised_overlap_of_pairs(agrees):
    """op-plugin's GiouKernelNpu.cpp: (n, 1), and one way to call it."""
    agrees(torch_npu.npu_giou, giou, boxes(5), boxes(5), trans=True)
    same = torch.rand(4, 10).half().npu()
    assert torch_npu.npu_giou(same, same, trans=True).cpu().tolist() == [[1.0]] * 10  # torch_npu's documented example
    two = torch.rand(4, 2).npu()
    for refused in ({"trans": False}, {"trans": True, "is_cross": True}, {"trans": True, "mode": 1}):
        with pytest.raises(RuntimeError, match="giou backward only support trans==True"):
            torch_npu.npu_giou(two, two, **refused)
    with pytest.raises(RuntimeError, match=r"shape \[4, n\]"):
        torch_npu.npu_giou(two.t(), two.t(), trans=True)


SQUARES = torch.tensor([[0, 0, 10, 10], [10, 10, 20, 20], [32, 32, 38, 42]])
TRUTH = torch.tensor([[0, 0, 10, 20], [0, 10, 10, 10], [10, 10, 20, 20]])
SMALL = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16]])


@pytest.mark.parametrize("name", ["npu_iou", "npu_ptiou"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize(
    ("first", "second", "mode", "documented"),
    [
        (SQUARES, TRUTH, 0, [[0.4985, 0, 0], [0, 0, 0], [0, 0.9961, 0]]),
        (SQUARES, TRUTH, 1, [[0.4990, 0, 0], [0, 0, 0], [0, 0.9980, 0]]),
        (SMALL, SMALL[:2], 0, [[0.9805, 0, 0, 0], [0, 0.9805, 0, 0]]),
        (SMALL, SMALL[:2], 1, [[0.9902, 0, 0, 0], [0, 0.9902, 0, 0]]),
    ],
)
def test_overlaps_of_all_pairs_are_the_documented_ones(name, dtype, first, second, mode, documented):
    """The values in torch_npu's documents and in its test/network_ops/test_iou.py, which allows 0.001."""
    ours = getattr(torch_npu, name)(first.to(dtype).npu(), second.to(dtype).npu(), mode)
    assert ours.dtype is dtype
    torch.testing.assert_close(ours.cpu().float(), torch.tensor(documented, dtype=torch.float32), atol=1e-3, rtol=0)


def test_the_documented_example_of_decoding():
    regions = torch.tensor([[1.0, 2.0, 3.0, 4.0], [3.0, 4.0, 5.0, 6.0]]).npu()
    deltas = torch.tensor([[5.0, 6.0, 7.0, 8.0], [7.0, 8.0, 9.0, 6.0]]).npu()
    ours = torch_npu.npu_bounding_box_decode(regions, deltas, 0, 0, 0, 0, 1, 1, 1, 1, (10, 10), 0.1)
    torch.testing.assert_close(ours.cpu(), torch.tensor([[2.5, 6.5, 9, 9], [9, 9, 9, 9]]), rtol=1e-4, atol=0)


def test_the_documented_example_of_encoding(monkeypatch):
    anchors = torch.tensor([[1.0, 2.0, 3.0, 4.0], [3.0, 4.0, 5.0, 6.0]]).npu()
    truth = torch.tensor([[5.0, 6.0, 7.0, 8.0], [7.0, 8.0, 9.0, 6.0]]).npu()
    ours = torch_npu.npu_bounding_box_encode(anchors, truth, 0, 0, 0, 0, 0.1, 0.1, 0.2, 0.2)
    documented = torch.tensor([[13.3281, 13.3281, 0, 0], [13.3281, 6.6641, 0, math.nan]])
    torch.testing.assert_close(ours.cpu(), documented, rtol=1e-3, atol=1e-3, equal_nan=True)
    monkeypatch.setattr(operators, "current_soc", lambda: SOCS["Ascend910A"])
    ours = torch_npu.npu_bounding_box_encode(anchors, truth, 0, 0, 0, 0, 0.1, 0.1, 0.2, 0.2)
    documented[1, 3] = -5.4922
    torch.testing.assert_close(ours.cpu(), documented, rtol=1e-3, atol=1e-3)


def test_decoding_undoes_encoding_within_the_image():
    anchors = torch.rand(20, 2) * 40
    anchors = torch.cat((anchors, anchors + 5 + torch.rand(20, 2) * 20), 1).npu()
    truth = anchors + torch.rand(20, 4).npu() * 4
    coder = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
    deltas = torch_npu.npu_bounding_box_encode(anchors, truth, *coder)
    back = torch_npu.npu_bounding_box_decode(anchors, deltas, *coder, (200, 200), 16 / 1000)
    torch.testing.assert_close(back, truth, rtol=1e-3, atol=0.03)  # the offsets have float16's precision
    clipped = torch_npu.npu_bounding_box_decode(anchors, deltas, *coder, (30, 20), 16 / 1000)
    assert clipped[:, 0::2].max() <= 19
    assert clipped[:, 1::2].max() <= 29


@pytest.mark.parametrize(("every", "expected"), [(True, [1, 3, 3, 7]), (False, [1, 3, 7, 7])])
def test_boxes_are_assigned_to_what_they_overlap_most(every, expected):
    given, overlaps = torch.full((4,), 7.0), torch.tensor([[0.1] * 4, [0.6, 0.0, 0.0, 0.9], [0.2, 0.7, 0.7, 0.9]])
    responsible, most = torch.tensor([1, 1, 1, 0], dtype=torch.uint8), torch.tensor([0.6, 0.0, 0.0, 0.9])
    number, best = torch.tensor([0, 0, 0, 1], dtype=torch.int32), torch.tensor([0, 3, 1], dtype=torch.int32)
    arguments = given, overlaps, responsible, most, number, torch.tensor([0.1, 0.9, 0.7]), best
    ours = torch_npu.npu_grid_assign_positive(*(each.npu() for each in arguments), 9, 0.5, 0.2, every)
    assert ours.tolist() == expected


def test_anchors_respond_where_centres_are():
    found = torch_npu.npu_anchor_response_flags(
        torch.tensor([[2.0, 4, 6, 8], [90, 90, 99, 99]]).npu(), [5, 6], [4, 4], 3
    )
    assert (found.shape, found.dtype) == ((90,), torch.uint8)
    assert found.nonzero().flatten().tolist() == [3 * (1 * 6 + 1) + k for k in range(3)]


def test_yolo_offsets():
    anchors = torch.tensor([[0.0, 0.0, 8.0, 8.0]]).npu()
    truth = torch.tensor([[1.0, 2.0, 9.0, 18.0]]).npu()
    ours = torch_npu.npu_yolo_boxes_encode(anchors, truth, torch.tensor([16], dtype=torch.int32).npu())
    torch.testing.assert_close(ours.cpu(), torch.tensor([[0.5 + 1 / 16, 0.5 + 6 / 16, 0.0, math.log(2)]]))
