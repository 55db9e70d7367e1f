"""Pointwise operators give torch's results and are counted, whichever of the two ways they are computed."""

import operator

import numpy as np
import pytest
import torch

from gpu2npu.emulator.device.dispatch.tally import ComputedBy, counts

BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, torch.maximum, torch.atan2]
COMPARISONS = [operator.gt, operator.le, operator.eq, operator.ne]
NUMBERS = [True, 2, 2.5, 1 + 2j, np.float32(2.5), np.float64(2.5), np.int64(2), np.bool_(True), np.complex64(1j)]
IN_PLACE = [operator.iadd, operator.isub, operator.imul, operator.itruediv]


def values(*shape, dtype=torch.float32):
    return torch.randn(shape).mul(3).to(dtype)


def operands():
    """Pairs of operands by what they are: those of the short way first, and all that must not take it."""
    x, y, square = values(3, 4), values(3, 4), values(4, 4)
    return {
        "one shape": (x, y),
        "the same tensor": (x, x),
        "no dimensions": (values(), values()),
        "nothing": (values(0, 4), values(0, 4)),
        "a float": (x, 2.5),
        "an integer": (x, 3),
        "a number beside no dimensions": (values(), 2.5),
        "broadcast": (x, values(4)),
        "broadcast first": (values(4), x),
        "one shape, transposed": (square.t(), values(4, 4)),
        "beginning of its memory": (values(8, 4)[:3], y),
        "inside its memory": (values(8, 4)[2:5], y),
        "expanded": (values(1, 4).expand(3, 4), y),
        "expanded over its memory": (values(3)[:1].expand(3), values(3)),
        "reshaped": (x.view(4, 3), values(4, 3)),
        "broadcast both": (values(3, 1), values(4)),
        "a column": (values(3, 1), x),
        "beside no dimensions": (x, values()),
        "float16": (values(3, 4, dtype=torch.float16), y),
        "float16 of one shape": (x.half(), y.half()),
        "float16 and a number": (x.half(), 0.1),
        "float16 broadcast": (x.half(), values(4).half()),
        "bfloat16 broadcast": (x.bfloat16(), values(3, 1).bfloat16()),
        "bfloat16": (x.bfloat16(), y.bfloat16()),
        "integers": (torch.arange(12).view(3, 4), y),
        "reinterpreted": (torch.arange(12, dtype=torch.int32).view(3, 4).view(torch.float32), y),
        "on the host": (x, torch.tensor(2.0, dtype=torch.float64)),
    }


def on_npu(value):
    """The same view of a copy of the whole memory on the NPU; numbers, and what is to stay on the host, as they are."""
    if not isinstance(value, torch.Tensor) or (value.dtype is torch.float64 and not value.dim()):
        return value
    if value.is_contiguous() and value.nbytes == value.untyped_storage().nbytes():
        return value.npu()
    whole = torch.empty(0, dtype=value.dtype).set_(value.untyped_storage()).npu()
    return whole.as_strided(value.shape, value.stride(), value.storage_offset())


@pytest.mark.parametrize("compute", BINARY + COMPARISONS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("which", operands())
def test_two_operands(which, compute):
    a, b = operands()[which]
    if compute in BINARY[4:] and not isinstance(b, torch.Tensor):
        pytest.skip("takes no number")
    expected = compute(a, b)
    got = compute(on_npu(a), on_npu(b))
    assert got.device.type == "npu"
    torch.testing.assert_close(got.cpu(), expected, equal_nan=True)
    assert "transposed" in which or got.stride() == expected.stride()


@pytest.mark.parametrize("compute", IN_PLACE, ids=lambda each: each.__name__)
@pytest.mark.parametrize("which", [which for which in operands() if "expanded" not in which])
def test_in_place(which, compute):
    a, b = operands()[which]
    npu_a, other = on_npu(a), on_npu(b)
    try:
        compute(a, b)
    except RuntimeError as error:
        with pytest.raises(RuntimeError) as raised:
            compute(npu_a, other)
        assert str(raised.value) == str(error)
        return
    address = npu_a.data_ptr()
    assert compute(npu_a, other).data_ptr() == address
    torch.testing.assert_close(npu_a.cpu(), a)


def _base(error):
    """The class of an error; the NotImplementedError of PyTorch 2.14 for a bool is a RuntimeError before."""
    return RuntimeError if isinstance(error, RuntimeError) else type(error)


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@pytest.mark.parametrize("compute", BINARY[:4] + IN_PLACE, ids=lambda each: each.__name__)
@pytest.mark.parametrize("number", NUMBERS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("is_first", [False, True])
def test_numbers_of_every_type(compute, number, is_first):
    x = values(3, 4)
    npu_x = x.npu()
    pairs = ((number, x), (number, npu_x)) if is_first else ((x, number), (npu_x, number))
    try:
        expected = compute(*pairs[0])
    except (RuntimeError, TypeError) as error:
        with pytest.raises(_base(error)) as raised:
            compute(*pairs[1])
        assert str(raised.value) == str(error)
        return
    got = compute(*pairs[1])
    assert got.device.type == "npu" and got.dtype is expected.dtype
    torch.testing.assert_close(got.cpu(), expected)


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "atan2"])
@pytest.mark.parametrize("number", NUMBERS, ids=lambda each: type(each).__name__)
def test_numbers_in_the_place_of_tensors(name, number):
    x = values(3, 4)
    npu_x = x.npu()
    for first, second in ((x, number), (number, x)):
        given = [npu_x if value is x else value for value in (first, second)]
        try:
            expected = getattr(torch, name)(first, second)
        except (RuntimeError, TypeError) as error:
            with pytest.raises(_base(error)):
                getattr(torch, name)(*given)
            continue
        torch.testing.assert_close(getattr(torch, name)(*given).cpu(), expected)


