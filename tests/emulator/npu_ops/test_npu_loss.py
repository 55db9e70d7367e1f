import pytest
import torch
import torch.nn.functional as F
import torch_npu

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_cross_entropy(agrees, reduction, weighted, smoothing, dtype):
    target = torch.tensor([0, 4, 3, 2, 1])
    weight = torch.rand(5) + 0.2 if weighted else None

    def formula(x):
        y = F.cross_entropy(x, target, weight, ignore_index=3, reduction=reduction, label_smoothing=smoothing)
        return y if reduction == "none" else y.reshape(1)

    agrees(
        lambda x: torch_npu.npu_cross_entropy_loss(
            x, target.npu(), None if weight is None else weight.npu(), reduction, 3, smoothing
        ),
        formula, torch.randn(5, 5), dtype=dtype,
    )  # fmt: skip


def test_cross_entropy_keeps_log_probabilities_and_takes_classes_only():
    x = torch.randn(3, 4)
    target = torch.tensor([0, 1, 3]).npu()
    _, log_prob, zloss, lse = torch_npu.npu_cross_entropy_loss(x.npu(), target)
    torch.testing.assert_close(log_prob.cpu(), x.log_softmax(1))
    assert zloss.numel() == lse.numel() == 0
    with pytest.raises(RuntimeError, match=r"\[npu_cross_entropy_loss-target\]"):
        torch_npu.npu_cross_entropy_loss(x.npu(), torch.full_like(target, -100))  # ignored, and refused


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_cross_entropy_with_probabilities(agrees, dtype):
    labels = torch.rand(4, 6).softmax(1)
    agrees(
        lambda x: torch_npu.npu_softmax_cross_entropy_with_logits(x, labels.to(dtype).npu()),
        lambda x: F.cross_entropy(x, labels.to(dtype).float(), reduction="none"),
        torch.randn(4, 6), dtype=dtype,
    )  # fmt: skip
