import copy
import math

import pytest
import torch
import torch_npu
from torch import nn
from torch_npu.optim import (
    NpuFusedAdadelta,
    NpuFusedAdam,
    NpuFusedAdamP,
    NpuFusedAdamW,
    NpuFusedBertAdam,
    NpuFusedLamb,
    NpuFusedRMSprop,
    NpuFusedRMSpropTF,
    NpuFusedSGD,
)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))


def batches(count, scale=1.0):
    torch.manual_seed(1)
    return [(torch.randn(5, 4) * scale, torch.randn(5, 3)) for _ in range(count)]


def groups(module, **first):
    return [{"params": module[0].parameters(), **first}, {"params": module[2].parameters()}]


def train(module, optimizer, data):
    device = next(module.parameters()).device
    for x, target in data:
        optimizer.zero_grad() if isinstance(optimizer, torch_npu.optim.NpuFusedOptimizerBase) else module.zero_grad()
        nn.functional.mse_loss(module(x.to(device)), target.to(device)).backward()
        optimizer.step()


PAIRS = [
    (NpuFusedSGD, torch.optim.SGD, {"lr": 0.1}),
    (NpuFusedSGD, torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.01}),
    (NpuFusedSGD, torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    (NpuFusedAdam, torch.optim.Adam, {"lr": 0.01, "weight_decay": 0.1}),
    (NpuFusedAdam, torch.optim.Adam, {"lr": 0.01, "betas": (0.8, 0.9), "amsgrad": True}),
    (NpuFusedAdamW, torch.optim.AdamW, {"lr": 0.01}),
    (NpuFusedAdamW, torch.optim.AdamW, {"lr": 0.01, "amsgrad": True, "weight_decay": 0.3}),
    (NpuFusedAdadelta, torch.optim.Adadelta, {"lr": 1.0, "weight_decay": 0.01}),
    (NpuFusedRMSprop, torch.optim.RMSprop, {"lr": 0.01, "momentum": 0.5, "weight_decay": 0.01}),
    (NpuFusedRMSprop, torch.optim.RMSprop, {"lr": 0.01, "centered": True}),
]


@pytest.mark.parametrize(("ours", "theirs", "options"), PAIRS)
def test_updates_equal_pytorchs(model, ours, theirs, options):
    fused, plain = copy.deepcopy(model).npu(), model
    train(fused, ours(groups(fused, lr=0.02), **options), batches(6))
    train(plain, theirs(groups(plain, lr=0.02), **options), batches(6))
    for p, q in zip(fused.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(p.detach().cpu(), q.detach(), rtol=1e-4, atol=1e-5)


def published(kind, p, grad, state, step, lr):
    """The update of one parameter as its paper or first implementation has it."""
    m, v = state.setdefault("m", torch.zeros_like(p)), state.setdefault("v", torch.zeros_like(p))
    if kind == "rmsprop_tf":
        square = state.setdefault("square", torch.ones_like(p))
        grad = grad + 0.01 * p
        square += 0.1 * (grad * grad - square)
        buffer = state.setdefault("buffer", torch.zeros_like(p))
        buffer *= 0.9
        buffer += lr * grad / (square + 1e-10).sqrt()
        return p - buffer
    m.mul_(0.9).add_(0.1 * grad)
    v.mul_(0.999).add_(0.001 * grad * grad)
    if kind == "lamb":
        change = m / (v.sqrt() + 1e-6) + 0.01 * p
        return p - lr * p.norm().clamp(0, 10) / change.norm() * change
    if kind == "bert":
        x = (step - 1) / 10
        rate = lr * (x / 0.2 if x < 0.2 else (x - 1) / (0.2 - 1))
        return p - rate * (m / (v.sqrt() + 1e-6) + 0.01 * p)
    change = m / ((v / (1 - 0.999**step)).sqrt() + 1e-8)  # AdamP
    decay = 1.0
    if p.dim() > 1:
        for rows in (p.shape[0], 1):
            a, b = grad.reshape(rows, -1), p.reshape(rows, -1)
            if nn.functional.cosine_similarity(a, b, 1).abs().max() < 0.1 / math.sqrt(b.shape[1]):
                unit = b / (b.norm(dim=1, keepdim=True) + 1e-8)
                change = change - (unit * (unit * change.reshape(rows, -1)).sum(1, keepdim=True)).reshape(p.shape)
                decay = 0.1
                break
    return p * (1 - lr * 0.05 * decay) - lr / (1 - 0.9**step) * change


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        ("lamb", lambda p: NpuFusedLamb(p, lr=0.02, weight_decay=0.01)),
        ("bert", lambda p: NpuFusedBertAdam(p, lr=0.02, warmup=0.2, t_total=10, max_grad_norm=-1)),
        ("rmsprop_tf", lambda p: NpuFusedRMSpropTF(p, lr=0.02, momentum=0.9, weight_decay=0.01)),
        ("adamp", lambda p: NpuFusedAdamP(p, lr=0.02, weight_decay=0.05)),
    ],
)
def test_updates_equal_the_published_algorithm(model, kind, make):
    fused = copy.deepcopy(model).npu()
    # a large first layer whose gradient is nearly orthogonal to it, so that AdamP projects
    train(fused, make(fused.parameters()), batches(4))
    states = [{} for _ in model.parameters()]
    for step, (x, target) in enumerate(batches(4), 1):
        model.zero_grad()
        nn.functional.mse_loss(model(x), target).backward()
        with torch.no_grad():
            for p, state in zip(model.parameters(), states, strict=True):
                p.copy_(published(kind, p, p.grad, state, step, 0.02))
    for p, q in zip(fused.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(p.detach().cpu(), q.detach(), rtol=1e-3, atol=1e-4)


def test_adamp_projects_a_gradient_that_is_orthogonal():
    p = nn.Parameter(torch.tensor([[1.0, 0.0], [0.0, 1.0]]).npu())
    optimizer = NpuFusedAdamP([p], lr=0.1)
    p.grad = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).npu()
    optimizer.step()
    torch.testing.assert_close(p.detach().cpu(), torch.tensor([[1.0, -0.1], [-0.1, 1.0]]))


