"""The fused cells of LSTM and GRU, which exist for CUDA alone, as what they fuse."""

from __future__ import annotations

import torch

_aten = torch.library.Library("aten", "IMPL")
_KEYS = ("CUDA", "AutogradCUDA")


def install() -> None:
    """Register the cells; autograd differentiates their parts."""
    for key in _KEYS:
        _aten.impl("_thnn_fused_lstm_cell", _lstm, key)
        _aten.impl("_thnn_fused_gru_cell", _gru, key)


def _lstm(
    input_gates: torch.Tensor,
    hidden_gates: torch.Tensor,
    cx: torch.Tensor,
    input_bias: torch.Tensor | None = None,
    hidden_bias: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The hidden and the cell state, (batch, hidden), and an empty workspace; gates are (batch, 4 * hidden)."""
    gates = input_gates + hidden_gates
    if input_bias is not None and hidden_bias is not None:
        gates = gates + input_bias + hidden_bias
    let_in, forget, cell, let_out = gates.chunk(4, 1)
    cy = forget.sigmoid() * cx + let_in.sigmoid() * cell.tanh()
    # The state that is returned is another tensor: what flows back to it leaves out what the cell itself takes of it.
    return let_out.sigmoid() * cy.tanh(), cy.clone(), gates.new_empty(0)


def _gru(
    input_gates: torch.Tensor,
    hidden_gates: torch.Tensor,
    hx: torch.Tensor,
    input_bias: torch.Tensor | None = None,
    hidden_bias: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The hidden state, (batch, hidden), and an empty workspace; gates are (batch, 3 * hidden)."""
    given = input_gates if input_bias is None else input_gates + input_bias
    retained = hidden_gates if hidden_bias is None else hidden_gates + hidden_bias
    (reset, update, new), (reset_retained, update_retained, new_retained) = given.chunk(3, 1), retained.chunk(3, 1)
    renewed = (new + (reset + reset_retained).sigmoid() * new_retained).tanh()
    return renewed + (update + update_retained).sigmoid() * (hx - renewed), given.new_empty(0)
