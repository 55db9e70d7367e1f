"""torchvision and timm: ten random models of each, trained a step; boxes, regions and transforms.

Batch norm over a few pictures makes much of rounding: how much is seen from the CPU's float32 beside its float64.
"""

import copy

import pytest
import timm
import torch
import torch.nn.functional as F
import torchvision
from torch.testing import assert_close

TORCHVISION = (
    "resnet18", "mobilenet_v3_small", "shufflenet_v2_x0_5", "squeezenet1_1", "mnasnet0_5", "regnet_y_400mf",
    "efficientnet_b0", "mobilenet_v2", "convnext_tiny", "swin_t",
)  # fmt: skip
TIMM = (
    "resnet10t", "vit_tiny_patch16_224", "convnext_atto", "mobilenetv4_conv_small", "efficientnet_lite0", "regnetx_002",
    "repvgg_a0", "levit_128s", "edgenext_xx_small", "gmixer_12_224",
)  # fmt: skip
DROPS = ("Dropout", "Dropout2d", "StochasticDepth", "DropPath")  # the two devices draw other numbers
SIZES = {"vit_tiny_patch16_224": 224, "levit_128s": 224, "gmixer_12_224": 224}


def gradients(model, pictures, device, dtype):
    """The loss and all gradients of a step, in one vector."""
    model = copy.deepcopy(model).to(device, dtype).train()
    for module in model.modules():
        if type(module).__name__ in DROPS:
            module.eval()
    logits = model(pictures.to(device, dtype))
    logits = logits[0] if isinstance(logits, tuple) else logits
    loss = F.cross_entropy(logits, torch.arange(len(pictures), device=device))
    loss.backward()
    found = [each.grad for each in model.parameters() if each.grad is not None]
    assert {each.device.type for each in found} == {device}
    return torch.cat([loss.detach().reshape(1).cpu().double(), *(each.cpu().double().flatten() for each in found)])


def compare(model, side):
    pictures = torch.randn(4, 3, side, side)
    expected = gradients(model, pictures, "cpu", torch.float64)
    here, there = (gradients(model, pictures, device, torch.float32) for device in ("npu", "cpu"))
    assert (here - expected).norm() <= 5 * (there - expected).norm() + 1e-5 * expected.norm()
    assert abs(here[0] - expected[0]) < 1e-4


@pytest.mark.parametrize("name", TORCHVISION)
def test_a_model_of_torchvision_trains_as_on_the_cpu(name):
    compare(torchvision.models.get_model(name, weights=None, num_classes=5), 64)


@pytest.mark.parametrize("name", TIMM)
def test_a_model_of_timm_trains_as_on_the_cpu(name):
    compare(timm.create_model(name, num_classes=5), SIZES.get(name, 64))


def test_boxes_and_regions_of_torchvision():
    corners = torch.rand(40, 2) * 20
    boxes, scores = torch.cat((corners, corners + 1 + torch.rand(40, 2) * 10), 1), torch.rand(40)
    groups, maps = torch.randint(0, 3, (40,)), torch.randn(2, 4, 16, 16)
    regions = torch.cat((torch.randint(0, 2, (40, 1)).float(), boxes / 2), 1)
    ops = torchvision.ops
    for call, given in (
        (lambda *args: ops.nms(*args, 0.3), (boxes, scores)),
        (lambda *args: ops.batched_nms(*args, 0.3), (boxes, scores, groups)),
        (lambda *args: ops.roi_align(*args, 3, sampling_ratio=2), (maps, regions)),
        (lambda *args: ops.roi_pool(*args, 3), (maps, regions)),
        (ops.box_iou, (boxes, boxes)),
    ):
        there = call(*(each.npu() for each in given))
        assert there.device.type == "npu"
        assert_close(there.cpu(), call(*given), rtol=1e-4, atol=1e-5)


def test_transforms_of_torchvision_on_tensors_of_the_npu():
    from torchvision.transforms import v2

    pictures = torch.rand(2, 3, 40, 50)
    change = v2.Compose([v2.Resize(32), v2.CenterCrop(24), v2.RandomHorizontalFlip(1.0), v2.Normalize([0.5], [0.2])])
    assert_close(change(pictures.npu()).cpu(), change(pictures), rtol=1e-4, atol=1e-4)
