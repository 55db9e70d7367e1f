import copy
import math

import pytest
import torch
import torch.nn.functional as F
import torch_npu
from torch import nn
from torch_npu import contrib
from torch_npu.contrib import function, module
from torch_npu.contrib.module import multihead_attention

from gpu2npu.support.release_tables import table_for


def test_every_public_name_of_the_release_exists():
    names = table_for("2.13.0").torch_npu_names
    for package in ("contrib", "optim", "profiler"):
        wanted = {name.rpartition(".")[2] for name in names if name.startswith(f"torch_npu.{package}.")}
        assert wanted
        assert [name for name in sorted(wanted) if not hasattr(getattr(torch_npu, package), name)] == []


@pytest.mark.parametrize("name", ["QuantConv2d", "FusedColorJitter"])
def test_what_is_not_done_says_so(name):
    with pytest.raises(NotImplementedError, match=rf"torch_npu\.contrib\.module\.{name}: the emulated NPU does not"):
        getattr(module, name)()


def test_linear_layers_of_quantized_weights():
    torch.manual_seed(0)
    x, weight = (torch.randint(-5, 5, (rows, 16), dtype=torch.int8) for rows in (3, 32))
    scale = torch.rand(32) / 100
    for made in (module.LinearQuant, module.LinearA8W8Quant):
        layer = made(16, 32, bias=False, output_dtype=torch.float16).npu()
        layer.weight.data, layer.scale.data = weight.npu(), scale.npu()
        expected = ((x.int() @ weight.int().t()) * scale).half()
        torch.testing.assert_close(layer(x.npu()).cpu(), expected, rtol=2e-3, atol=1e-3)
        with pytest.raises(ValueError, match=r"both torch\.int32 or both torch\.int8"):
            layer(x.float().npu())
    layer = module.LinearWeightQuant(16, 32, bias=False, antiquant_offset=True).npu()
    layer.weight.data = weight.npu()
    layer.antiquant_scale.data, layer.antiquant_offset.data = scale.half().npu(), torch.ones(32).half().npu()
    inputs = torch.randn(3, 16).half()
    expected = inputs.float() @ ((weight + 1).float() * scale.half().float()[:, None]).t()
    torch.testing.assert_close(layer(inputs.npu()).cpu().float(), expected, rtol=1e-2, atol=1e-2)


def test_activations_and_losses():
    x = torch.randn(3, 5)
    torch.testing.assert_close(contrib.Mish()(x.npu()).cpu(), F.mish(x), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(contrib.Swish()(x.npu()).cpu(), F.silu(x), rtol=1e-4, atol=1e-5)
    target = torch.tensor([0, 2, 4])
    ours = contrib.LabelSmoothingCrossEntropy(5, 0.1)(x.npu(), target.npu())
    labels = torch.full((3, 5), 0.1 / 4).scatter_(1, target[:, None], 0.9)
    torch.testing.assert_close(ours.cpu(), F.cross_entropy(x, labels), rtol=1e-4, atol=1e-5)


def test_layers_of_vision_and_recognition():
    a, b = torch.randn(2, 4, 3, 3).npu(), torch.randn(2, 4, 3, 3).npu()
    mixed = F.channel_shuffle(torch.cat((a, b), 1).cpu(), 2)
    assert torch.equal(contrib.ChannelShuffle(8, split_shuffle=False)(a, b).cpu(), mixed)
    assert torch.equal(contrib.ChannelShuffle(4, 4, False)(a, b), a)  # of more channels the last are lost
    first, second = contrib.ChannelShuffle(8)(a, b)
    assert torch.equal(torch.cat((first, second), 1).cpu(), mixed)
    focus = contrib.Focus(3, 8, 3).npu()
    assert focus(torch.randn(2, 3, 8, 8).npu()).shape == (2, 8, 4, 4)
    with pytest.warns(FutureWarning, match="BiLSTM is deprecated"):
        lstm = contrib.BiLSTM(4, 3)
    plain = nn.LSTM(4, 3, bidirectional=True)
    for name, value in lstm.fw_rnn.named_parameters():
        getattr(plain, name).data = value.data
        getattr(plain, f"{name}_reverse").data = getattr(lstm.bw_rnn, name).data
    x = torch.randn(5, 2, 4)
    torch.testing.assert_close(copy.deepcopy(lstm).npu()(x.npu()).cpu(), plain(x)[0], rtol=1e-4, atol=1e-5)
    norm = contrib.FastBatchNorm2d(4).npu()
    norm(a)
    assert norm.num_batches_tracked.dtype is torch.int32
    assert norm.num_batches_tracked.item() == 1


def test_pooling_of_regions_trains():
    x = torch.randn(1, 2, 8, 8).npu().requires_grad_()
    rois = torch.tensor([[0, 1.0, 1, 6, 6]]).npu()
    y = contrib.ROIAlign((3, 3), 1.0, 2, aligned=False)(x, rois)
    assert y.shape == (1, 2, 3, 3)
    y.sum().backward()
    assert x.grad.sum().item() == pytest.approx(2 * 9, rel=1e-4)  # every average passes its whole gradient on
    with pytest.raises(ValueError, match="only pooled_height"):
        contrib.PSROIPool(7, 6)


def test_deformable_convolution_begins_as_a_convolution_with_half_its_weight():
    layer = contrib.ModulatedDeformConv(3, 4, 3, padding=1).npu()
    x = torch.randn(2, 3, 6, 6).npu().requires_grad_()
    y = layer(x)
    torch.testing.assert_close(y, F.conv2d(x, layer.weight, padding=1) / 2, rtol=1e-4, atol=1e-4)
    y.pow(2).sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in layer.parameters())
    shifts = torch.zeros(2, 18, 6, 6).npu()
    shifts[:, ::2] = 1  # y of every point: one row down
    plain = contrib.DCNv2(3, 4, 3, padding=1, bias=False, pack=False).npu()
    moved = plain((x, shifts, torch.ones(2, 9, 6, 6).npu()))
    down = F.conv2d(F.pad(x, (0, 0, 0, 1))[:, :, 1:], plain.weight, padding=1)
    torch.testing.assert_close(moved[:, :, 1:-1], down[:, :, 1:-1], rtol=1e-4, atol=1e-4)


