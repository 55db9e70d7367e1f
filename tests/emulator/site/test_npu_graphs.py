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
    with pytest.raises(RuntimeError, match="auto_dispatch_capture=True"):
        graph.update({})
    assert torch.npu.graph_pool_handle() != torch.npu.graph_pool_handle()


def attention(length, **options):
    torch.manual_seed(0)
    query, key, value = (torch.randn(1, 2, rows, 8).half().npu() for rows in (1, 6, 6))
    given = {"num_heads": 2, "input_layout": "BNSD", "scale": 0.5, "actual_seq_lengths_kv": [length]}
    return (query, key, value), given | options


@pytest.mark.parametrize("into", [True, False])
def test_lengths_of_captured_attention_are_updated(into):
    tensors, given = attention(2)
    expected = torch_npu.npu_fused_infer_attention_score(*tensors, **given | {"actual_seq_lengths_kv": [5]})[0].cpu()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph, auto_dispatch_capture=True):
        if into:
            results = torch_npu._npu_fused_infer_attention_score_infer_output(
                tensors[0], tensors[2], num_heads=2, input_layout="BNSD"
            )
            workspace = torch_npu._npu_fused_infer_attention_score_get_max_workspace(*tensors, **given)
            torch_npu.npu_fused_infer_attention_score.out(*tensors, **given, workspace=workspace, out=list(results))
        else:
            results = torch_npu.npu_fused_infer_attention_score(*tensors, **given)
    graph.replay()
    assert not torch.equal(results[0].cpu(), expected)
    graph.update([{"actual_seq_lengths_kv": [5]}])
    graph.replay()
    assert torch.equal(results[0].cpu(), expected)
    with pytest.raises(RuntimeError, match="there are only 2 elements"):
        graph.update([{}, {}])


def test_a_group_of_captured_operators_is_replaced():
    x, y, z = (torch.ones(3).npu() for _ in range(3))
    graph, stream = torch.npu.NPUGraph(), torch.npu.Stream()
    with torch.npu.graph(graph):
        torch.npu.graph_task_group_begin(stream)
        torch.mul(x, 2, out=y)
        handle = torch.npu.graph_task_group_end(stream)
        torch.add(y, 1, out=z)
    torch.npu.graph_task_update_begin(stream, handle)
    torch.mul(x, 5, out=y)
    torch.npu.graph_task_update_end(stream)
    assert y.tolist() == [1, 1, 1]  # an update runs nothing
    graph.replay()
    assert z.tolist() == [6, 6, 6]
    with pytest.raises(RuntimeError, match="for a graph that is being captured"):
        torch.npu.graph_task_group_begin(stream)


def test_an_own_handler_says_what_an_update_changes():
    @torch.npu.register_npu_graph_handler("clamp.default")
    class Bounds(torch.npu.NpuGraphOpHandler):
        @classmethod
        def get_update_specs(cls, op_name):
            return [("arg", 1, "least")]

    x = torch.tensor([-3.0, 3.0]).npu()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph, auto_dispatch_capture=True):
        y = torch.clamp(x, -1, 1)
    graph.update([{"least": -2}])
    graph.replay()
    assert y.tolist() == [-2, 1]


def test_random_states_that_are_set_in_a_capture_are_set_again_by_a_replay():
    own = torch.Generator(device="npu").manual_seed(3)
    first = torch.rand(4, device="npu", generator=own).tolist()
    own.manual_seed(3)
    torch.npu.manual_seed(7)
    torch.rand(1, device="npu")
    graph = torch.npu.NPUGraph()
    graph.register_generator_state(own)
    with torch.npu.graph(graph):
        drawn = torch.rand(4, device="npu", generator=own)
        state = torch.npu.get_rng_state()
        one = torch.rand(4, device="npu")
        torch.npu.set_rng_state(state)
        two = torch.rand(4, device="npu")
    graph.replay()
    assert one.tolist() == two.tolist()
    assert drawn.tolist() == first
    with (
        pytest.raises(RuntimeError, match="only if new seed is the same"),
        torch.npu.graph(torch.npu.NPUGraph()),
    ):
        torch.npu.manual_seed(8)


def test_options_of_fused_operators_are_checked():
    graph = torch.npu.NPUGraph()
    graph.super_kernel_optimize({"split_mode": 1, "aggressive_opt_strategies": {"event_breaker_bypass": 1}})
    for options in ({"split": 1}, {"split_mode": "1"}, {"dcci_disable_on_kernel": [1]}, [1],
                    {"aggressive_opt_strategies": {"other": 1}}):  # fmt: skip
        with pytest.raises(RuntimeError):
            graph.super_kernel_optimize(options)
    with pytest.raises(RuntimeError, match="non-empty"):
        torch.npu.super_kernel_scope_begin(" ")
