"""The fused cells, which torch's CPU build lacks, against torch's own cells and their gradients."""

import numpy as np
import pytest
import torch


def weights(gates, inputs=3, hidden=5):
    return [torch.randn(gates * hidden, width) for width in (inputs, hidden)] + [
        torch.randn(gates * hidden) for _ in "ih"
    ]


@pytest.fixture
def leaves():
    torch.manual_seed(0)
    return lambda *shapes: [torch.randn(shape, requires_grad=True) for shape in shapes]


def test_lstm_cell_and_its_gradient(leaves, kernels_of):
    x, h, c = leaves((4, 3), (4, 5), (4, 5))
    w_i, w_h, b_i, b_h = weights(4)
    input_gates, hidden_gates = (x @ w_i.T).detach().requires_grad_(), (h @ w_h.T).detach().requires_grad_()
    i, f, g, o = (input_gates + b_i + hidden_gates + b_h).chunk(4, 1)
    cy = f.sigmoid() * c + i.sigmoid() * g.tanh()
    hy = o.sigmoid() * cy.tanh()
    expected = torch.lstm_cell(x, (h, c), w_i, w_h, b_i, b_h)
    torch.testing.assert_close(hy, expected[0])

    arrays = [each.detach().numpy() for each in (input_gates, hidden_gates, c, b_i, b_h)]
    ours = kernels_of["aten::_thnn_fused_lstm_cell"](*arrays)
    assert np.allclose(ours[0], hy.detach(), atol=1e-6)
    assert np.allclose(ours[1], cy.detach(), atol=1e-6)

    grads = torch.randn(2, 4, 5)
    torch.autograd.backward([hy, cy], list(grads))
    backward = kernels_of["aten::_thnn_fused_lstm_cell_backward_impl"]
    gates, old, bias = backward(grads[0].numpy(), grads[1].numpy(), arrays[2], ours[1], ours[2], True)
    assert np.allclose(gates, input_gates.grad, atol=1e-6)
    assert np.allclose(old, c.grad, atol=1e-6)
    assert np.allclose(bias, input_gates.grad.sum(0), atol=1e-6)
    assert backward(None, grads[1].numpy(), arrays[2], ours[1], ours[2], False)[2] is None


def test_gru_cell_and_its_gradient(leaves, kernels_of):
    x, h = leaves((4, 3), (4, 5))
    w_i, w_h, b_i, b_h = weights(3)
    input_gates, hidden_gates = (x @ w_i.T).detach().requires_grad_(), (h @ w_h.T).detach().requires_grad_()
    from_input, from_hidden = (input_gates + b_i).chunk(3, 1), (hidden_gates + b_h).chunk(3, 1)
    reset, update = ((from_input[k] + from_hidden[k]).sigmoid() for k in (0, 1))
    new = (from_input[2] + reset * from_hidden[2]).tanh()
    hy = new + update * (h - new)
    torch.testing.assert_close(hy, torch.gru_cell(x, h, w_i, w_h, b_i, b_h))

    arrays = [each.detach().numpy() for each in (input_gates, hidden_gates, h, b_i, b_h)]
    ours, workspace = kernels_of["aten::_thnn_fused_gru_cell"](*arrays)
    assert np.allclose(ours, hy.detach(), atol=1e-6)

    grad = torch.randn(4, 5)
    hy.backward(grad)
    found = kernels_of["aten::_thnn_fused_gru_cell_backward"](grad.numpy(), workspace, True)
    expected = (input_gates.grad, hidden_gates.grad, h.grad, input_gates.grad.sum(0), hidden_gates.grad.sum(0))
    for ours, theirs in zip(found, expected, strict=True):
        assert np.allclose(ours, theirs, atol=1e-6)
