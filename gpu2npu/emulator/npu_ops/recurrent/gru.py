"""`npu_gru` and its gradient: a GRU layer over a whole sequence (T, N, inputs).

Weights are (inputs, 3 * hidden) and (hidden, 3 * hidden) with the gates in the order reset, update, new; the hidden
part of new is biased before it is reset: op-plugin's GruKernelNpu.cpp asks this of CANN's DynamicGRUV2. Computed in
float32.
"""

from __future__ import annotations

import numpy as np

from gpu2npu.emulator.kernels.linalg.matmul import product
from gpu2npu.emulator.kernels.promotion import F32, Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel
from gpu2npu.emulator.npu_ops.arguments import Arguments, by_schema

_HALF = np.float32(0.5)
_ONE = np.float32(1)


@by_schema(kernel, "npu::npu_gru")
def npu_gru(a: Arguments) -> tuple[Array, ...]:
    """One layer forwards: y and h of every step, update, reset, new and new's hidden part, each (T, N, hidden).

    `seq_length` and the options are accepted and change nothing, as in CANN's operator. Results have the biases' dtype.
    """
    x, own, recurrent = wide(a.input), wide(a.weight_input), wide(a.weight_hidden)
    steps, batch, inputs = x.shape
    hidden = len(recurrent)
    own_bias, hidden_bias = wide(a.bias_input), wide(a.bias_hidden)
    from_input = product(x.reshape(-1, inputs), own).reshape(steps, batch, 3 * hidden)
    from_input += own_bias
    h = wide(a.hx).reshape(batch, hidden)
    shape = (steps, batch, hidden)
    hs, new_hidden = np.empty(shape, F32), np.empty(shape, F32)
    from_hidden = np.empty((batch, 3 * hidden), F32)
    for step in range(steps):
        gate = from_input[step]
        np.matmul(h, recurrent, out=from_hidden)
        from_hidden += hidden_bias
        new_hidden[step] = from_hidden[:, 2 * hidden :]
        both = gate[:, : 2 * hidden]
        both += from_hidden[:, : 2 * hidden]
        # 1 / (1 + exp(-x)) is (1 + tanh(x / 2)) / 2.
        both *= _HALF
        np.tanh(both, out=both)
        both += _ONE
        both *= _HALF
        new = gate[:, 2 * hidden :]
        new += gate[:, :hidden] * new_hidden[step]
        np.tanh(new, out=new)
        np.subtract(h, new, out=hs[step])
        hs[step] *= gate[:, hidden : 2 * hidden]
        hs[step] += new
        h = hs[step]
    reset, update, new = (from_input[:, :, each * hidden : (each + 1) * hidden] for each in range(3))
    return tuple(np.array(each, a.bias_input.dtype) for each in (hs, hs, update, reset, new, new_hidden))


@by_schema(kernel, "npu::npu_gru_backward")
def npu_gru_backward(a: Arguments) -> tuple[Array, ...]:
    """Gradients for weights, input, biases and hx, in the order of the result; of gradh the last step counts."""
    x, own, recurrent = wide(a.input), wide(a.weight_input), np.ascontiguousarray(wide(a.weight_hidden).T)
    found = (a.h_output, a.output_updata, a.output_reset, a.output_new, a.hidden_new)
    hs, update, reset, new, new_hidden = map(wide, found)
    steps, batch, inputs = x.shape
    hidden = len(a.weight_hidden)
    before = np.concatenate((wide(a.hx).reshape(1, batch, hidden), hs[:-1]))
    dh = np.zeros((batch, hidden), F32) if a.gradh is None else wide(a.gradh)[-1].astype(F32)
    to_new = (_ONE - update) * (_ONE - new * new)
    to_update = (before - new) * update * (_ONE - update)
    to_reset = to_new * new_hidden * reset * (_ONE - reset)
    grads, hidden_grads = np.empty((steps, batch, 3 * hidden), F32), np.empty((steps, batch, 3 * hidden), F32)
    for step in reversed(range(steps)):
        if a.grady is not None:
            dh = dh + wide(a.grady[step])
        grad = grads[step]
        np.multiply(dh, to_reset[step], out=grad[:, :hidden])
        np.multiply(dh, to_update[step], out=grad[:, hidden : 2 * hidden])
        np.multiply(dh, to_new[step], out=grad[:, 2 * hidden :])
        hidden_grads[step] = grad
        hidden_grads[step, :, 2 * hidden :] *= reset[step]
        dh = dh * update[step] + np.matmul(hidden_grads[step], recurrent)
    rows, hidden_rows = grads.reshape(-1, 3 * hidden), hidden_grads.reshape(-1, 3 * hidden)
    return (
        rounded(product(x.reshape(-1, inputs).T, rows), a.weight_input.dtype),
        rounded(product(before.reshape(-1, hidden).T, hidden_rows), a.weight_hidden.dtype),
        rounded(product(rows, own.T).reshape(x.shape), a.input.dtype),
        rounded(rows.sum(axis=0), a.bias_input.dtype),
        rounded(hidden_rows.sum(axis=0), a.bias_hidden.dtype),
        rounded(dh.reshape(a.hx.shape), a.hx.dtype),
    )
