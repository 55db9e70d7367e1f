"""The library in C++ and Python give the same: tensors, gradients, memory and errors."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpu2npu.emulator.device import native
from gpu2npu.emulator.launch import emulating

PROGRAM = """
import gc, sys, torch, torch_npu
from torch._C import _dispatch_dump

registered = _dispatch_dump("aten::view").split("PrivateUse1:")[1].splitlines()[0]
assert ("native.cpp" in registered) == (sys.argv[1] == "1"), registered
x = torch.arange(24.0).npu().reshape(4, 6).requires_grad_()
VIEWS = {
    "slice": lambda x: x[1:3], "step": lambda x: x[::2, 1::2], "element": lambda x: x[2], "t": lambda x: x.t(),
    "view": lambda x: x.view(2, -1), "reshape": lambda x: x.t().reshape(8, 3), "alias": lambda x: x.reshape(24),
    "unfold": lambda x: x.unfold(1, 3, 2), "as_strided": lambda x: x.as_strided((2, 3), (1, 2), 4),
    "squeeze": lambda x: x[None].squeeze(0), "expand": lambda x: x[:, :1].expand(4, 5),
    "dtype": lambda x: x.view(torch.int32),
}
for name, view in VIEWS.items():
    made = view(x.detach() if name == "dtype" else x)
    assert made.device.type == "npu" and made.untyped_storage().data_ptr() in (x.data_ptr(), made.data_ptr())
    print(name, made.shape, made.stride(), made.storage_offset(), made.tolist())
    if made.requires_grad:
        print(*torch.autograd.grad((made * made).sum(), x)[0].tolist())
with torch.no_grad():
    x[1:3].t().view(torch.float32).mul_(2)
print(x.tolist())

base, big = torch.npu.memory_allocated(), 1 << 20
for made in (
    lambda: torch.empty(3, 4, device="npu"), lambda: torch.empty(0, 3, device="npu:1", dtype=torch.bfloat16),
    lambda: torch.empty_strided((2, 3), (1, 2), device="npu"), lambda: torch.empty_like(x, dtype=torch.bool),
    lambda: torch.empty(big, device="npu"), lambda: x.detach().clone(), lambda: x.t().clone(), lambda: x[1:].clone(),
    lambda: torch.empty((), device="npu", dtype=torch.float64), lambda: torch.ones(big, device="npu") + 1,
    lambda: torch.empty(2, device="npu", dtype=torch.float8_e5m2),
):
    held = made()
    print(held.shape, held.stride(), held.dtype, held.device, torch.npu.memory_allocated() - base)
    stats = torch.npu.memory_stats()
    print(*(stats[f"{name}.{pool}.{each}"] for name in ("allocation", "allocated_bytes")
            for pool in ("all", "large_pool", "small_pool") for each in ("current", "allocated", "freed")))
    del held
assert torch.npu.memory_allocated() == base

a, b = torch.randn(4, 6, generator=torch.Generator().manual_seed(0)).mul(1e20), torch.full((6,), 2e19)
for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32):
    p, q = (each.clamp(-3e4, 3e4).to(dtype) if not dtype.is_floating_point or dtype is torch.float16 else each.to(dtype)
            for each in (a, b))
    p, q = p.npu(), q.npu()
    chosen = lambda x, y: torch.where(x > y, x, y)
    for f in (torch.add, torch.sub, torch.mul, torch.gt, torch.eq, torch.maximum, chosen):
        for one, other in ((p, q), (p, p), (p[1:], p[:3]), (p, 2), (p, 0.5)):
            try:
                made = f(one, other)
            except (RuntimeError, TypeError, NotImplementedError) as error:
                print(type(error).__name__, str(error).splitlines()[0])
            else:
                print(made.dtype, made.stride(), made.double().sum().item(), made.sum(0).tolist())
    p.add_(q).mul_(p).sub_(0.5 if dtype.is_floating_point else 1)
    print(p.tolist(), torch.add(p, q, alpha=2).tolist())
print(torch.exp(a.npu()).tolist(), (a.npu() * 1e30).tolist())

for whole in (a.npu(), a.npu()[1:]):
    one, other = [whole, b.npu()], [a.npu()[:len(whole)] + 1, b.npu() * 2]
    print([each.tolist() for each in (*torch._foreach_add(one, other), *torch._foreach_sqrt([*other, a[0].npu()]))])

