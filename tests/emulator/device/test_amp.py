import pytest
import torch
import torch.nn.functional as F

from gpu2npu.emulator.device import autocast


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_multiplies_narrow_and_takes_losses_wide(dtype):
    linear = torch.nn.Linear(4, 3).npu()
    x, target = torch.randn(5, 4, device="npu"), torch.tensor([0, 1, 2, 0, 1], device="npu")
    with torch.autocast("npu", dtype=dtype):
        y = linear(x)
        assert y.dtype is dtype
        assert (x @ x.t()).dtype is dtype
        assert F.conv1d(x[None], torch.randn(2, 5, 1, device="npu")).dtype is dtype
        loss = F.cross_entropy(y, target)
        assert loss.dtype is torch.float32
        assert F.softmax(y, -1).dtype is torch.float32
        assert F.layer_norm(y, (3,)).dtype is torch.float32
        with torch.autocast("npu", enabled=False):
            assert linear(x).dtype is torch.float32
    loss.backward()
    assert linear.weight.grad.dtype is torch.float32
    expected = F.cross_entropy(linear(x), target).item()
    assert loss.item() == pytest.approx(expected, rel=0.02)


def test_autocast_under_its_other_names():
    x = torch.ones(2, 2, device="npu")
    with torch.npu.amp.autocast():
        assert (x @ x).dtype is torch.float16
        assert torch.is_autocast_enabled("npu")
    with torch.npu.amp.autocast(enabled=True, dtype=torch.bfloat16):
        assert (x @ x).dtype is torch.bfloat16
    with torch.npu.amp.autocast(enabled=False):
        assert (x @ x).dtype is torch.float32
    with pytest.warns(UserWarning, match="target dtype is not supported"), torch.autocast("npu", dtype=torch.float64):
        assert (x @ x).dtype is torch.float32


@pytest.mark.parametrize(
    "make", [lambda **k: torch.amp.GradScaler("npu", **k), lambda **k: torch.npu.amp.GradScaler(**k)]
)
def test_grad_scaler_scales_skips_infinite_steps_and_grows(make):
    scaler = make(init_scale=4.0, growth_interval=2)
    weight = torch.nn.Parameter(torch.tensor([1.0, 2.0], device="npu"))
    optimizer = torch.optim.SGD([weight], lr=0.5)

    def step(factor):
        optimizer.zero_grad()
        scaled = scaler.scale((weight * factor).sum())
        scaled.backward()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_([weight], 1e9)
        scaler.step(optimizer)
        scaler.update()
        return norm.item()

    assert step(1.0) == pytest.approx(2**0.5)
    assert weight.tolist() == [0.5, 1.5]
    assert scaler.get_scale() == 4.0
    step(float("inf"))
    assert weight.tolist() == [0.5, 1.5]
    assert scaler.get_scale() == 2.0
    step(1.0)
    step(1.0)
    assert scaler.get_scale() == 4.0
    state = scaler.state_dict()
    twin = make()
    twin.load_state_dict(state)
    assert twin.get_scale() == 4.0


def test_a_static_scale_stays():
    scaler = torch.npu.amp.GradScaler(init_scale=8.0, growth_interval=1, dynamic=False)
    weight = torch.nn.Parameter(torch.ones(1, device="npu"))
    optimizer = torch.optim.SGD([weight], lr=0.5)
    scaler.scale(weight.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 8.0
    assert weight.item() == 0.5


def test_the_lists_are_pytorchs_own():
    ours = [
        *autocast.LOWER_PRECISION,
        *autocast.FLOAT32,
        *autocast.FLOAT32_BY_DTYPE,
        *autocast.FLOAT32_BY_OVERLOAD,
        *autocast.WIDEST,
        *autocast.BANNED,
    ]
    theirs = set(torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA"))
    of_cuda = ("cudnn_convolution", "cudnn_convolution_transpose", "_cudnn_rnn", "linalg_matrix_sqrth")
    theirs -= {f"aten::{name}" for name in of_cuda}
    assert sorted(f"aten::{name}" for name in ours) == sorted(theirs)


def test_every_kind_of_operator_takes_its_dtype():
    half, single = torch.ones(3, 3, device="npu").half(), torch.ones(3, 3, device="npu")
    with torch.autocast("npu"):
        assert half.exp().dtype is torch.float32
        assert half.sum().dtype is torch.float32
        assert half.sum(0, dtype=torch.float16).dtype is torch.float16
        assert half.cumsum(0).dtype is torch.float32
        assert torch.ops.aten.norm.Scalar(half, 2).dtype is torch.float32
        assert half.norm(2, 0).dtype is torch.float32
        assert torch.dot(half[0], single[0]).dtype is torch.float32
        assert torch.dot(half[0], half[0]).dtype is torch.float16
        assert (half + single).dtype is torch.float32
        assert torch.einsum("ij,jk->ik", single, single).dtype is torch.float16
        assert single.to("npu", torch.float64).exp().dtype is torch.float64
        assert torch.ones(2).exp().dtype is torch.float32
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            F.binary_cross_entropy(single, single)


def test_a_weight_is_cast_once_a_region():
    weight = torch.nn.Parameter(torch.ones(3, 3, device="npu"))
    x = torch.ones(3, 3, device="npu").half()
    with torch.autocast("npu"):
        with torch.no_grad():
            assert (x @ weight).dtype is torch.float16
        y = x @ weight + x @ weight
        assert len(autocast._weights) == 1
    assert not autocast._weights
    y.sum().backward()
    assert weight.grad.tolist() == [[6] * 3] * 3