def test_boxes():
    a = torch.tensor([[0.0, 0, 10, 10], [5, 5, 15, 15]]).npu()
    b = torch.tensor([[0.0, 0, 10, 10], [0, 0, 5, 10], [20, 20, 30, 30]]).npu()
    with pytest.warns(FutureWarning, match="npu_iou is deprecated"):
        table = function.npu_iou(a, b, mode="iou")
    assert table.shape == (2, 3)
    torch.testing.assert_close(table[0].cpu(), torch.tensor([1, 0.5, 0]), rtol=5e-3, atol=1e-3)
    with pytest.warns(FutureWarning):
        pairs = function.npu_giou(a, a)
    assert pairs.shape == (2, 1)
    deltas = function.npu_bbox_coder_encode_xyxy2xywh(a, a + 1)
    torch.testing.assert_close(function.npu_bbox_coder_decode_xywh2xyxy(a, deltas), a + 1, rtol=1e-4, atol=1e-3)
    with pytest.raises(ValueError, match="Expected bboxes"):
        function.npu_bbox_coder_encode_xyxy2xywh(a, b)
    scores = torch.tensor([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.0, 0.7, 0.0]]).npu()
    found, classes = function.npu_multiclass_nms(b, scores, 0.05, 0.45, 5)
    assert (found.shape, classes.shape) == ((5, 5), (5,))
    assert [round(v, 1) for v in found[:, 4].tolist()] == [0.9, 0.8, 0.7, 0.0, 0.0]
    flags = function.npu_single_level_responsible_flags([4, 4], a, [4, 4], 2)
    assert flags.sum().item() == 4


def test_small_functions():
    x = torch.randn(2, 4, 4, 3)
    assert torch.equal(function.roll(x.npu(), (-1, 2), (1, 2)).cpu(), torch.roll(x, (-1, 2), (1, 2)))
    q, k = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    torch.testing.assert_close(function.matmul_transpose(q.npu(), k.npu()).cpu(), q @ k.transpose(1, 2))
    put = function.npu_fast_condition_index_put(x.npu(), (x > 0).npu(), 0.5).cpu()
    assert torch.equal(put, torch.where(x > 0, torch.tensor(0.5), x))
    with pytest.raises(TypeError, match=r"torch\.bool"):
        function.npu_fast_condition_index_put(x, x, 0)
    for height in (8, 128):
        scores, mask = torch.randn(4, 8, height, 16), torch.randn(4, 8, height, 16)
        ours = function.fuse_add_softmax_dropout(False, nn.Identity(), mask.npu(), scores.npu(), 64, 0.5)
        theirs = (scores / math.sqrt(64) + mask).softmax(-1)
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-4, atol=1e-5)


def test_attention_of_fairseq():
    torch.manual_seed(0)
    batch, length, heads, width = 2, 16, 16, 256
    x, mask = torch.randn(batch * length, width), torch.randn(batch, heads, length, length)
    layer = module.MultiheadAttention(width, heads, self_attention=True)
    assert layer.npu()(x.npu(), x.npu(), x.npu(), batch, length, length, mask.npu()) == (None, None)
    multihead_attention._MHAConfig.set_fussion()
    ours, _ = layer(x.npu(), x.npu(), x.npu(), batch, length, length, mask.npu())
    layer.cpu()
    q, k, v = (
        each(x).view(batch, length, heads, -1).transpose(1, 2) for each in (layer.q_proj, layer.k_proj, layer.v_proj)
    )
    theirs = F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).reshape(x.shape)
    torch.testing.assert_close(ours.cpu(), layer.out_proj(theirs), rtol=1e-3, atol=1e-3)
    with pytest.raises(RuntimeError, match="should align to 16"):
        module.MultiheadAttention(128, heads).npu()(*[torch.ones(32, 128).npu()] * 3, batch, length, length, mask.npu())


