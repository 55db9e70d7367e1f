import math

import pytest
import torch
import torch_npu


def iou(a, b):
    low, high = torch.maximum(a[:2], b[:2]), torch.minimum(a[2:4], b[2:4])
    inner = (high - low).clamp(min=0).prod()
    return inner / ((a[2:4] - a[:2]).prod() + (b[2:4] - b[:2]).prod() - inner)


def greedy(boxes, scores, threshold):
    chosen = []
    for i in scores.argsort(descending=True).tolist():
        if all(iou(boxes[i], boxes[j]) <= threshold for j in chosen):
            chosen.append(i)
    return chosen


@pytest.fixture
def many():
    corner = torch.rand(40, 2) * 20
    return torch.cat((corner, corner + 4 + torch.rand(40, 2) * 8), 1), torch.rand(40)


def test_nms_with_mask(many):
    boxes, scores = many
    rows = torch.cat((boxes, scores[:, None], torch.zeros(40, 3)), 1)
    selected, index, mask = torch_npu.npu_nms_with_mask(rows.npu(), 0.3)
    assert sorted(greedy(boxes, scores, 0.3)) == mask.nonzero().flatten().tolist()
    assert (selected.shape, index.dtype, mask.dtype) == ((40, 5), torch.int32, torch.uint8)


def test_nms_v4(many):
    boxes, scores = many
    limits = torch.tensor(0.3).npu(), torch.tensor(0.2).npu()
    chosen, count = torch_npu.npu_nms_v4(boxes.npu(), scores.npu(), 40, *limits)
    expected = [i for i in greedy(boxes, scores, 0.3) if scores[i] > 0.2]
    assert chosen.tolist() == expected
    assert count.item() == len(expected)
    padded, count = torch_npu.npu_nms_v4(boxes.npu(), scores.npu(), 3, *limits, pad_to_max_output_size=True)
    assert padded.tolist() == expected[:3]
    assert padded.dtype is count.dtype is torch.int32


def test_batch_nms(many):
    boxes, scores = many
    marks = torch.stack((scores, 1 - scores), 1)
    found, best, classes, counts = torch_npu.npu_batch_nms(
        boxes[None, :, None].half().npu(), marks[None].half().npu(), 0.05, 0.3, 40, 100
    )
    half = boxes.half().float()
    expected = sum(len(greedy(half, marks[:, c].half().float(), 0.3)) for c in range(2))
    assert abs(counts.item() - expected) <= 1  # a score of exactly 0.05 may round to either side
    assert (found.shape, best.shape, classes.shape) == ((1, 100, 4), (1, 100), (1, 100))
    assert best[0, : counts.item()].diff().max() <= 0
    assert not found[0, counts.item() :].any()
    assert set(classes[0].tolist()) == {0.0, 1.0}


def test_rotated_overlaps_agree_with_a_grid_of_points():
    first = torch.tensor([[0.0, 0, 4, 2, 30], [3, 0, 2, 2, 0]])
    second = torch.tensor([[1.0, 0.5, 3, 3, 70]])
    areas = torch_npu.npu_rotated_overlaps(first.T[None].npu(), second.T[None].npu(), True).cpu()
    ious = torch_npu.npu_rotated_iou(first.T[None].npu(), second.T[None].npu(), True).cpu()
    step = 0.01
    grid = torch.stack(torch.meshgrid(torch.arange(-6, 6, step), torch.arange(-6, 6, step), indexing="ij"), -1)

    def inside(box):
        x, y, w, h, angle = box.tolist()
        a = math.radians(angle)
        dx, dy = grid[..., 0] - x, grid[..., 1] - y
        u, v = dx * math.cos(a) + dy * math.sin(a), dy * math.cos(a) - dx * math.sin(a)
        return (u.abs() <= w / 2) & (v.abs() <= h / 2)

    for i in range(2):
        inner = (inside(first[i]) & inside(second[0])).sum() * step * step
        assert areas[0, i, 0].item() == pytest.approx(inner.item(), abs=0.05)
        total = first[i, 2:4].prod() + second[0, 2:4].prod() - inner
        assert ious[0, i, 0].item() == pytest.approx((inner / total).item(), abs=0.02)


def test_nms_rotated_without_angles_is_nms(many):
    boxes, scores = many
    centre = torch.cat(((boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2], torch.zeros(40, 1)), 1)
    chosen, count = torch_npu.npu_nms_rotated(centre.npu(), scores.npu(), 0.3)
    assert chosen.tolist() == greedy(boxes, scores, 0.3)
    assert count.item() == len(chosen)
    with pytest.raises(RuntimeError, match=r"\[npu_nms_rotated-mode\]"):
        torch_npu.npu_nms_rotated(centre.npu(), scores.npu(), 0.3, mode=1)
