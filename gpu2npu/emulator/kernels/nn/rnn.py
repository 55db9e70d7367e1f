"""The fused LSTM and GRU cells that torch asks an accelerator for, and their gradients.

Gates come as (batch, gates * hidden), already multiplied with the weights. What the gradient needs is kept in a
workspace of the same layout. Halves are computed in float32 and rounded once.
"""

from __future__ import annotations

import numpy as np

from gpu2npu.emulator.kernels.pointwise.unary import logistic
from gpu2npu.emulator.kernels.promotion import Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel


def _biased(gates: Array, bias: Array | None) -> Array:
    return wide(gates) if bias is None else wide(gates) + wide(bias)


@kernel("aten::_thnn_fused_lstm_cell")
def lstm_cell(
    input_gates: Array,
    hidden_gates: Array,
    cx: Array,
    input_bias: Array | None = None,
    hidden_bias: Array | None = None,
) -> tuple[Array, Array, Array]:
    """One step: gates (batch, 4 * hidden) in the order input, forget, cell, output.

    Returns:
        The new hidden and cell state, (batch, hidden), and the activated gates.
    """
    gates = np.split(_biased(input_gates, input_bias) + _biased(hidden_gates, hidden_bias), 4, axis=1)
    enter, forget, output = (logistic(gates[each]) for each in (0, 1, 3))
    cell = np.tanh(gates[2])
    cy = forget * wide(cx) + enter * cell
    workspace = np.concatenate((enter, forget, cell, output), axis=1)
    return rounded(output * np.tanh(cy), cx.dtype), rounded(cy, cx.dtype), rounded(workspace, cx.dtype)


@kernel("aten::_thnn_fused_lstm_cell_backward_impl")
def lstm_cell_backward(
    grad_hy: Array | None, grad_cy: Array | None, cx: Array, cy: Array, workspace: Array, has_bias: bool
) -> tuple[Array, Array, Array | None]:
    """Gradients for the gates, the old cell state and the biases."""
    enter, forget, cell, output = np.split(wide(workspace), 4, axis=1)
    tanh = np.tanh(wide(cy))
    zero = np.zeros_like(tanh)
    from_hidden = zero if grad_hy is None else wide(grad_hy)
    through = from_hidden * output * (1 - tanh * tanh) + (zero if grad_cy is None else wide(grad_cy))
    grad_gates = np.concatenate(
        (
            through * cell * enter * (1 - enter),
            through * wide(cx) * forget * (1 - forget),
            through * enter * (1 - cell * cell),
            from_hidden * tanh * output * (1 - output),
        ),
        axis=1,
    )
    grad_bias = rounded(grad_gates.sum(axis=0), cx.dtype) if has_bias else None
    return rounded(grad_gates, cx.dtype), rounded(through * forget, cx.dtype), grad_bias


@kernel("aten::_thnn_fused_gru_cell")
def gru_cell(
    input_gates: Array,
    hidden_gates: Array,
    hx: Array,
    input_bias: Array | None = None,
    hidden_bias: Array | None = None,
) -> tuple[Array, Array]:
    """One step: gates (batch, 3 * hidden) in the order reset, update, new.

    Returns:
        The new hidden state (batch, hidden), and reset, update, new, hx and the hidden part of new, for the gradient.
    """
    from_input = np.split(_biased(input_gates, input_bias), 3, axis=1)
    from_hidden = np.split(_biased(hidden_gates, hidden_bias), 3, axis=1)
    reset, update = (logistic(from_input[each] + from_hidden[each]) for each in (0, 1))
    new = np.tanh(from_input[2] + reset * from_hidden[2])
    state = wide(hx)
    workspace = np.concatenate((reset, update, new, state, from_hidden[2]), axis=1)
    return rounded(new + update * (state - new), hx.dtype), rounded(workspace, hx.dtype)


@kernel("aten::_thnn_fused_gru_cell_backward")
def gru_cell_backward(
    grad_hy: Array, workspace: Array, has_bias: bool
) -> tuple[Array, Array, Array, Array | None, Array | None]:
    """Gradients for input gates, hidden gates, the old state, and the two biases."""
    reset, update, new, state, hidden_new = np.split(wide(workspace), 5, axis=1)
    grad, dtype = wide(grad_hy), grad_hy.dtype
    grad_new = grad * (1 - update) * (1 - new * new)
    grad_update = grad * (state - new) * update * (1 - update)
    grad_reset = grad_new * hidden_new * reset * (1 - reset)
    grad_input = np.concatenate((grad_reset, grad_update, grad_new), axis=1)
    grad_hidden = np.concatenate((grad_reset, grad_update, grad_new * reset), axis=1)
    return (
        rounded(grad_input, dtype),
        rounded(grad_hidden, dtype),
        rounded(grad * update, dtype),
        rounded(grad_input.sum(axis=0), dtype) if has_bias else None,
        rounded(grad_hidden.sum(axis=0), dtype) if has_bias else None,
    )