@pytest.mark.parametrize("layer", [nn.Linear(8, 6), nn.Conv2d(8, 6, 1), nn.Conv2d(2, 6, 2)])
def test_noise_drops_blocks_of_a_weight(layer):
    before = layer.weight.detach().clone()
    multihead_attention._quant_noise(layer, 0.5, 4)
    layer(torch.ones(1, 8) if before.dim() == 2 else torch.ones(1, before.shape[1], 3, 3))
    blocks = (layer.weight / (before * 2)).reshape(-1, 4)
    assert torch.equal(blocks.round(), blocks[:, :1].round().expand(-1, 4))
    assert set(blocks[:, 0].round().tolist()) == {0.0, 1.0}


def test_fused_attention_is_attention(monkeypatch):
    torch.manual_seed(0)
    monkeypatch.setattr(torch_npu.npu.config, "allow_internal_format", True, raising=False)
    matrices = [torch.randn(32, 768), torch.randn(2, 1, 16, 16), *(torch.randn(768, 768) / 30 for _ in "qkv")]
    vectors = [torch.randn(768) for _ in "qkvgb"]
    x, mask, *kernels = matrices
    *biases, gamma, beta = vectors

    def layers(x):
        return [(x @ w + b).view(2, 16, 12, 64).transpose(1, 2) for w, b in zip(kernels, biases, strict=True)]

    given = [torch_npu.npu_format_cast(each.npu(), 29) for each in matrices]
    with pytest.raises(RuntimeError, match="the formats of the tensors do not fit"):
        contrib.npu_fused_attention(*(each.npu() for each in (*matrices, *biases)), 0.125, 1.0)
    ours = contrib.npu_fused_attention(*given, *(each.npu() for each in biases), 0.125, 1.0)
    theirs = F.scaled_dot_product_attention(*layers(x), mask).transpose(1, 2).reshape(x.shape)
    torch.testing.assert_close(ours.cpu(), theirs, rtol=2e-3, atol=2e-3)
    with pytest.warns(FutureWarning):
        ours, normal = contrib.npu_fused_attention_with_layernorm(*given, *(v.npu() for v in vectors), 0.125, 1.0)
    torch.testing.assert_close(normal.cpu(), F.layer_norm(x, (768,), gamma, beta), rtol=1e-4, atol=1e-4)
    theirs = F.scaled_dot_product_attention(*layers(normal.cpu()), mask).transpose(1, 2).reshape(x.shape)
    torch.testing.assert_close(ours.cpu(), theirs, rtol=2e-3, atol=2e-3)


def test_dropout_that_is_drawn_ahead_begins_after_a_step():
    drop = module.NpuDropPath(0.5)
    module.NpuDropPath.enable_droppath_ensemble(drop)
    x = torch.ones(64, 3).npu()
    assert torch.equal(drop(x), x)  # the shape is new: nothing was drawn for it
    values = set(drop(x)[:, 0].tolist())
    assert values == {0.0, 2.0}
    assert torch.equal(drop.eval()(x), x)
    cached = module.NpuCachedDropout(0.5).eval()  # which torch_npu does not ask for
    module.NpuCachedDropout.enable_dropout_ensemble(cached)
    assert torch.equal(cached(x), x)
    assert set(cached(x).flatten().tolist()) == {0.0, 2.0}
    known, late = module.NpuPreGenDropout(0.5), nn.Module()
    module.NpuPreGenDropout.enable_dropout_ensemble(late)
    assert set(known(x).flatten().tolist()) == {0.0, 2.0}
    with pytest.raises(RuntimeError, match=r"p=0\.25 is not among those registered: \[0\.5\]"):
        module.NpuPreGenDropout(0.25)(x)
    byte = module.DropoutWithByteMask(0.5)
    assert set(byte(x).flatten().tolist()) == {0.0, 2.0}
    assert torch.equal(byte.eval()(x), x)


def test_a_prefetcher_ends_with_none():
    data = [(torch.full((2,), float(i)), torch.tensor([i])) for i in range(3)]
    prefetcher = contrib.Prefetcher(data)
    seen = []
    x, y = prefetcher.next()
    while x is not None:
        seen.append((x.device.type, y.item()))
        x, y = prefetcher.next()
    assert seen == [("npu", 0), ("npu", 1), ("npu", 2)]
