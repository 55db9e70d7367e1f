"""torch_npu's GRU operator against torch.gru of the same weights on the CPU, gradients included."""

import pytest
import torch
import torch_npu

OPTIONS = (True, 1, 0.0, True, False, False)  # has_biases, num_layers, dropout, train, bidirectional, batch_first
STEPS, BATCH, INPUTS, HIDDEN = 6, 3, 4, 5


def leaves():
    shapes = (
        (STEPS, BATCH, INPUTS),
        (1, BATCH, HIDDEN),
        (INPUTS, 3 * HIDDEN),
        (HIDDEN, 3 * HIDDEN),
        *[(3 * HIDDEN,)] * 2,
    )
    return [torch.randn(shape) for shape in shapes]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("output", [0, 1])
def test_one_layer(agrees, dtype, output):
    agrees(
        lambda *t: torch_npu.npu_gru(*t, torch.empty(0).npu(), *OPTIONS)[output][-1 if output else slice(None)],
        lambda x, h, w_i, w_h, *b: torch.gru(x, h, [w_i.t(), w_h.t(), *b], *OPTIONS)[output].squeeze(0),
        *leaves(), dtype=dtype,
    )  # fmt: skip


def test_gates_are_what_the_states_are_made_of():
    x, h, w_i, w_h, b_i, b_h = (each.npu() for each in leaves())
    y, hs, update, reset, new, hidden = torch_npu.npu_gru(x, h, w_i, w_h, b_i, b_h, torch.empty(0).npu(), *OPTIONS)
    before = torch.cat((h, hs[:-1]))
    torch.testing.assert_close(hs, (1 - update) * new + update * before)
    torch.testing.assert_close(new, torch.tanh((x @ w_i + b_i)[..., -HIDDEN:] + reset * hidden))
    torch.testing.assert_close(y, hs)
