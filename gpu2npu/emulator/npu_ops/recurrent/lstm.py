"""`npu_lstm` and its kin: an LSTM layer over a whole sequence (T, N, inputs), in one direction.

Weights are (inputs + hidden, 4 * hidden) with the gates in the order i f j o, j being the new cell: what op-plugin's
LstmKernelNpu.cpp hands to CANN's DynamicRNN. Computed in float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpu2npu.emulator.kernels import parallel
from gpu2npu.emulator.kernels.linalg.matmul import product
from gpu2npu.emulator.kernels.promotion import F32, Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel
from gpu2npu.emulator.npu_ops.arguments import Arguments, by_schema
from gpu2npu.emulator.npu_ops.gradient import Results, gradient, npu, pick

_HALF = np.float32(0.5)
_ONE = np.float32(1)
_CACHED = 1 << 14  # elements of each of ten arrays
_ALL = (0, 1, 2)  # the results with gradients: the outputs, and the hidden and cell states of every step


@dataclass(frozen=True)
class Steps:
    """Results of a layer, each (T, N, hidden): hidden and cell states, activated gates, tanh of the cell states."""

    hidden: Array
    cell: Array
    gates: tuple[Array, Array, Array, Array]
    tanh_cell: Array


def forward(x: Array, weight: Array, bias: Array, h: Array, c: Array, present: Array | None) -> Steps:
    """All steps of (T, N, inputs) from the states (N, hidden), in float32.

    Args:
        x: The sequence.
        weight: (inputs + hidden, 4 * hidden).
        bias: (4 * hidden,).
        h: The hidden state before the first step.
        c: The cell state before the first step.
        present: (T, N, 1), 0 where a sequence has ended and the states stay as they are; None where none has.
    """
    steps, batch, inputs = x.shape
    hidden, c = h.shape[-1], np.ascontiguousarray(c)
    # 1 / (1 + exp(-x)) is (1 + tanh(x / 2)) / 2, so that one tanh activates all gates of a step.
    halving = np.full(4 * hidden, _HALF)
    halving[2 * hidden : 3 * hidden] = _ONE
    shift = _ONE - halving
    own, recurrent = weight[:inputs] * halving, np.ascontiguousarray(weight[inputs:] * halving)
    gates = product(x.reshape(steps * batch, inputs), own)
    gates += bias * halving
    gates = gates.reshape(steps, batch, 4 * hidden)
    shape = (steps, batch, hidden)
    hs, cs, tanhs = np.empty(shape, F32), np.empty(shape, F32), np.empty(shape, F32)
    from_hidden, entering = np.empty((batch, 4 * hidden), F32), np.empty((batch, hidden), F32)
    for step in range(steps):
        gate, new_h, new_c = gates[step], hs[step], cs[step]
        np.matmul(h, recurrent, out=from_hidden)
        if parallel.native is not None:
            parallel.native.lstm((gate, from_hidden, c, new_c, tanhs[step], new_h), batch, hidden)
        else:
            gate += from_hidden
            np.tanh(gate, out=gate)
            gate *= halving
            gate += shift
            np.multiply(gate[:, hidden : 2 * hidden], c, out=new_c)
            np.multiply(gate[:, :hidden], gate[:, 2 * hidden : 3 * hidden], out=entering)
            new_c += entering
            np.tanh(new_c, out=tanhs[step])
            np.multiply(gate[:, 3 * hidden :], tanhs[step], out=new_h)
        if present is not None:
            np.copyto(new_h, h, where=present[step] == 0)
            np.copyto(new_c, c, where=present[step] == 0)
        h, c = new_h, new_c
    i, f, j, o = (gates[:, :, each * hidden : (each + 1) * hidden] for each in range(4))
    return Steps(hs, cs, (i, f, j, o), tanhs)


def _slopes(steps: Steps, before: Array) -> tuple[Array, Array, Array]:
    """By what a gradient is multiplied on its way to the output gate, the cell (T, N, hidden) and the other gates
    (T, N, 3, hidden), of all steps at once; `before` is the cell state before each."""
    (i, f, j, o), tanhs = steps.gates, steps.tanh_cell
    to_output, to_cell, to_gates = (
        np.empty_like(tanhs),
        np.empty_like(tanhs),
        np.empty((*i.shape[:2], 3, i.shape[2]), F32),
    )

    def compute(part: slice) -> None:
        for slope, gate, other in (
            (to_gates[part, :, 0], i[part], j[part]),
            (to_gates[part, :, 1], f[part], before[part]),
            (to_output[part], o[part], tanhs[part]),
        ):
            np.subtract(_ONE, gate, out=slope)
            slope *= other * gate
        for slope, tanh, gate in ((to_gates[part, :, 2], j[part], i[part]), (to_cell[part], tanhs[part], o[part])):
            np.multiply(tanh, tanh, out=slope)
            np.subtract(_ONE, slope, out=slope)
            slope *= gate

    parallel.run(compute, parallel.blocks(len(i), i.size, _CACHED))
    return to_output, to_cell, to_gates


def backward(
    x: Array,
    weight: Array,
    h: Array,
    c: Array,
    steps: Steps,
    grad_hidden: Array,
    last: tuple[Array | None, Array | None],
    present: Array | None,
) -> tuple[Array, Array, Array, Array, Array]:
    """Gradients for x, weight, bias, h and c, in float32.

    Args:
        x: The sequence (T, N, inputs).
        weight: (inputs + hidden, 4 * hidden).
        h: The hidden state before the first step, (N, hidden).
        c: The cell state before the first step.
        steps: What `forward` computed.
        grad_hidden: The gradients of the hidden state of every step.
        last: Further gradients of the last hidden and cell state.
        present: As `forward` was given it.
    """
    f = steps.gates[1]
    inputs, hidden = x.shape[2], h.shape[-1]
    before = np.concatenate((c[None], steps.cell[:-1]))
    saved = [np.ascontiguousarray(each) for each in (*steps.gates, steps.tanh_cell, before)]
    slopes = _slopes(steps, before) if parallel.native is None else None
    grads = np.empty((*x.shape[:2], 4 * hidden), F32)
    recurrent = np.ascontiguousarray(weight[inputs:].T)
    dh = np.zeros(h.shape, F32) if last[0] is None else last[0].astype(F32, order="C")
    dc = np.zeros(c.shape, F32) if last[1] is None else last[1].astype(F32, order="C")
    batch = len(h)
    for step in reversed(range(len(x))):
        dh += grad_hidden[step]
        stays = None if present is None else present[step] == 0
        rest_h, rest_c = (None, None) if stays is None else (np.where(stays, dh, 0), np.where(stays, dc, 0))
        if stays is not None:
            dh, dc = np.where(stays, np.float32(0), dh), np.where(stays, np.float32(0), dc)
        grad = grads[step]
        if slopes is None:
            parallel.native.lstm_gradient((*(each[step] for each in saved), dh, dc, grad), batch, hidden)
        else:
            to_output, to_cell, to_gates = (each[step] for each in slopes)
            np.multiply(dh, to_output, out=grad[:, 3 * hidden :])
            dc += dh * to_cell
            np.multiply(dc[:, None], to_gates, out=grad[:, : 3 * hidden].reshape(batch, 3, hidden))
            dc *= f[step]
        dh = np.matmul(grad, recurrent)
        if rest_h is not None and rest_c is not None:
            dh += rest_h
            dc += rest_c
    rows = grads.reshape(-1, 4 * hidden)
    states = np.concatenate((h[None], steps.hidden[:-1])).reshape(-1, hidden)
    grad_weight = product(np.concatenate((x.reshape(-1, inputs), states), axis=1).T, rows)
    return product(rows, weight[:inputs].T).reshape(x.shape), grad_weight, rows.sum(axis=0), dh, dc


def _state(state: Array) -> Array:
    """A state (1, N, hidden) or (N, hidden) as (N, hidden), in float32."""
    return wide(state).reshape(state.shape[-2:])


def _present(mask: Array | None, steps: int, batch: int) -> Array | None:
    """(T, N, 1) of a mask (T, N, hidden), or of the lengths (N,) of the sequences."""
    if mask is None or not mask.size:
        return None
    if mask.ndim == 1:
        return (np.arange(steps)[:, None] < mask[None, :])[..., None]
    if mask.shape[:2] != (steps, batch):
        raise RuntimeError(f"seq_mask of shape {list(mask.shape)} is not one of {steps} steps of {batch} sequences")
    return mask[..., :1] != 0


def _turned(direction: bool, *arrays: Array) -> list[Array]:
    """The arrays with their first dimension reversed where the layer goes backwards."""
    return [each[::-1] for each in arrays] if direction else list(arrays)


@by_schema(kernel, "npu::npu_lstm")
def npu_lstm(a: Arguments) -> tuple[Array, ...]:
    """One layer: y, h and c of every step, the gates i j f o, and tanh of c, each (T, N, hidden) in input's dtype.

    Layers, dropout, two directions and batch_first are accepted and change nothing, as in CANN's operator; `direction`
    begins with the last step. Where `flag_seq` is set, `seq_mask` is how long each sequence is: afterwards its
    states stay, and its outputs are 0.
    """
    present = _present(a.seq_mask, *a.input.shape[:2]) if a.flag_seq else None
    x, *masks = _turned(a.direction, wide(a.input), *([] if present is None else [present]))
    steps = forward(x, wide(a.weight), wide(a.bias), _state(a.h), _state(a.c), masks[0] if masks else None)
    y = steps.hidden * masks[0] if masks else steps.hidden
    i, f, j, o = steps.gates
    found = _turned(a.direction, y, steps.hidden, steps.cell, i, j, f, o, steps.tanh_cell)
    return tuple(np.ascontiguousarray(each, a.input.dtype) for each in found)


@by_schema(kernel, "npu::npu_lstm_data")
def npu_lstm_data(a: Arguments) -> tuple[Array, ...]:
    """`npu_lstm` of a padded batch; `batch_sizes` is the number of sequences at each step, for the backward pass."""
    return npu_lstm(a)


def _gradients(
    a: tuple[Array, Array, Array, Array],
    grads: tuple[Array | None, Array | None, Array | None],
    found: tuple[Array, ...],
    present: Array | None,
    direction: bool,
) -> tuple[Array, ...]:
    x, weight, h, c = a
    y, hidden, cell, i, j, f, o, tanh = _turned(direction, *map(wide, found))
    flow = np.zeros(y.shape, F32) if grads[0] is None else _turned(direction, wide(grads[0]))[0]
    last = [None if each is None else wide(_turned(direction, each)[0])[-1] for each in grads[1:]]
    turned, *masks = _turned(direction, wide(x), *([] if present is None else [present]))
    if masks:
        flow = flow * masks[0]
    steps = Steps(hidden, cell, (i, f, j, o), tanh)
    dx, *others = backward(
        turned, wide(weight), _state(h), _state(c), steps, flow, (last[0], last[1]), masks[0] if masks else None
    )
    dw, db, dh, dc = others
    return (
        np.ascontiguousarray(_turned(direction, dx)[0], x.dtype),
        rounded(dw, weight.dtype),
        rounded(db, weight.dtype),
        rounded(dh.reshape(h.shape), h.dtype),
        rounded(dc.reshape(c.shape), c.dtype),
    )


def _found(a: Arguments) -> tuple[Array, ...]:
    return a.y_output, a.h_output, a.c_output, a.i, a.j, a.f, a.o, a.tanhc


@by_schema(kernel, "npu::npu_lstm_backward")
def npu_lstm_backward(a: Arguments) -> tuple[Array, ...]:
    """Gradients for input, weight, bias, hx and cx; of the states' gradients those of the last step count."""
    return _gradients((a.input, a.weight, a.hx, a.cx), (a.grady, a.gradh, a.gradc), _found(a), None, False)


