"""Ring attention for `torch.distributed.tensor.experimental.context_parallel`, as torch_npu has it.

torch_npu's scaled_dot_product_attention is `npu_fusion_attention_v3`, and on DTensors cut along the sequence torch_npu
runs PyTorch's ring with that and its gradient (torch_npu/distributed/tensor/experimental/_context_parallel of 2.13.0).
PyTorch's own ring knows the flash, efficient and cuDNN attention of GPUs alone.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload

from gpu2npu.emulator.device.dispatch.limits import refuse
from gpu2npu.emulator.imported import when_imported
from gpu2npu.emulator.npu_ops.arguments import bound
from gpu2npu.emulator.npu_ops.refused import attention
from gpu2npu.emulator.registration import implement
from gpu2npu.support.conditions import CallFacts

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.tensor import DTensor

Tensor = torch.Tensor

_RING = "torch.distributed.tensor.experimental._context_parallel._attention"
_API = "torch.distributed.tensor.experimental.context_parallel"
_SEQUENCE = 2  # of (batch, heads, sequence, width), the layout BNSD
_LEFT_UP_CAUSAL = 2
_CAUSAL_MODES = (1, 2, 3)
_BLOCK = 8  # the statistics are repeated along a last dimension
# Arguments that belong to positions of the whole sequence: torch_npu's ring does not cut them.
_OF_THE_WHOLE = ("pse", "padding_mask", "prefix", "actual_seq_qlen", "actual_seq_kvlen", "sink")

npu = torch.ops.npu


def install() -> None:
    """Change PyTorch's module once it is imported, which takes a second that other programs need not wait."""
    when_imported(_RING, _take_over)


def _take_over(ring: Any) -> None:
    route = _Route()
    ring._enable_cp_dtensor_dispatcher = route.open
    ring._disable_cp_dtensor_dispatcher = route.close
    enable = ring._enable_context_parallel_dispatcher_impl

    def enter(seq_dim: int, mesh: Any) -> None:
        """Enter `context_parallel`. PyTorch's own inner context would end the outer one's ring in silence."""
        if route.library is not None:
            raise RuntimeError("context_parallel: a context inside another is not supported, leave the outer one first")
        enable(seq_dim, mesh)

    ring._enable_context_parallel_dispatcher_impl = enter


class _Route:
    """The way from scaled_dot_product_attention of DTensors to the ring, open while context parallelism is on."""

    def __init__(self) -> None:
        self.library: torch.library.Library | None = None
        self.handlers: dict[OpOverload, Any] = {}

    def open(self) -> None:
        """Let attention of DTensors run the ring.

        Raises:
            LimitError: The imitated release of torch_npu has no ring attention.
        """
        from torch.distributed.tensor import DTensor

        refuse(_API, CallFacts())
        if self.library is not None:
            return
        dispatcher: Any = DTensor._op_dispatcher
        self.handlers = dispatcher._custom_op_handlers
        ours = {npu.npu_fusion_attention_v3.default: _forward, npu.npu_fusion_attention_grad_v3.default: _backward}
        dispatcher._custom_op_handlers = {**self.handlers, **ours}
        self.library = torch.library.Library("aten", "IMPL")
        implement(self.library, "scaled_dot_product_attention", _attention, "AutogradPrivateUse1")
        # Where no gradients are recorded (inference_mode), DTensor decomposes the operator by this kernel.
        composed = torch.ops.aten.scaled_dot_product_attention.default
        composed.py_kernels[torch._C.DispatchKey.CompositeImplicitAutograd] = _attention

    def close(self) -> None:
        """Undo what `open` did."""
        from torch.distributed.tensor import DTensor

        if self.library is None:
            return
        dispatcher: Any = DTensor._op_dispatcher
        dispatcher._custom_op_handlers = self.handlers
        composed = torch.ops.aten.scaled_dot_product_attention.default
        del composed.py_kernels[torch._C.DispatchKey.CompositeImplicitAutograd]
        self.library._destroy()
        self.library = None


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    from torch.distributed.tensor import DTensor

    if isinstance(query, DTensor) and query.ndim != 4 and any(each.is_shard(_SEQUENCE) for each in query.placements):
        raise NotImplementedError(
            f"context_parallel cuts dimension 2 of (batch, heads, sequence, width): got {query.ndim} dimensions"
        )
    if not isinstance(query, DTensor) or query.ndim != 4:
        return attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    result: Tensor = npu.npu_fusion_attention_v3(
        *(query, key, value, query.shape[1], "BNSD"),
        atten_mask=attn_mask,
        scale=query.shape[-1] ** -0.5 if scale is None else scale,
        keep_prob=1 - dropout_p,
        sparse_mode=_LEFT_UP_CAUSAL if is_causal else 0,
    )[0]
    return result


