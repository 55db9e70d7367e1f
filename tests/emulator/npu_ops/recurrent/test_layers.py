"""torch.nn.LSTM and GRU are operators of torch_npu, one a layer and direction; what these lack, PyTorch composes."""

import copy

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

CASES = [{}, {"bidirectional": True}, {"batch_first": True, "bias": False}, {"num_layers": 3, "bidirectional": True}]


def flat(found):
    y, states = found
    return [y, *(states if isinstance(states, tuple) else (states,))]


def trained(layer, x):
    results = flat(layer(x))
    sum(each.square().sum() * (number + 1) for number, each in enumerate(results)).backward()
    return {"results": results, "x": x.grad, **{name: p.grad for name, p in layer.named_parameters()}}


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
def test_layers_train_as_on_the_cpu(kind, case):
    torch.manual_seed(1)
    layer, x = kind(4, 6, **{"num_layers": 2, **case}), torch.randn(5, 3, 4)
    ours = trained(copy.deepcopy(layer).npu(), x.npu().requires_grad_())
    expected = trained(layer, x.requires_grad_())
    torch.testing.assert_close(ours, expected, check_device=False, rtol=1e-4, atol=1e-5)


def test_a_projection_is_refused_as_check_reports_it():
    layer, x = torch.nn.LSTM(4, 6, proj_size=3).npu(), torch.randn(5, 3, 4).npu()
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, [5, 4, 1])
    for given in (x, x[:, 0], packed):
        with pytest.raises(RuntimeError, match=r"LSTM on the NPU has no projection\. Put a torch\.nn\.Linear after it"):
            layer(given)
    whole = torch.nn.LSTM(4, 6)
    torch.testing.assert_close(
        copy.deepcopy(whole).npu()(packed)[0].data,
        whole(packed.cpu())[0].data,
        check_device=False,
        rtol=1e-4,
        atol=1e-5,
    )


def operators(layer, x):
    from gpu2npu.emulator.device.dispatch.tally import ComputedBy, tally

    before = {name: tally(f"npu::{name}", ComputedBy.NUMPY)[0] for name in ("npu_lstm", "npu_gru")}
    layer(x)
    return {name: tally(f"npu::{name}", ComputedBy.NUMPY)[0] - count for name, count in before.items()}


class Watching(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def test_one_operator_for_each_layer_and_direction():
    x = torch.randn(5, 3, 4).npu()
    lstm, gru = torch.nn.LSTM(4, 6, 2, bidirectional=True).npu(), torch.nn.GRU(4, 6, 3).npu()
    assert operators(lstm, x) == {"npu_lstm": 4, "npu_gru": 0}
    assert operators(gru, x) == {"npu_lstm": 0, "npu_gru": 3}
    with torch.autocast("npu", torch.bfloat16):
        assert lstm(x)[0].dtype is torch.bfloat16
        assert operators(lstm, x)["npu_lstm"] == 0
    with Watching():
        assert operators(lstm, x)["npu_lstm"] == 0
    with pytest.raises(RuntimeError, match="Odd number of params or hiddens"):
        torch.lstm(x, (torch.zeros(1, 3, 6).npu(),) * 2, list(lstm.parameters()), True, 2, 0.0, True, True, False)


def test_dropout_is_between_the_layers():
    torch.manual_seed(3)
    layer, x = torch.nn.LSTM(4, 64, 2, dropout=0.5).npu(), torch.randn(5, 3, 4).npu()
    torch.npu.manual_seed(1)
    first = layer(x)[0]
    torch.npu.manual_seed(1)
    again = layer(x)[0]
    assert torch.equal(first, again)
    assert not torch.allclose(layer(x)[0], first)
    assert torch.equal(layer.eval()(x)[0], layer(x)[0])
