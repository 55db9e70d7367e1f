"""torch_npu's LSTM operators against torch.lstm of the same weights on the CPU, gradients included."""

import pytest
import torch
import torch_npu

OPTIONS = (True, 1, 0.0, True, False, False)  # has_biases, num_layers, dropout, train, bidirectional, batch_first
STEPS, BATCH, INPUTS, HIDDEN = 6, 3, 4, 5


def leaves():
    shapes = (
        (STEPS, BATCH, INPUTS),
        (INPUTS + HIDDEN, 4 * HIDDEN),
        (4 * HIDDEN,),
        (1, BATCH, HIDDEN),
        (1, BATCH, HIDDEN),
    )
    return [torch.randn(shape) for shape in shapes]


def layer(x, weight, bias, h, c):
    """PyTorch's own layer with torch_npu's weights: both order the gates i f g o, whose g torch_npu calls j."""
    weights = [weight[: x.shape[-1]].t(), weight[x.shape[-1] :].t(), bias, torch.zeros_like(bias)]
    return torch.lstm(x, (h, c), weights, True, 1, 0.0, True, False, False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_one_layer(agrees, dtype):
    none = torch.empty(0)
    agrees(
        lambda x, w, b, h, c: torch_npu.npu_lstm(x, w, b, none.npu(), h, c, *OPTIONS, False, False),
        lambda x, w, b, h, c: layer(x, w, b, h, c)[0], *leaves(), dtype=dtype,
    )  # fmt: skip


@pytest.mark.parametrize("output", [1, 2])
def test_the_states_of_every_step(agrees, output):
    """Gradients come from the last step's state, as in op-plugin's npu_lstm_backward."""
    agrees(
        lambda *t: torch_npu.npu_lstm(*t[:3], torch.empty(0).npu(), *t[3:], *OPTIONS, False, False)[output][-1:],
        lambda *t: layer(*t)[output], *leaves(),
    )  # fmt: skip


def test_gates_are_what_the_states_are_made_of():
    x, w, b, h, c = (each.npu() for each in leaves())
    y, hs, cs, i, j, f, o, tanh = torch_npu.npu_lstm(x, w, b, torch.empty(0).npu(), h, c, *OPTIONS, False, False)
    before = torch.cat((c, cs[:-1]))
    torch.testing.assert_close(cs, f * before + i * j)
    torch.testing.assert_close((y, hs, tanh), (o * cs.tanh(), y, cs.tanh()))


def packed(lengths):
    sizes = torch.tensor([sum(length > step for length in lengths) for step in range(STEPS)])
    mask = (torch.arange(STEPS)[:, None] < torch.tensor(lengths)[None, :]).half()
    return sizes, mask[..., None].expand(-1, -1, HIDDEN)


@pytest.mark.parametrize("direction", [False, True])
def test_a_padded_batch_in_either_direction(agrees, direction):
    lengths = [6, 4, 1]
    sizes, mask = packed(lengths)

    def expected(x, w, b, h, c):
        rows = []
        for number, length in enumerate(lengths):
            one = x[:length, number : number + 1]
            y, _, _ = layer(
                one.flip(0) if direction else one, w, b, h[:, number : number + 1], c[:, number : number + 1]
            )
            y = y.flip(0) if direction else y
            rows.append(torch.cat((y, torch.zeros(STEPS - length, 1, HIDDEN))))
        return torch.cat(rows, 1)

    def ours(x, w, b, h, c):
        return torch_npu.npu_lstm_data(x, sizes.npu(), w, b, mask.npu(), h, c, *OPTIONS, True, direction)

    agrees(ours, expected, *leaves())
    plain = [each.npu() for each in leaves()]
    once = torch_npu.npu_lstm(*plain[:3], torch.tensor(lengths).int().npu(), *plain[3:], *OPTIONS, True, direction)[0]
    torch.testing.assert_close(once.cpu(), expected(*(each.cpu() for each in plain)))


def test_one_cell(agrees):
    x, h, c = torch.randn(BATCH, INPUTS), torch.randn(BATCH, HIDDEN), torch.randn(BATCH, HIDDEN)
    weights = [torch.randn(width, 4 * HIDDEN) for width in (INPUTS, HIDDEN)]
    biases = [torch.randn(4 * HIDDEN) for _ in "ih"]
    for output in (0, 1):
        agrees(
            lambda x, w_i, w_h, h, c, *b, k=output: torch_npu.npu_lstm_cell(x, w_i, w_h, h, c, *b)[k + 1],
            lambda x, w_i, w_h, h, c, *b, k=output: torch.lstm_cell(x, (h, c), w_i.t(), w_h.t(), *b)[k],
            x, *weights, h, c, *biases,
        )  # fmt: skip


def test_a_reversed_layer_has_no_gradient():
    given = [each.npu().requires_grad_() for each in leaves()]
    y = torch_npu.npu_lstm(*given[:3], torch.empty(0).npu(), *given[3:], *OPTIONS, False, True)[0]
    with pytest.raises(NotImplementedError, match="gradient of npu_lstm with a seq_mask"):
        y.sum().backward()
