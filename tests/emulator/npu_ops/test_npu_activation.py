import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
import torch_npu

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def swiglu(x, dim=-1):
    a, b = x.chunk(2, dim)
    return F.silu(a) * b


def geglu(x, dim=-1, approximate=1, activate_left=False):
    a, b = x.chunk(2, dim)
    gate, value = (a, b) if activate_left else (b, a)
    return F.gelu(gate, approximate="tanh" if approximate else "none") * value


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("operator", "formula"),
    [
        (torch_npu.fast_gelu, lambda x: x * torch.sigmoid(1.702 * x)),
        (torch_npu.npu_fast_gelu, lambda x: x * torch.sigmoid(1.702 * x)),
        (torch_npu.npu_silu, F.silu),
        (torch_npu.npu_mish, F.mish),
        (torch_npu.npu_gelu, F.gelu),
        (torch_npu.npu_swiglu, swiglu),
        (torch_npu.npu_geglu, geglu),
    ],
    ids=["fast_gelu", "npu_fast_gelu", "silu", "mish", "gelu", "swiglu", "geglu"],
)
def test_activations(agrees, operator, formula, dtype):
    agrees(operator, formula, torch.randn(3, 4, 10) * 3, dtype=dtype)


def test_options_of_activations(agrees):
    x = torch.randn(4, 6)
    agrees(torch_npu.npu_gelu, F.gelu, x, approximate="tanh")
    agrees(torch_npu.npu_swiglu, swiglu, x, dim=0)
    for approximate in (0, 1):
        for left in (False, True):
            agrees(torch_npu.npu_geglu, geglu, x, dim=0, approximate=approximate, activate_left=left)
    agrees(torch_npu.npu_gelu_mul, lambda t: F.gelu(t[:, :3]) * t[:, 3:], x, gradients=False)
    with pytest.raises(RuntimeError, match="should be divisible by 2"):
        torch_npu.npu_swiglu(torch.ones(3).npu())


@pytest.mark.parametrize("interleaved", [True, False])
def test_clipped_swiglu(agrees, interleaved):
    def formula(x, interleaved, limit):
        a, b = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
        a, b = a.clamp(max=limit), b.clamp(-limit, limit)
        return a * torch.sigmoid(1.702 * a) * (b + 1)

    x = torch.randn(4, 8) * 3
    agrees(torch_npu.npu_clipped_swiglu, formula, x, interleaved=interleaved, limit=2.0, gradients=False)
    cut = torch_npu.npu_clipped_swiglu(x.npu(), group_index=torch.tensor([1, 2]).npu(), limit=2.0)
    assert cut[3].abs().sum() == 0
    assert cut[2].abs().sum() > 0


def rotated(x, mode):
    if mode == "half":
        a, b = x.chunk(2, -1)
        return torch.cat((-b, a), -1)
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", ["half", "interleave"])
@pytest.mark.parametrize("angles", [(1, 1, 5, 8), (2, 1, 5, 8), (2, 3, 5, 8)])
def test_rotary_mul(agrees, dtype, mode, angles):
    formula = lambda x, r1, r2, rotary_mode: r1 * x + r2 * rotated(x, rotary_mode)  # noqa: E731
    x, r1, r2 = torch.randn(2, 3, 5, 8), torch.randn(angles), torch.randn(angles)
    agrees(torch_npu.npu_rotary_mul, formula, x, r1, r2, rotary_mode=mode, dtype=dtype)


def test_rotary_mul_by_a_matrix_and_of_two(agrees):
    x, r1, r2 = torch.randn(2, 3, 5, 8), torch.randn(1, 1, 5, 8), torch.randn(1, 1, 5, 8)
    matrix = torch.randn(8, 8)
    agrees(
        lambda t, a, b, m: torch_npu.npu_rotary_mul(t, a, b, rotate=m),
        lambda t, a, b, m: a * t + b * (t @ m),
        x, r1, r2, matrix, gradients=False,
    )  # fmt: skip
    with pytest.raises(RuntimeError, match="not differentiable"):
        torch_npu.npu_rotary_mul(x.npu().requires_grad_(), r1.npu(), r2.npu(), rotate=matrix.npu()).sum().backward()
    with pytest.raises(RuntimeError, match="should be half or interleave"):
        torch_npu.npu_rotary_mul(x.npu(), r1.npu(), r2.npu(), "quarter")
    query, key = torch_npu.npu_apply_rotary_pos_emb(x.npu(), (2 * x).npu(), r1.npu(), r2.npu())
    torch.testing.assert_close(key, 2 * query)
    torch.testing.assert_close(query.cpu(), r1 * x + r2 * rotated(x, "half"))


@pytest.mark.parametrize(("release", "gradient"), [("2.8.0", "None"), ("2.9.0", "[1.0]")])
def test_npu_fast_gelu_has_a_gradient_from_2_9_on(release, gradient, torch_python, tmp_path):
    source = (
        "import torch, torch_npu\n"
        "x = torch.full((1,), 30.0, device='npu').requires_grad_()\n"
        "torch_npu.npu_fast_gelu(x).sum().backward()\n"
        "print(x.grad if x.grad is None else x.grad.tolist())"
    )
    script = tmp_path / "script.py"
    script.write_text(source)
    done = subprocess.run(
        [sys.executable, "-m", "gpu2npu", "run", "--torch-npu", release, *torch_python, script],
        capture_output=True,
        text=True,
    )
    assert done.stdout == f"{gradient}\n"
    assert ("npu_fast_gelu: an autograd kernel was not registered" in done.stderr) == (gradient == "None")
