import copy

import pytest
import torch
import torch_npu
from torch import nn


def test_a_replay_reads_and_writes_the_captured_tensors():
    x, weight = torch.zeros(3).npu(), torch.ones(3).npu()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        assert torch.npu.is_current_stream_capturing()
        y = (x * 2 + weight).view(3, 1)
        weight.add_(1)
    assert not torch.npu.is_current_stream_capturing()
    assert weight.tolist() == [1, 1, 1]  # the capture itself has no lasting effect
    x.fill_(5)
    for expected in (11, 12, 13):
        graph.replay()
        assert y.flatten().tolist() == [expected] * 3
    assert weight.tolist() == [4, 4, 4]
    graph.reset()
    graph.replay()
    assert weight.tolist() == [4, 4, 4]


@pytest.fixture
def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))


def test_whole_training_steps_replay_as_they_run(network):
    data = [(torch.randn(6, 4), torch.randn(6, 2)) for _ in range(5)]
    eager, captured = network.npu(), copy.deepcopy(network).npu()
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.1, momentum=0.9)
    expected = []
    for x, target in data:
        loss = nn.functional.mse_loss(eager(x.npu()), target.npu())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        expected.append(loss.item())

    optimizer = torch.optim.SGD(captured.parameters(), lr=0.1, momentum=0.9)
    static = [t.npu() for t in data[0]]
    graph = torch.npu.NPUGraph()
    for group in optimizer.param_groups:
        for p in group["params"]:
            p.grad = torch.zeros_like(p)
            optimizer.state[p]["momentum_buffer"] = torch.zeros_like(p)
    with torch.npu.graph(graph):
        for p in captured.parameters():
            p.grad.zero_()
        loss = nn.functional.mse_loss(captured(static[0]), static[1])
        loss.backward()
        optimizer.step()
    losses = []
    for pair in data:
        for target, value in zip(static, pair, strict=True):
            target.copy_(value)
        graph.replay()
        losses.append(loss.item())
    assert losses == pytest.approx(expected, rel=1e-4)


def test_a_module_as_graphs_forwards_and_backwards(network):
    plain, graphed = network.npu(), copy.deepcopy(network).npu()
    graphed = torch.npu.make_graphed_callables(graphed, (torch.randn(3, 4).npu().requires_grad_(),))
    for _ in range(2):
        x = torch.randn(3, 4).npu()
        a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
        y, z = plain(a), graphed(b)
        torch.testing.assert_close(y, z)
        (y * y).sum().backward()
        (z * z).sum().backward()
        torch.testing.assert_close(a.grad, b.grad)
    for p, q in zip(plain.parameters(), graphed.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)


def test_functions_and_operators_of_torch_npu_are_captured_too():
    square = torch.npu.make_graphed_callables(lambda t: t * t, (torch.ones(2).npu(),))
    assert square(torch.full((2,), 3.0).npu()).tolist() == [9, 9]
    x = torch.ones(2, 4).npu()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y = torch_npu.npu_rms_norm(x, torch.ones(4).npu())[0]
    x.copy_(torch.arange(8.0).view(2, 4))
    graph.replay()
    torch.testing.assert_close(y, torch_npu.npu_rms_norm(x, torch.ones(4).npu())[0])


def test_what_cannot_be_captured_says_so():
    x = torch.ones(2).npu()
    with (
        pytest.raises(RuntimeError, match="_local_scalar_dense waits for the NPU"),
        torch.npu.graph(torch.npu.NPUGraph()),
    ):
        x.sum().item()
    assert not torch.npu.is_current_stream_capturing()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph), pytest.raises(RuntimeError, match="cannot be nested"):
        torch.npu.NPUGraph().capture_begin()
    with pytest.raises(RuntimeError, match="without capture_begin"):
        graph.capture_end()
    with pytest.raises(NotImplementedError, match=r"NPUGraph\.update"):
        graph.update({})
    assert torch.npu.graph_pool_handle() != torch.npu.graph_pool_handle()
