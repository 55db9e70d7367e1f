"""`torch.lstm` and `torch.gru` on the NPU: one operator for each layer and direction, as in op-plugin.

Its LstmKernelNpu.cpp and GruKernelNpu.cpp compose layers and directions so. PyTorch's own composition, a dozen
operators for each step, remains for what these operators do not do: packed sequences, autocast, and tensors that only
stand for others (tracing, `vmap`, fake tensors).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._ops import OpOverload

from gpu2npu.emulator.device.dispatch.limits import refuse
from gpu2npu.support.conditions import CallFacts

npu = torch.ops.npu

# The input, the states before the first step and a layer's weights; the outputs, and the states after the last step.
Layer = Callable[[Tensor, Sequence[Tensor], Sequence[Tensor]], tuple[Tensor, ...]]


class Layers(NamedTuple):
    """The arguments of `torch.lstm` and `torch.gru` behind the input, in their order: `states` are those before the
    first step, `params` the weights of all layers and directions."""

    states: Sequence[Tensor]
    params: Sequence[Tensor]
    has_biases: bool
    num_layers: int
    dropout: float
    train: bool
    bidirectional: bool
    batch_first: bool

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The states and weights."""
        return (*self.states, *self.params)


def lstm(input: Tensor, hx: Sequence[Tensor], params: Sequence[Tensor], *options: Any) -> tuple[Tensor, ...]:  # noqa: A002
    _refuse_projection(hx)
    layers = Layers(hx, params, *options)
    if len(hx) != 2 or not _is_plain(input, *layers.tensors) or not _fits(4, input, layers):
        return _composed(torch.ops.aten.lstm.input, input, hx, params, *options)
    return _layers(_lstm_layer, input, layers)


def lstm_of_packed(data: Tensor, batch_sizes: Tensor, hx: Sequence[Tensor], *options: Any) -> tuple[Tensor, ...]:
    """`torch.lstm` of a packed sequence, which PyTorch composes."""
    _refuse_projection(hx)
    return _composed(torch.ops.aten.lstm.data, data, batch_sizes, hx, *options)


def _refuse_projection(hx: Sequence[Tensor]) -> None:
    """Raise LimitError for a layer whose hidden state is smaller than its cell's: it is a projection of it."""
    if len(hx) == 2 and hx[0].shape[-1] != hx[1].shape[-1]:
        refuse("torch.nn.LSTM", CallFacts({"proj_size": hx[0].shape[-1]}))


def gru(input: Tensor, hx: Tensor, params: Sequence[Tensor], *options: Any) -> tuple[Tensor, ...]:  # noqa: A002
    layers = Layers([hx], params, *options)
    if not _is_plain(input, *layers.tensors) or not _fits(3, input, layers):
        return _composed(torch.ops.aten.gru.input, input, hx, params, *options)
    return _layers(_gru_layer, input, layers)


def _composed(op: OpOverload, *args: Any) -> tuple[Tensor, ...]:
    """PyTorch's composition in C++; `decompose` would take the one in Python that is for exporting."""
    found: tuple[Tensor, ...] = op._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args)
    return found


def _lstm_layer(x: Tensor, states: Sequence[Tensor], weights: Sequence[Tensor]) -> tuple[Tensor, ...]:
    weight = torch.cat((weights[0], weights[1]), 1).t()
    bias = weights[2] + weights[3] if len(weights) == 4 else x.new_zeros(weight.shape[1])
    options = (True, 1, 0.0, True, False, False, False, False)
    found = npu.npu_lstm(x, weight, bias, x.new_empty(0), *states, *options)
    return found[0], found[1][-1:], found[2][-1:]


def _gru_layer(x: Tensor, states: Sequence[Tensor], weights: Sequence[Tensor]) -> tuple[Tensor, ...]:
    biases = weights[2:] or [x.new_zeros(len(weights[0])) for _ in "ih"]
    options = (True, 1, 0.0, True, False, False)
    found = npu.npu_gru(x, *states, weights[0].t(), weights[1].t(), *biases, x.new_empty(0), *options)
    return found[0], found[1][-1:]


def _layers(compute: Layer, x: Tensor, layers: Layers) -> tuple[Tensor, ...]:
    x = x.transpose(0, 1) if layers.batch_first else x
    directions, width = 1 + layers.bidirectional, 2 + 2 * layers.has_biases
    last: list[tuple[Tensor, ...]] = []
    for layer in range(layers.num_layers):
        outputs = []
        for direction in range(directions):
            number = layer * directions + direction
            before = [each[number : number + 1] for each in layers.states]
            weights = layers.params[number * width : (number + 1) * width]
            y, *after = compute(x.flip(0) if direction else x, before, weights)
            outputs.append(y.flip(0) if direction else y)
            last.append(tuple(after))
        x = torch.cat(outputs, 2) if layers.bidirectional else outputs[0]
        if layers.dropout and layers.train and layer < layers.num_layers - 1:
            x = torch.dropout(x, layers.dropout, layers.train)
    together = [each[0] if len(each) == 1 else torch.cat(each) for each in zip(*last, strict=True)]
    return x.transpose(0, 1) if layers.batch_first else x, *together


def _is_plain(*tensors: Tensor) -> bool:
    """Return whether these are the tensors themselves, and nobody but autograd watches what is done with them."""
    return (
        all(type(each) in (Tensor, torch.nn.Parameter) for each in tensors)
        and not torch.is_autocast_enabled("npu")
        and not torch._C._functorch.peek_interpreter_stack()
        and not torch._C._len_torch_dispatch_stack()
        and torch._C._get_tracing_state() is None
        and torch.autograd.forward_ad._current_level < 0
    )


def _fits(gates: int, x: Tensor, layers: Layers) -> bool:
    """Return whether the operators compute these layers; PyTorch's composition refuses what fits nothing."""
    count = layers.num_layers * (1 + layers.bidirectional)
    if x.dim() != 3 or not x.numel():
        return False
    shape = (count, x.shape[0 if layers.batch_first else 1], layers.states[0].shape[-1])
    return (
        all(each.shape == shape for each in layers.states)
        and len(layers.params) == count * (2 + 2 * layers.has_biases)
        and all(each.shape[0] == gates * shape[-1] for each in layers.params)
        and x.dtype in (torch.float32, torch.float16, torch.bfloat16)
        and all(each.dtype is x.dtype and each.device == x.device for each in layers.tensors)
    )


INSTEAD: dict[str, Callable[..., Any]] = {"lstm.input": lstm, "lstm.data": lstm_of_packed, "gru.input": gru}