import torch.nn.functional as F
draw = torch.Generator().manual_seed(1)
for is_rounded in (True, False):
    torch.npu.conv.allow_hf32 = is_rounded
    for n, c, o, size, kernel, stride, padding, dilation, groups in (
        (2, 3, 4, (9, 8), 3, 1, 1, 1, 1), (3, 4, 6, (12, 11), (2, 5), (3, 2), (1, 4), (2, 1), 2),
        (6, 2, 2, (4, 4), 3, 1, 2, 1, 1), (1, 2, 3, (2, 3), (5, 4), 1, (3, 2), 1, 1), (0, 1, 1, (5, 5), 3, 2, 0, 1, 1),
    ):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            x, w = (torch.randn(each, generator=draw).to(dtype).npu().requires_grad_()
                    for each in ((n, c, *size), (o, c // groups, *torch.nn.modules.utils._pair(kernel))))
            y = F.conv2d(x, w, None, stride, padding, dilation, groups)
            z = F.conv_transpose2d(y, w, None, stride, padding, 0, groups, dilation)
            print(y.shape, y.tolist(), z.tolist(), *(g.tolist() for g in torch.autograd.grad((y * y).sum(), (x, w))))
            print(F.unfold(x, kernel, dilation, padding, stride).sum().item())
torch.npu.conv.allow_hf32 = True
odd = torch.tensor([float("nan"), float("inf"), -float("inf"), 3.4e38, 1e-42, 1 + 2**-12, 1 + 3 * 2**-12]).npu()
print(F.conv2d(odd.reshape(-1, 1, 1, 1), torch.ones(1, 1, 1, 1).npu()).tolist())

WRONG = (
    lambda: torch._foreach_add([a.npu(0)], [a.npu(1)]), lambda: torch._foreach_add([a.npu(0), a.npu(1)], 1),
    lambda: x.view(5, 5), lambda: x.t().view(24), lambda: x.as_strided((9, 9), (9, 9)), lambda: x.unfold(1, 9, 1),
    lambda: torch.empty(-1, device="npu"), lambda: torch.empty(1, device="npu:9"), lambda: a.npu() + b.npu()[:5],
    lambda: torch.empty(1 << 40, device="npu"), lambda: a.npu("npu:0") + a.npu("npu:1"),
    lambda: torch.where(a.npu() > 0, a.npu(), b.npu()[:5]),
    lambda: torch.where(torch.ones([1] * 8, device="npu") > 0, a.npu(), a.npu()),
)
for wrong in WRONG:
    gc.collect()  # what an error holds is in the account that the next one states
    try:
        wrong()
    except RuntimeError as error:
        print(str(error).splitlines()[0], getattr(error, "__notes__", ()))
print(torch.npu.memory_stats()["num_ooms"])


class Listener:
    def allocated(self, address, size, index, total, reserved):
        print("allocated", size, index, total - base, reserved)

    def freed(self, address, size, index, total, reserved):
        print("freed", size, index, total - base, reserved)


from gpu2npu.emulator.device.memory import memory
gc.collect()
base, listener = torch.npu.memory_allocated(), Listener()
y = x.detach()
memory.listen(listener)
y = y + y
y = torch.empty(5, device="npu")
memory.stop_listening(listener)
print(sorted(part["total_size"] for part in torch.npu.memory._snapshot()["segments"]))
"""


CONVOLUTIONS = """
import random, torch, torch_npu
import torch.nn.functional as F
from gpu2npu.emulator.kernels import parallel

torch.npu.conv.allow_hf32 = False
draw, directions, convolved = random.Random(0), [], parallel.native.convolved
parallel.native.convolved = lambda what, *rest: convolved(what, *rest) and not directions.append(what)
torch.manual_seed(0)
for case in range(60):
    dimensions = draw.choice((1, 2, 2))
    pick = lambda low, high: tuple(draw.randrange(low, high) for _ in range(dimensions))
    kernel, stride, padding, dilation = pick(1, 5), pick(1, 4), pick(0, 4), pick(1, 3)
    least = [max(1, d * (k - 1) + 1 - 2 * p) for k, p, d in zip(kernel, padding, dilation)]
    x = torch.randn(draw.randrange(1, 4), draw.randrange(8, 40), *(n + draw.randrange(9) for n in least))
    w = torch.randn(draw.randrange(8, 70), x.shape[1], *kernel)
    y_of = lambda x, w: (F.conv1d, F.conv2d)[dimensions - 1](x, w, None, stride, padding, dilation)
    expected = [each.double().requires_grad_() for each in (x, w)]
    found = [each.npu().requires_grad_() for each in (x, w)]
    results = [y_of(*found), y_of(*expected)]
    g = torch.randn(results[0].shape)
    both = [[y, *torch.autograd.grad(y, of, g.to(y))] for y, of in zip(results, (found, expected))]
    for what, ours, theirs in zip(("result", "image", "weight"), *both):
        error = (ours.cpu().double() - theirs).abs().max() / theirs.abs().max()
        assert error < 3e-6, (what, x.shape, w.shape, stride, padding, dilation, error)
assert [directions.count(each) for each in ("result", "image", "weight")] == [60] * 3, directions
"""


NORMS = """
import random, torch, torch_npu
import torch.nn.functional as F
from gpu2npu.emulator.kernels import parallel

draw, computed = random.Random(0), []
for name in ("normalised", "norm_gradient"):
    setattr(parallel.native, name, lambda *given, f=getattr(parallel.native, name): computed.append(f(*given)))
torch.manual_seed(0)
for case in range(60):
    kind, groups = ("batch", "group", "layer")[case % 3], draw.randrange(1, 4)
    channels = groups * draw.randrange(16, 80)
    places = draw.choice((1, 60, 300, 5000) if case % 3 else (16, 60, 5000))
    shape = {"batch": (channels, places), "group": (channels, places), "layer": (places, channels)}[kind]
    x = torch.randn(draw.randrange(2, 60 if places < 100 else 4), *shape) * 3 + draw.choice((0, 5))
    if case % 4 == 0:
        x = x.transpose(0, 1).contiguous().transpose(0, 1)
    parameters = [torch.randn(channels), torch.randn(channels)][: draw.randrange(3)]
    eps = draw.choice((1e-5, 0.5))

    def of(x, weight=None, bias=None):
        if kind == "batch":
            return F.batch_norm(x, None, None, weight, bias, training=True, eps=eps)
        if kind == "group":
            return F.group_norm(x, groups, weight, bias, eps)
        return F.layer_norm(x, (channels,), weight, bias, eps)

    expected = [each.double().requires_grad_() for each in (x, *parameters)]
    found = [each.npu().requires_grad_() for each in (x, *parameters)]
    results = [of(*found), of(*expected)]
    if parameters and case % 5 == 0:  # no gradient for x
        expected, found = expected[1:], found[1:]
    g = torch.randn(results[0].shape)
    both = [[y, *torch.autograd.grad(y, given, g.to(y))] for y, given in zip(results, (found, expected))]
    for number, (ours, theirs) in enumerate(zip(*both)):
        error = (ours.cpu().double() - theirs).abs().max() / theirs.abs().max()
        assert error < 5e-6, (kind, number, x.shape, groups, error)
assert len(computed) >= 120, len(computed)
# Sums of many values, and gradients of many rows, are not of float32's precision.
x, many = 1 + 1e-3 * torch.randn(1, 1, 1 << 20), 1 + 0.01 * torch.randn(1 << 15, 16)
y = F.batch_norm(x.npu(), None, None, training=True, eps=1e-12).cpu().double()
assert (y - F.batch_norm(x.double(), None, None, training=True, eps=1e-12)).abs().max() < 4e-5
weight, bias = (torch.ones(16).npu().requires_grad_() for _ in range(2))
F.layer_norm(torch.randn(many.shape).npu(), (16,), weight, bias).backward(many.npu())
assert (bias.grad.cpu().double() / many.double().sum(0) - 1).abs().max() < 1e-7
"""


POINTWISE = """
import torch, torch_npu
import torch.nn.functional as F
from gpu2npu.emulator.kernels import parallel

computed, each_value = [], parallel.native.each_value
parallel.native.each_value = lambda name, *rest: each_value(name, *rest) and not computed.append((name, len(rest)))
torch.manual_seed(0)
odd = torch.tensor([0.0, -0.0, 1e-30, 1e-42, 88.8, -88.8, 104.0, -104.0, float("nan")])
x = torch.cat((4 * torch.randn(300_000), torch.linspace(-110, 110, 4001), odd)).requires_grad_()
g = torch.randn(x.shape)
for of in (F.silu, F.gelu, lambda x: F.gelu(x, approximate="tanh")):
    results = []
    for given in (x.detach().npu().requires_grad_(), x.detach().double().requires_grad_()):
        y = of(given)
        results.append([y, *torch.autograd.grad(y, given, g.to(y))])
    for ours, theirs in zip(*results):
        torch.testing.assert_close(ours.cpu().double(), theirs, rtol=2e-6, atol=2e-6, equal_nan=True)
assert {*computed} == {(name, count) for name in ("silu", "gelu", "gelu_tanh") for count in (3, 4)}, {*computed}

computed.clear()
a, b, c = (torch.randn(3, 1001) for _ in range(3))
for update in (
    lambda a, b, c: torch._foreach_lerp_([a], [b], 0.1),
    lambda a, b, c: torch._foreach_addcmul_([a], [b], [c], value=0.3),
    lambda a, b, c: torch._foreach_addcdiv_([a], [b], [c], value=-0.3),
):
    ours, theirs = a.npu(), a.double()
    update(ours, b.npu(), c.npu())
    update(theirs, b.double(), c.double())
    torch.testing.assert_close(ours.cpu().double(), theirs, rtol=1e-6, atol=1e-6)
    update(ours[:, ::2], b.npu()[:, ::2], c.npu()[:, ::2])
assert computed == [("lerp", 3), ("addcmul", 4), ("addcdiv", 4)], computed

steps = []
for name in ("lstm", "lstm_gradient"):
    setattr(parallel.native, name, lambda *given, f=getattr(parallel.native, name): steps.append(f(*given)))
for bidirectional in (False, True):
    layers, x = torch.nn.LSTM(7, 37, 2, bidirectional=bidirectional), 3 * torch.randn(5, 3, 7)
    states = torch.randn(2, 2 * (1 + bidirectional), 3, 37)
    results = []
    for on in (lambda each: each.double(), lambda each: each.float().npu()):
        given, hx, layers = on(x).requires_grad_(), on(states).requires_grad_(), on(layers)
        y, (h, c) = layers(given, tuple(hx))
        of = [given, hx, *layers.parameters()]
        results.append([y, h, c, *torch.autograd.grad(y.square().sum() + (h * c).sum(), of)])
    for theirs, ours in zip(*results):
        assert (ours.cpu().double() - theirs).abs().max() < 3e-6 * theirs.abs().max(), (ours.shape, bidirectional)
assert len(steps) == 2 * 5 * (2 + 4), len(steps)

layer, x, start = torch.nn.LSTM(5, 6, bias=False), 1e-3 * torch.randn(4, 3, 5), torch.zeros(1, 1, 6)
results = []
for on in (lambda each: each.double(), lambda each: each.float().npu()):
    state, layer = on(start).requires_grad_(), on(layer)  # one state for all rows
    y = layer(on(x), (state.expand(1, 3, 6), state.expand(1, 3, 6)))[0]
    results.append([y.cpu().double(), torch.autograd.grad(y.sum(), state)[0].cpu().double()])
for theirs, ours in zip(*results):
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-9)  # what is small has as many digits

from gpu2npu.emulator.device import backward

backward.DeviceGuard.type_ = None  # an index and a backward pass ask Python nothing
x = torch.ones(2, 3).npu().requires_grad_()
x[..., 1:].square().sum().backward()
assert x.grad.tolist() == [[0, 2, 2]] * 2
"""


@pytest.mark.long
@pytest.mark.skipif(shutil.which("c++") is None, reason="there is no compiler")
def test_what_is_in_cpp_is_as_in_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    library = native.place()
    building = native.build(library)
    assert building is not None and native.build(library) is None, "one process builds"
    assert building.wait() == 0 and library.is_file() and [*library.parent.iterdir()] == [library]
    (tmp_path / "program.py").write_text(PROGRAM)
    found = []
    for switch in "01":
        environment = emulating({**os.environ, "GPU2NPU_NATIVE": switch}, python=sys.executable)
        command = [sys.executable, tmp_path / "program.py", switch]
        found.append(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    environment["OMP_NUM_THREADS"] = "1"
    for program in (CONVOLUTIONS, NORMS, POINTWISE):
        subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    assert found[0] == found[1] and found[0].count("\n") > 200


def test_a_library_that_does_not_load_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("GPU2NPU_NATIVE")
    monkeypatch.setenv("CXX", "no-compiler")
    assert native.load() is None and not native.place().parent.exists()
    native.place().parent.mkdir()
    native.place().write_text("no library")
    assert native.load() is None


def test_a_build_that_loading_began_can_be_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("GPU2NPU_NATIVE")
    monkeypatch.setattr(native, "building", None)
    monkeypatch.setenv("CXX", "true")
    assert native.load() is None
    assert native.building is not None and native.building.wait()


def test_a_build_removes_what_nobody_has_loaded_for_a_week(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", "true")
    folder = native.place().parent
    folder.mkdir()
    for name, days in {"native-1.so": 8, "views-2.so": 9, "native-3.part": 8, "native-4.so": 6, "answers": 99}.items():
        (folder / name).touch()
        os.utime(folder / name, (time.time() - days * 86_400,) * 2)
    building = native.build(native.place())
    assert building is not None and building.wait()
    assert {each.name for each in folder.iterdir()} == {
        "native-4.so", "answers", native.place().with_suffix(".begun").name
    }  # fmt: skip