def test_gradients_are_clipped_at_once_and_lie_end_to_end(model):
    fused, plain = copy.deepcopy(model).npu(), model
    optimizer = NpuFusedSGD(fused.parameters(), lr=0.1)
    x, target = batches(1, 5.0)[0]
    nn.functional.mse_loss(fused(x.npu()), target.npu()).backward()
    nn.functional.mse_loss(plain(x), target).backward()
    for kind, limit in ((2, 0.5), (math.inf, 0.01)):
        ours = optimizer.clip_grad_norm_fused_(limit, kind)
        theirs = nn.utils.clip_grad_norm_(plain.parameters(), limit, kind)
        assert ours.item() == pytest.approx(theirs.item(), rel=1e-4)
    for p, q in zip(fused.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(p.grad.cpu(), q.grad, rtol=1e-4, atol=1e-6)
    combined = optimizer.get_combined_grads()[0]
    assert torch_npu.utils.is_combined_tensor_valid(combined, [p.grad for p in fused.parameters()])
    assert optimizer.get_combined_params()[0].numel() == sum(p.numel() for p in fused.parameters())
    assert optimizer.get_combined_grads()[1] is None


def test_a_closure_and_a_state_dict_continue_the_training(model):
    fused, other = model.npu(), copy.deepcopy(model).npu()
    optimizer = NpuFusedAdam(fused.parameters(), lr=0.05)
    x, target = (t.npu() for t in batches(1)[0])

    def closure(module=fused):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(module(x), target)
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(3)]
    assert losses[2] < losses[0]
    other.load_state_dict(fused.state_dict())
    resumed = NpuFusedAdam(other.parameters(), lr=0.05)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    optimizer.step(closure)
    nn.functional.mse_loss(other(x), target).backward()
    resumed.step()
    for p, q in zip(fused.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p, q)


def test_half_parameters_have_a_block_of_their_own():
    a, b = nn.Parameter(torch.ones(3).npu()), nn.Parameter(torch.ones(2).half().npu())
    optimizer = NpuFusedSGD([a, b], lr=0.5)
    a.grad, b.grad = torch.ones_like(a), torch.ones_like(b)
    optimizer.step()
    assert (a.tolist(), b.tolist()) == ([0.5] * 3, [0.5] * 2)
    assert [t.dtype for t in optimizer.get_combined_params()] == [torch.float32, torch.float16]


def test_misuse_is_reported(model):
    fused = model.npu()
    optimizer = NpuFusedSGD(fused.parameters(), lr=0.1)
    with pytest.raises(ValueError, match="set_to_none is not supported"):
        optimizer.zero_grad(set_to_none=True)
    train(fused, optimizer, batches(1))
    fused.zero_grad(set_to_none=True)
    fused(torch.ones(1, 4).npu()).sum().backward()
    with pytest.raises(RuntimeError, match="left the combined memory"):
        optimizer.step()
    wide = nn.Parameter(torch.ones(2).double().npu())
    wide.grad = torch.ones_like(wide)
    with pytest.raises(TypeError, match="must be either float32 or float16"):
        NpuFusedSGD([wide], lr=0.1).step()
    for bad in (lambda: NpuFusedSGD([wide], lr=-1), lambda: NpuFusedAdam([wide], betas=(1.0, 0.9)),
                lambda: NpuFusedBertAdam([wide], lr=1, schedule="never")):  # fmt: skip
        with pytest.raises(ValueError, match="Invalid"):
            bad()
    with pytest.raises(RuntimeError, match="Not all tensors are npu tensors"):
        torch_npu.utils.npu_combine_tensors([torch.ones(2)])
