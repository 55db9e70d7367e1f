"""torchvision and timm: ten random models of each, trained a step; a detector; boxes, regions and transforms.

torchvision's operators run on the CPU with a warning, as on NPUs without Ascend's torchvision_npu.

Batch norm over a few pictures makes much of rounding: how much is seen from the CPU's float32 beside its float64. An
element that rounding takes to the other side of a ReLU's edge changes gradients at once, by some hundredths.
"""

import copy
import subprocess

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


def step(model, pictures, device, dtype):
    """The loss and all gradients of a step, in one vector, and on which side of its edges each element of a ReLU is."""
    model = copy.deepcopy(model).to(device, dtype).train()
    sides = []
    for module in model.modules():
        if type(module).__name__ in DROPS:
            module.eval()
        if isinstance(module, (torch.nn.ReLU, torch.nn.ReLU6)):
            module.register_forward_hook(lambda _, given, out: sides.append(((out > 0).int() + (out >= 6)).cpu()))
    logits = model(pictures.to(device, dtype))
    logits = logits[0] if isinstance(logits, tuple) else logits
    loss = F.cross_entropy(logits, torch.arange(len(pictures), device=device))
    loss.backward()
    found = [each.grad for each in model.parameters() if each.grad is not None]
    assert {each.device.type for each in found} == {device}
    return torch.cat(
        [loss.detach().reshape(1).cpu().double(), *(each.cpu().double().flatten() for each in found)]
    ), sides


def compare(model, side):
    pictures = torch.randn(4, 3, side, side)
    expected, edges = step(model, pictures, "cpu", torch.float64)
    (here, met), (there, _) = (step(model, pictures, device, torch.float32) for device in ("npu", "cpu"))
    turned = sum(int((one != other).sum()) for one, other in zip(met, edges, strict=True))
    assert turned <= 5
    assert (here - expected).norm() <= 5 * (there - expected).norm() + (0.05 if turned else 1e-5) * expected.norm()
    assert_close(here[0], expected[0], rtol=1e-4, atol=1e-4)


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
        (lambda *args: ops.ps_roi_align(*args, 2, sampling_ratio=2), (maps, regions)),
        (ops.deform_conv2d, (maps, torch.randn(2, 18, 14, 14), torch.randn(3, 4, 3, 3))),
        (ops.box_iou, (boxes, boxes)),
    ):
        there = call(*(each.npu() for each in given))
        assert there.device.type == "npu"
        assert_close(there.cpu(), call(*given), rtol=1e-4, atol=1e-5)


def test_an_operator_of_torchvision_says_that_it_runs_on_the_cpu(gpu2npu):
    code = "import torch, torchvision; torchvision.ops.nms(torch.rand(4, 4).npu(), torch.rand(4).npu(), 0.5)"
    done = subprocess.run([gpu2npu, "run", "python", "-c", code], capture_output=True, text=True, check=True)
    assert "operator 'torchvision::nms' is not currently supported on the NPU backend" in done.stderr


def test_a_detector_of_torchvision_trains_as_on_the_cpu():
    """All anchors and boxes count, since the devices would draw others of them."""
    every = dict.fromkeys(("rpn_batch_size_per_image", "box_batch_size_per_image"), 1 << 20)
    sizes = {"min_size": 96, "max_size": 96, "num_classes": 3}
    model = torchvision.models.detection.fasterrcnn_mobilenet_v3_large_320_fpn(
        weights=None, weights_backbone=None, **sizes, **every
    )
    pictures = [torch.rand(3, 96, 96) for _ in range(2)]
    targets = [{"boxes": torch.tensor([[8.0, 9, 50, 60]]), "labels": torch.tensor([kind])} for kind in (1, 2)]

    def trained(device):
        there = copy.deepcopy(model).to(device).train()
        given = [{name: each.to(device) for name, each in target.items()} for target in targets]
        losses = there([picture.to(device) for picture in pictures], given)
        sum(losses.values()).backward()
        norms = {name: each.grad.norm().cpu() for name, each in there.named_parameters() if "head" in name}
        return {name: loss.detach().cpu() for name, loss in losses.items()} | norms

    assert_close(trained("npu"), trained("cpu"), rtol=1e-2, atol=1e-4)


def test_transforms_of_torchvision_on_tensors_of_the_npu():
    from torchvision.transforms import v2

    pictures = torch.rand(2, 3, 40, 50)
    change = v2.Compose([v2.Resize(32), v2.CenterCrop(24), v2.RandomHorizontalFlip(1.0), v2.Normalize([0.5], [0.2])])
    assert_close(change(pictures.npu()).cpu(), change(pictures), rtol=1e-4, atol=1e-4)