@by_schema(kernel, "npu::npu_lstm_data_backward")
def npu_lstm_data_backward(a: Arguments) -> tuple[Array, ...]:
    """As `npu_lstm_backward`, with the direction as the last argument and the lengths in `batch_sizes`."""
    found = (a.y, a.h, a.c, a.i, a.j, a.f, a.o, a.tanhc)
    present = np.arange(a.input.shape[1])[None, :, None] < a.batch_sizes[:, None, None]
    given, grads = (a.input, a.weight, a.init_h, a.init_c), (a.grady_opt, a.gradh_opt, a.gradc_opt)
    return _gradients(given, grads, found, present, a.flag_direction)


@by_schema(kernel, "npu::npu_lstm_cell")
def npu_lstm_cell(a: Arguments) -> tuple[Array, ...]:
    """One step of (N, inputs) with PyTorch's weights transposed: y, h, c, i j f o and tanh of c, (N, hidden)."""
    found = forward(
        wide(a.input)[None], _joined(a.w_ih, a.w_hh), _bias(a.w_ih, a.b_ih, a.b_hh), _state(a.h), _state(a.c), None
    )
    i, f, j, o = (each[0] for each in found.gates)
    each_one = (found.hidden[0], found.hidden[0], found.cell[0], i, j, f, o, found.tanh_cell[0])
    return tuple(np.array(each, a.input.dtype) for each in each_one)


