"""torch.compile with torch_npu's back ends: graphs are traced by PyTorch and run operator by operator."""

from __future__ import annotations

import warnings

import pytest
import torch

from gpu2npu.emulator.device import compiling
from gpu2npu.emulator.device.dispatch import support_table


def _step(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) * 2 + x.sin()


@pytest.fixture(autouse=True)
def _nothing_compiled():
    torch._dynamo.reset()
    compiling._warn_once.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch._dynamo.reset()


@pytest.mark.parametrize("backend", ["inductor", "npu", "npugraphs", "npugraph_ex"])
def test_each_back_end_gives_the_values_and_gradients_of_the_program(backend):
    x, y = (torch.tensor([-1.0, 2.0, 3.0], device="npu", requires_grad=True) for _ in range(2))
    before = torch._dynamo.utils.counters["npu"][backend]
    compiled = torch.compile(_step, backend=backend)(x)
    compiled.sum().backward()
    _step(y).sum().backward()
    torch.testing.assert_close(compiled, _step(y))
    torch.testing.assert_close(x.grad, y.grad)
    assert torch._dynamo.utils.counters["npu"][backend] == before + 1


def test_sizes_that_vary_are_traced():
    compiled = torch.compile(_step, dynamic=True, backend="eager")
    for size in (3, 5):
        torch.testing.assert_close(compiled(torch.ones(size, device="npu")), _step(torch.ones(size, device="npu")))


def test_the_first_graph_says_how_it_runs():
    with pytest.warns(UserWarning, match=r"backend 'npugraphs' operator by operator \(aot_eager\)"):
        torch.compile(_step, backend="npugraphs")(torch.ones(2, device="npu"))


def test_a_release_without_the_back_end_refuses_it(monkeypatch):
    monkeypatch.setattr(support_table, "release", lambda: "2.5.1")
    with pytest.raises(NotImplementedError, match=r"torch_npu 2\.5\.1 has no backend 'inductor'.* 2\.6 has it"):
        compiling.run_graph("inductor", None, [])


def test_torchair_knows_its_options_and_no_others():
    import torchair
    from torchair.configs.compiler_config import CompilerConfig

    config = torchair.CompilerConfig()
    assert isinstance(config, CompilerConfig)
    config.mode = "reduce-overhead"
    config.experimental_config.frozen_parameter = True
    assert config.mode.value == "reduce-overhead"
    assert not config.debug.run_eagerly.value
    with pytest.raises(ValueError, match="CompilerConfig has no option mod, all options"):
        config.mod = "reduce-overhead"
    with pytest.raises(ValueError, match="fastest not in optional list"):
        config.mode = "fastest"
    linear = torch.nn.Linear(3, 2).npu()
    x = torch.ones(2, 3, device="npu")
    compiled = torch.compile(linear, backend=torchair.get_npu_backend(compiler_config=config), fullgraph=True)
    torch.testing.assert_close(compiled(x), linear(x))


def test_flex_attention_runs_without_compiling():
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def causal(batch, head, query, key):
        return query >= key

    q = torch.randn(1, 2, 16, 8, generator=torch.Generator().manual_seed(0))
    expected = flex_attention(q, q, q, block_mask=create_block_mask(causal, None, None, 16, 16, device="cpu"))
    x = q.npu().requires_grad_()
    actual = flex_attention(x, x, x, block_mask=create_block_mask(causal, None, None, 16, 16, device="npu"))
    torch.testing.assert_close(actual.cpu(), expected, atol=1e-5, rtol=1e-5)
    actual.sum().backward()
    assert x.grad.isfinite().all()
    with pytest.raises(ValueError, match="to have the same device"):
        flex_attention(x, q, q)


@pytest.mark.filterwarnings("ignore")
def test_flex_attention_is_cast_by_autocast():
    from torch.nn.attention.flex_attention import flex_attention

    q = torch.randn(1, 2, 8, 4, device="npu", requires_grad=True)
    with torch.autocast("npu", torch.bfloat16):
        y = flex_attention(q, q, q)
    assert y.dtype is torch.bfloat16
    y.sum().backward()
    assert q.grad.dtype is torch.float32


def test_operators_are_not_traced_between_two_graphs():
    def step(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        with torch.autocast("npu", torch.float16):
            counts = torch.bincount(x).float()[None] @ torch.ones(5, 2, device=x.device)
        return counts + torch.ones(5, 2, device=x.device).to_sparse().coalesce().values().sum() + x.sum().item()

    for backend in ("eager", "npu"):
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        x = torch.tensor([1, 4, 4], device="npu")
        compiled = torch.compile(step, backend=backend)(x)
        torch.testing.assert_close(compiled, step(x))
        reasons = "\n".join(torch._dynamo.utils.counters["graph_break"])
        assert "gpu2npu" not in reasons and "_to_dlpack" not in reasons and "numpy" not in reasons, reasons
