import pytest
import torch
import torch.nn.functional as F
import torch_npu


def test_one_hot():
    index = torch.tensor([5, 3, 2, 1], dtype=torch.int32)
    ours = torch_npu.npu_one_hot(index.npu(), depth=5)
    assert ours.dtype is torch.float32
    torch.testing.assert_close(ours.cpu(), F.one_hot(index.long(), 6)[:, :5].float())
    torch.testing.assert_close(
        torch_npu.npu_one_hot(index.npu(), -1, 6, 3, -1).cpu().max(-1).values, torch.full((4,), 3.0)
    )


def test_pad_slice_broadcast_and_sort(agrees):
    x = torch.randn(3, 5)
    agrees(torch_npu.npu_pad, lambda t, p: F.pad(t, (2, 3, 0, 1)), x, [0, 1, 2, 3], gradients=False)
    agrees(torch_npu.npu_slice, lambda t, o, s: t[1:3, 2:], x, [1, 2], [2, -1], gradients=False)
    agrees(torch_npu.npu_broadcast, lambda t, s: t.expand(s), x, [2, 3, 5], gradients=False)
    agrees(torch_npu.npu_sort_v2, lambda t: t.sort(-1).values, x, gradients=False)
    agrees(lambda t: torch_npu.npu_sort_v2(t, 0, True), lambda t: t.sort(0, descending=True).values, x, gradients=False)
    out = torch.empty(2, 3, 5).npu()
    torch_npu.npu_broadcast(x.npu(), [2, 3, 5], out=out)
    torch.testing.assert_close(out[1].cpu(), x)


def test_indexing_as_slices():
    x = torch.arange(24).view(2, 3, 4)
    y = x.npu()
    assert torch.equal(torch_npu.npu_indexing(y, [0, 1], [2, 3], [1, 1]).cpu(), x[0:2, 1:3])
    assert torch.equal(torch_npu.npu_indexing(y, [1, 0, 3], [2, 3, 0], [1, 2, 1], 0, 4).cpu(), x[1:2, 0:3:2, 3:])
    assert torch.equal(torch_npu.npu_indexing(y, [0, 1], [0, 2], [1, 1], ellipsis_mask=1).cpu(), x[..., 1:2])
    assert torch.equal(torch_npu.npu_indexing(y, [1], [2], [1], shrink_axis_mask=1).cpu(), x[1])
    assert torch_npu.npu_indexing(y, [0], [1], [1], new_axis_mask=1).shape == (1, 2, 3, 4)


@pytest.mark.parametrize("keepdim", [True, False])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_max_and_min(agrees, dim, keepdim):
    x = torch.randperm(24).view(2, 3, 4).float()
    for ours, theirs in ((torch_npu.npu_max, torch.max), (torch_npu.npu_min, torch.min)):
        agrees(ours, lambda t, d, k, f=theirs: f(t, d, k)[0], x, dim, keepdim)
        indices = ours(x.npu(), dim, keepdim)[1]
        assert indices.dtype is torch.int32
        assert torch.equal(indices.cpu().long(), theirs(x, dim, keepdim)[1])


def test_random_choice():
    x = torch.rand(6, 7) < 0.5
    indices, real = torch_npu.npu_random_choice_with_mask(x.npu(), 0)
    assert sorted(map(tuple, indices.tolist())) == sorted(map(tuple, x.nonzero().tolist()))
    assert real.all()
    indices, real = torch_npu.npu_random_choice_with_mask(x.npu(), 100, 1, 0)
    assert real.sum() == x.sum()
    assert indices.shape == (100, 2)
    again = torch_npu.npu_random_choice_with_mask(x.npu(), 100, 1, 0)[0]
    assert torch.equal(indices, again)


def test_scattering():
    x = torch.zeros(2, 6, 3)
    updates = torch.randn(2, 2, 3)
    ours = torch_npu.scatter_update(x.npu(), torch.tensor([1, 3]).npu(), updates.npu(), 1).cpu()
    x[0, 1:3], x[1, 3:5] = updates[0], updates[1]
    assert torch.equal(ours, x)
    target = torch.zeros(4, 3).npu()
    torch_npu.npu_scatter_nd_update_(target, torch.tensor([[2], [0]]).npu(), torch.ones(2, 3).npu())
    assert target.sum(1).tolist() == [3, 0, 3, 0]


def test_gather_sparse_index(agrees):
    index = torch.tensor([[0, 2], [2, 2]])
    agrees(lambda t: torch_npu.npu_gather_sparse_index(t, index.npu()), lambda t: t[index], torch.randn(4, 3))


def test_signs_survive_packing():
    x = torch.randn(5, 8)
    packed = torch_npu.npu_sign_bits_pack(x.flatten().npu(), 1)
    assert (packed.shape, packed.dtype) == ((1, 5), torch.uint8)
    back = torch_npu.npu_sign_bits_unpack(packed.flatten(), 1, torch.float32)
    assert torch.equal(back.cpu().view(5, 8), torch.where(x >= 0, 1.0, -1.0))


def test_top_k_top_p():
    logits = torch.tensor([[0.0, 1.0, 2.0, 3.0], [4.0, 3.0, 2.0, 1.0]])
    k, p = torch.tensor([2, 4], dtype=torch.int32), torch.tensor([1.0, 0.5])
    ours = torch_npu.npu_top_k_top_p(logits.npu(), p.npu(), k.npu()).cpu()
    assert ours.isneginf().tolist() == [[True, True, False, False], [False, True, True, True]]