def _joined(w_ih: Array, w_hh: Array) -> Array:
    return np.concatenate((wide(w_ih), wide(w_hh)))


def _bias(w_ih: Array, *biases: Array | None) -> Array:
    result = np.zeros(w_ih.shape[1], F32)
    for each in biases:
        if each is not None:
            result += wide(each)
    return result


@by_schema(kernel, "npu::npu_lstm_cell_backward")
def npu_lstm_cell_backward(a: Arguments) -> tuple[Array, ...]:
    """Gradients for input, w_ih, w_hh, h, c and the two biases."""
    one, two, three = (None if each is None else each[None] for each in (a.grady, a.gradh, a.gradc))
    steps = tuple(each[None] for each in _found(a))
    given = (a.input[None], _joined(a.w_ih, a.w_hh), a.h, a.c)
    dx, dw, db, dh, dc = _gradients(given, (one, two, three), steps, None, False)
    inputs = len(a.w_ih)
    db = rounded(db, a.w_ih.dtype)
    return dx[0], rounded(dw[:inputs], a.w_ih.dtype), rounded(dw[inputs:], a.w_hh.dtype), dh, dc, db, db.copy()


@gradient("npu_lstm", differentiable=_ALL)
def _lstm_gradient(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    if a.flag_seq or a.direction:
        raise NotImplementedError(
            "the emulated NPU does not compute the gradient of npu_lstm with a seq_mask or direction"
        )
    found = npu.npu_lstm_backward(g[0], g[1], g[2], a.input, a.weight, a.bias, a.h, a.c, *y)
    return pick("input weight bias h c", found)