@pytest.mark.parametrize("name", ["exp", "neg", "sqrt", "tanh"])
@pytest.mark.parametrize("which", [which for which in operands() if which != "integers"])
def test_one_operand(which, name):
    a, _ = operands()[which]
    npu_a = on_npu(a)
    expected = getattr(a, name)()
    torch.testing.assert_close(getattr(npu_a, name)().cpu(), expected, equal_nan=True)
    if "expanded" not in which:
        getattr(npu_a, f"{name}_")()
        torch.testing.assert_close(npu_a.cpu(), expected, equal_nan=True)


def test_gradients_flow_through_them():
    x, y = values(3, 4).npu().requires_grad_(), values(3, 4).npu().requires_grad_()
    (torch.exp(x * y) / 2 + x).sum().backward()
    expected = (y * torch.exp(x * y) / 2 + 1).detach()
    torch.testing.assert_close(x.grad.cpu(), expected.cpu())
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x += y


def test_numbers_beyond_float32_are_infinite_without_a_warning(recwarn):
    x = torch.full((3,), 3e38, device="npu")
    assert torch.isinf(x + x).all() and torch.isinf(x * 1e39).all() and torch.isnan(torch.log(-x)).all()
    assert not recwarn.list


def test_two_npus_are_refused():
    with pytest.raises(RuntimeError, match="npu:0 and npu:1"):
        torch.ones(4, device="npu:0") + torch.ones(4, device="npu:1")


@pytest.mark.parametrize("device", ["npu:0", "npu:1"])
def test_results_are_where_their_operands_are(device):
    x = torch.ones(4, device=device)
    assert (x + x).device == (x * 2).device == torch.exp(x).device == torch.device(device)


def test_every_call_is_counted_once():
    def calls():
        return sum(count for (name, kind), (count, _) in counts().items() if (name, kind) == added)

    added = ("aten::add.Tensor", ComputedBy.NUMPY)
    x, y = values(3, 4).npu(), values(3, 4).npu()
    before, seconds = calls(), counts().get(added, (0, 0.0))[1]
    for other in (y, 2.5, y[:, :1]):
        x + other
        x += other
    torch.add(x, y, alpha=2)
    assert calls() == before + 7
    assert counts()[added][1] > seconds


def test_memory_of_results_is_counted_and_limited():
    device = torch.device("npu:6")
    x = torch.ones(1 << 16, device=device)
    torch.npu.reset_peak_memory_stats(device)
    before = torch.npu.memory_stats(device)
    base, made = before["allocated_bytes.all.current"], before["allocation.all.allocated"]
    y = x + x
    assert torch.npu.memory_allocated(device) == base + x.nbytes + 512
    del y
    assert torch.npu.memory_allocated(device) == base
    torch.exp(x)
    stats = torch.npu.memory_stats(device)
    assert stats["allocation.all.allocated"] == made + 2
    assert stats["allocation.all.current"] == before["allocation.all.current"]
    torch.npu.set_per_process_memory_fraction((base + x.nbytes // 2) / torch.npu.mem_get_info(device)[1], device)
    try:
        with pytest.raises(torch.OutOfMemoryError, match=r"Tried to allocate 256\.00 KiB"):
            x * 2
    finally:
        torch.npu.set_per_process_memory_fraction(1.0, device)


def test_the_memory_of_broadcast_results_is_counted():
    device = torch.device("npu:6")
    x, one = torch.ones(1 << 16, device=device), torch.ones(1, device=device)
    base = torch.npu.memory_allocated(device)
    y = one + x
    assert torch.npu.memory_allocated(device) == base + y.nbytes + 512 == base + x.nbytes + 512


def test_a_storage_given_back_does_not_make_results_free():
    device = torch.device("npu:6")
    x = torch.ones(1 << 10, device=device)
    x.untyped_storage().resize_(0)
    base = torch.npu.memory_allocated(device)
    y = x + x
    assert torch.npu.memory_allocated(device) == base + y.nbytes + 512
    x.untyped_storage().resize_(x.nbytes)
    base = torch.npu.memory_allocated(device)
    z = x + x
    assert torch.npu.memory_allocated(device) == base + z.nbytes + 512


def test_memory_that_was_given_back_is_reserved_again():
    device = torch.device("npu:6")
    x = torch.ones(1 << 18, device=device)
    held = [x + x for _ in range(4)]
    del held
    torch.npu.empty_cache()
    again = [x + x for _ in range(4)]
    assert len(again) == 4 and torch.npu.memory_reserved(device) >= torch.npu.memory_allocated(device)
