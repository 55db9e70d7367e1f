"""Quantization-aware training: its operators are not the NPU's, and fall back to the CPU."""

import pytest
import torch
from torch.ao import quantization

pytestmark = [pytest.mark.usefixtures("borrowing"), pytest.mark.filterwarnings("ignore")]


def test_fake_quantization():
    values, scales, zeros = torch.randn(3, 4), torch.tensor([0.1, 0.2, 0.3]), torch.zeros(3, dtype=torch.int32)
    grads = []
    for device in ("cpu", "npu"):
        given = values.to(device, copy=True).requires_grad_()
        by_tensor = torch.fake_quantize_per_tensor_affine(given, 0.1, 3, 0, 15)
        by_channel = torch.fake_quantize_per_channel_affine(given, scales.to(device), zeros.to(device), 0, -8, 7)
        (by_tensor * by_channel).sum().backward()
        grads.append((by_tensor.detach().cpu(), by_channel.detach().cpu(), given.grad.cpu()))
    for npu, cpu in zip(*grads, strict=True):
        assert torch.equal(npu, cpu)


def trained(device):
    torch.manual_seed(0)
    layers = (torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten())
    model = torch.nn.Sequential(
        quantization.QuantStub(), *layers, torch.nn.Linear(144, 5), quantization.DeQuantStub()
    ).train()
    model.qconfig = quantization.get_default_qat_qconfig("fbgemm")
    quantization.prepare_qat(model, inplace=True).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for _ in range(4):
        loss = model(torch.randn(2, 3, 8, 8).to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    observed = model[1].weight_fake_quant.activation_post_process.min_val.cpu()  # grew from no element to one a channel
    return losses, observed, quantization.convert(model.cpu().eval())(torch.ones(1, 3, 8, 8))


def test_a_model_trains_and_is_converted_on_the_cpu():
    (losses, observed, output), (losses_npu, observed_npu, output_npu) = trained("cpu"), trained("npu")
    assert losses_npu == pytest.approx(losses, rel=1e-3)
    assert observed_npu.shape == (4,)
    torch.testing.assert_close(observed_npu, observed, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(output_npu, output, rtol=0.05, atol=0.05)