def _forward(op: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """`npu_fusion_attention_v3` of DTensors: this rank's rows of the result, and their statistics over all keys."""
    given = _arguments(op, args, kwargs)
    query = given["query"]
    group = _group(query)
    ring: Any = importlib.import_module(_RING)
    result, logsumexp, *_ = ring._templated_ring_attention(
        group,
        _SEQUENCE,
        _step,
        *(given[name].to_local() for name in ("query", "key", "value")),
        is_causal=given["sparse_mode"] in _CAUSAL_MODES,
        scale=given["scale"],
    )
    largest = _repeated(logsumexp)
    wrapped = (_wrap(each, query) for each in (result, largest, torch.ones_like(largest)))
    number = torch.zeros(1, dtype=torch.int64, device=result.device)
    return *wrapped, result.new_empty(0), number, number.clone()


def _backward(op: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """`npu_fusion_attention_grad_v3` of DTensors: gradients for this rank's rows, columns and values."""
    given = _arguments(op, args, kwargs)
    query = given["query"]
    group = _group(query)
    ring: Any = importlib.import_module(_RING)
    local = {name: given[name].to_local() for name in ("query", "key", "value", "dy", "attention_in")}
    largest, total = (given[name].to_local()[..., 0] for name in ("softmax_max", "softmax_sum"))
    grads = ring._templated_ring_attention_backward(
        group,
        _SEQUENCE,
        _step_back,
        grad_out=local["dy"],
        grad_out_name="grad_out",
        query=local["query"],
        key=local["key"],
        value=local["value"],
        out=local["attention_in"],
        logsumexp=largest + total.log(),
        is_causal=given["sparse_mode"] in _CAUSAL_MODES,
        scale=given["scale_value"],
    )
    empty = local["query"].new_empty(0)
    return *(_wrap(each, query) for each in grads[:3]), empty, empty.clone()


def _step(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    """Attention to one rank's keys, (batch, heads, rows, width), and the logarithms of the rows' sums."""
    result, largest, total, *_ = npu.npu_fusion_attention_v3(
        *(query, key, value, query.shape[1], "BNSD"), scale=scale, **_masking(query, is_causal)
    )
    return result, (largest + total.log())[..., 0]


def _step_back(
    *,
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    is_causal: bool,
    scale: float,
) -> tuple[Tensor, ...]:
    largest = _repeated(logsumexp)
    found: tuple[Tensor, ...] = npu.npu_fusion_attention_grad_v3(
        *(query, key, value, grad_out, query.shape[1], "BNSD"),
        softmax_max=largest,
        softmax_sum=torch.ones_like(largest),
        attention_in=out,
        scale_value=scale,
        **_masking(query, is_causal),
    )
    return found[:3]


def _masking(query: Tensor, is_causal: bool) -> dict[str, Any]:
    if not is_causal:
        return {}
    rows = query.shape[_SEQUENCE]
    hidden = torch.ones(rows, rows, dtype=torch.bool, device=query.device).triu(1)
    return {"atten_mask": hidden, "sparse_mode": 1}


def _repeated(logsumexp: Tensor) -> Tensor:
    return logsumexp.unsqueeze(-1).expand(*logsumexp.shape, _BLOCK).contiguous()


def _wrap(local: Tensor, like: DTensor) -> DTensor:
    from torch.distributed.tensor import DTensor

    return DTensor.from_local(local, like.device_mesh, like.placements, run_check=False)


def _group(query: DTensor) -> ProcessGroup:
    """The ranks among which the sequence is cut."""
    for dimension, placement in enumerate(query.placements):
        if placement.is_shard(_SEQUENCE):
            return query.device_mesh.get_group(dimension)
    raise RuntimeError("inputs need to be redistributed")


def _arguments(op: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """All arguments by name.

    Raises:
        NotImplementedError: torch_npu's ring does not take one of them.
        RuntimeError: Dropout, for which torch_npu wants whole sequences.
    """
    given = vars(bound(op.name(), args, kwargs))
    name = op._schema.name.removeprefix("npu::")
    layout = given["input_layout"]
    if layout.upper() != "BNSD":
        raise NotImplementedError(
            f"{name} currently supports BNSD q/k/v only in NPU context parallel, got input_layout={layout!r}"
        )
    refused = [each for each in _OF_THE_WHOLE if given[each] is not None]
    if refused:
        raise NotImplementedError(f"{name} in NPU context parallel does not support {', '.join(refused)} yet.")
    mode, mask = given["sparse_mode"], given["atten_mask"]
    if mode not in (0, *_CAUSAL_MODES) or (mask is not None and not mode):
        raise NotImplementedError(
            f"{name} in NPU context parallel takes no mask but causal sparse_mode 1/2/3, got sparse_mode={mode!r}"
        )
    if given["keep_prob"] < 1:
        raise RuntimeError("inputs need to be redistributed")
    return given
