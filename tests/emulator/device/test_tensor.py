import copy

import numpy as np
import pytest
import torch

from gpu2npu.emulator.device.dispatch import support_table
from gpu2npu.emulator.device.tensor import array, host


def test_a_tensor_moves_and_says_where_it_is():
    x = torch.arange(6.0).view(2, 3)
    n = x.npu()
    assert type(n) is torch.Tensor
    assert n.device == torch.device("npu:0")
    assert n.is_npu
    assert not x.is_npu
    assert repr(n[0]) == "tensor([0., 1., 2.], device='npu:0')"
    assert n.type() == "torch.npu.FloatTensor"
    assert torch.equal(n.cpu(), x)
    assert x.to("npu:3").get_device() == 3
    assert n.to("npu:0") is n
    assert n.npu() is n
    assert n.tolist() == x.tolist()
    assert n[1, 2].item() == 5.0


@pytest.mark.parametrize(
    "dtype",
    ["float32", "float16", "bfloat16", "float64", "int64", "int8", "uint8", "bool", "complex64"],
)
def test_every_dtype_survives_the_way_there_and_back(dtype):
    dtype = getattr(torch, dtype)
    x = torch.tensor([[0.0, 1.0, -2.0], [3.0, 0.5, 1.0]]).to(dtype)
    back = x.npu().cpu()
    assert back.dtype is dtype
    assert torch.equal(back.view(torch.uint8), x.view(torch.uint8))


def test_dlpack_gives_a_tensor_over_the_same_bytes():
    n = torch.zeros(3).npu()
    for other in (torch.from_dlpack(n), torch.utils.dlpack.from_dlpack(n), torch.from_dlpack(torch.to_dlpack(n))):
        assert other.device == n.device and other.data_ptr() == n.data_ptr()
        other += 1
    assert n.tolist() == [3, 3, 3]
    assert torch.from_dlpack(np.ones(2, np.float32)).tolist() == [1, 1]


def test_dlpack_refuses_in_a_release_without_it(monkeypatch):
    monkeypatch.setenv("GPU2NPU_TORCH_NPU", "2.7.1.post0")
    support_table._table.cache_clear()
    n = torch.zeros(3).npu()
    try:
        for exchange in (torch.from_dlpack, torch.to_dlpack, torch.Tensor.__dlpack__):
            with pytest.raises(ValueError, match="PyTorch's DLPack has no NPU"):
                exchange(n)
    finally:
        support_table._table.cache_clear()


def test_host_and_array_share_the_bytes():
    n = torch.zeros(2, 3).npu()
    host(n)[0, 1] = 5
    assert n[0, 1].item() == 5
    array(n)[1, 2] = 7
    assert n[1, 2].item() == 7
    view = n.t()[1:]
    assert host(view).stride() == view.stride()
    assert array(view)[0, 0] == 5
    assert array(torch.ones(2).npu().bfloat16()).dtype.name == "bfloat16"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool, torch.complex64])
def test_arrays_of_views_are_views_of_the_same_bytes(dtype):
    x = torch.arange(24).to(dtype).npu().view(2, 3, 4)
    views = (x.permute(2, 0, 1), x[1], x[:, 1:, ::2], x[..., None].expand(2, 3, 4, 5), x[1:1], x[0, 0, 3], x.diagonal())
    for view in views:
        assert array(view).shape == view.shape
        assert array(view).tolist() == host(view).tolist()
    array(x[1])[...] = 1
    assert bool((x[1] == 1).all())


def test_writes_are_seen_through_every_view():
    n = torch.zeros(4, 4, device="npu")
    row, flat, diagonal = n[1], n.view(-1), n.diagonal()
    row.add_(1)
    assert flat[4:8].tolist() == [1.0] * 4
    flat.mul_(3)
    assert diagonal.tolist() == [0.0, 3.0, 0.0, 0.0]
    n[:, 2] = 9
    assert row.tolist() == [3.0, 3.0, 9.0, 3.0]
    n.t_()
    assert n.is_contiguous() is False
    assert n[2].tolist() == [9.0] * 4
    assert row._version == n._version


def test_an_array_is_found_again_only_for_the_tensor_it_belongs_to():
    n = torch.arange(6.0, device="npu").view(2, 3)
    assert (n + 0).tolist() == [[0, 1, 2], [3, 4, 5]]
    square = torch.arange(4.0).view(2, 2).npu()
    square.t_()
    assert (square + 0).tolist() == [[0, 2], [1, 3]]
    square.data = torch.full((3,), 8.0).npu()
    assert (square + 0).tolist() == [8, 8, 8]
    assert (n.view(torch.int32) + 0).dtype is torch.int32


def test_version_counters_protect_saved_tensors():
    x = torch.ones(3, device="npu", requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_conjugated_and_negated_views_are_resolved():
    c = torch.tensor([1 + 2j, 3 - 1j])
    n = c.npu()
    assert torch.equal(n.conj().cpu(), c.conj())
    assert torch.equal((n.conj() + 0).cpu(), c.conj() + 0)
    assert torch.equal(n.conj().imag.cpu(), c.conj().imag)
    assert n.conj()[0].item() == 1 - 2j


def test_strides_survive():
    x = torch.randn(2, 4, 5, 3).permute(0, 3, 1, 2)
    n = x.contiguous().npu().permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    assert n.stride() == x.stride()
    assert n.clone().stride() == x.stride()
    assert n.contiguous().stride() == x.contiguous().stride()
    assert n.half().stride() == x.stride()
    assert (n.permute(0, 2, 3, 1) * 2).view(-1).shape == (120,)
    assert torch.equal(n.permute(3, 1, 0, 2).cpu(), x.permute(3, 1, 0, 2))


@pytest.mark.parametrize("memory_format", [torch.channels_last, torch.channels_last_3d])
def test_channels_last_is_refused_as_torch_npu_refuses_it(memory_format):
    shape = (2, 3, 4, 5) if memory_format is torch.channels_last else (2, 3, 4, 5, 6)
    x = torch.randn(shape)
    n = x.npu()
    for refused in (
        lambda: n.to(memory_format=memory_format),
        lambda: n.contiguous(memory_format=memory_format),
        lambda: n.clone(memory_format=memory_format),
        lambda: torch.empty(shape, device="npu", memory_format=memory_format),
        lambda: torch.nn.Conv2d(3, 4, 2).npu().to(memory_format=torch.channels_last),
    ):
        with pytest.raises(RuntimeError, match=r"Only contiguous_format|Only c10::MemoryFormat::Contiguous"):
            refused()
    moved = x.to(memory_format=memory_format).npu()
    assert moved.is_contiguous() and torch.equal(moved.cpu(), x)


def test_resize_and_set():
    n = torch.arange(4.0, device="npu")
    n.resize_(2, 4)
    assert n.shape == (2, 4)
    assert n[0].tolist() == [0, 1, 2, 3]
    other = torch.zeros(3, device="npu")
    other.set_(n.untyped_storage(), 2, (2,), (1,))
    assert other.tolist() == [2, 3]
    assert other.is_set_to(n.view(-1)[2:4])


def test_deepcopy_of_tensors_and_modules_is_a_copy_on_the_same_npu():
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).to("npu:1")
    twin = copy.deepcopy(module)
    assert {p.device for p in twin.parameters()} == {torch.device("npu:1")}
    assert isinstance(twin[0].weight, torch.nn.Parameter)
    with torch.no_grad():
        twin[0].weight.zero_()
    assert module[0].weight.abs().sum().item() > 0
    tensor = torch.ones(2, device="npu")
    assert torch.equal(copy.deepcopy(tensor).cpu(), tensor.cpu())


def test_numpy_refuses_in_torchs_words():
    with pytest.raises(TypeError, match="can't convert npu:0 device type tensor to numpy"):
        torch.ones(2, device="npu").numpy()
    with pytest.raises(TypeError, match="can't convert npu:0 device type tensor to numpy"):
        np.asarray(torch.ones(2, device="npu"))


def test_zero_sized_and_zero_dimensional_tensors():
    assert torch.zeros(0, 3, device="npu").sum().item() == 0
    assert torch.zeros((), device="npu").shape == ()
    assert (torch.ones((), device="npu") + 1).item() == 2
    assert torch.cat([torch.zeros(0, 2).npu(), torch.ones(1, 2).npu()]).tolist() == [[1, 1]]
    weight = torch.ones(4, 3, 2, 2, device="npu", requires_grad=True)
    images = torch.zeros(0, 3, 5, 5, device="npu", requires_grad=True)
    result = torch.nn.functional.conv2d(images, weight)
    result.sum().backward()
    assert result.shape == (0, 4, 4, 4)
    assert images.grad.shape == images.shape and weight.grad.abs().sum().item() == 0
    with pytest.raises(RuntimeError, match="negative dimension -1"):
        torch.randperm(-1, device="npu")


def test_a_view_stays_within_its_storage():
    x = torch.arange(5.0, device="npu")
    assert x.as_strided((2, 2), (2, 1), 1).tolist() == [[1, 2], [3, 4]]
    for size, offset in (((9,), 0), ((2,), 4), ((1,), 5)):
        with pytest.raises(RuntimeError, match="out of bounds for storage of size 20"):
            x.as_strided(size, (1,), offset)
