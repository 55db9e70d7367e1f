"""Places where PyTorch's distributed code knows NCCL by name or needs C++, taught to work with HCCL.

torch_npu teaches the same: its own reducer in C++ for DistributedDataParallel's hooks, and a backward for
`torch.distributed.nn.functional._all_gather_base` (`torch_npu/distributed/nn/functional.py`).
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

from gpu2npu.emulator.distributed import context_parallel

Tensor = torch.Tensor

_aten = torch.library.Library("aten", "IMPL")


def register() -> None:
    """Change PyTorch's functions, once a process."""
    _take_builtin_hooks_in_python()
    _keep_the_works_of_joins()
    _differentiate_all_gather()
    _send_batches_as_one()
    context_parallel.install()
    # DTensor decomposes an operator for which it has no rule, if there is a decomposition. The NPU of the emulator
    # differentiates `linear` as a whole, which a CPU or a GPU does not.
    _aten.impl("linear_backward", linear_backward, "CompositeImplicitAutograd")


def _take_builtin_hooks_in_python() -> None:
    """The C++ hooks of DistributedDataParallel want a C++ future; their Python equals do with ours."""
    register_builtin = DistributedDataParallel._register_builtin_comm_hook

    @functools.wraps(register_builtin)
    def call(self: DistributedDataParallel, comm_hook_type: Any) -> None:
        if self.device_type != "npu":
            return register_builtin(self, comm_hook_type)
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

        kinds: Any = dist.BuiltinCommHookType  # type: ignore[attr-defined]
        hooks = {kinds.ALLREDUCE: default_hooks.allreduce_hook, kinds.FP16_COMPRESS: default_hooks.fp16_compress_hook}
        return self.register_comm_hook(self.process_group, hooks[comm_hook_type])

    DistributedDataParallel._register_builtin_comm_hook = call  # type: ignore[method-assign]


def _send_batches_as_one() -> None:
    """torch_npu hands the messages of a batch to HCCL together; a rank may then send to itself."""
    one_by_one = dist.batch_isend_irecv

    @functools.wraps(one_by_one)
    def call(p2p_op_list: list[dist.P2POp]) -> list[dist.Work]:
        if not _is_batch_on_npus(p2p_op_list):
            return one_by_one(p2p_op_list)
        whole: Any = p2p_op_list[0].group or dist.group.WORLD
        group = whole._get_backend(p2p_op_list[0].tensor.device)
        if not hasattr(group, "batch_isend_irecv"):  # gloo, say
            return one_by_one(p2p_op_list)
        kinds = [each.op.__name__ for each in p2p_op_list]
        tensors = [each.tensor for each in p2p_op_list]
        return [group.batch_isend_irecv(kinds, tensors, [each.group_peer for each in p2p_op_list])]

    for module in (dist, dist.distributed_c10d):
        setattr(module, "batch_isend_irecv", call)  # noqa: B010


def _is_batch_on_npus(batch: object) -> bool:
    """Return whether a batch is one that PyTorch takes, of tensors on NPUs."""
    return (
        isinstance(batch, list)
        and all(isinstance(each, dist.P2POp) for each in batch)
        and len({each.group for each in batch}) == 1
        and batch[0].tensor.device.type == "npu"
    )


def _keep_the_works_of_joins() -> None:
    """DDP's C++ keeps only the C++ half of a work in Python, which waits for ever once the other half is gone."""
    notify = Join.notify_join_context
    retained: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    @functools.wraps(notify)
    def call(joinable: Any) -> Any:
        retained[joinable] = work = notify(joinable)
        return work

    Join.notify_join_context = staticmethod(call)  # type: ignore[method-assign]


def _differentiate_all_gather() -> None:
    from torch.distributed.nn import functional

    original = functional._AllGatherBase.backward

    @functools.wraps(original)
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, None]:
        if dist.get_backend(ctx.group) != "hccl":
            return original(ctx, gradient)
        share = gradient.new_empty(gradient.shape[0] // dist.get_world_size(ctx.group), *gradient.shape[1:])
        dist.reduce_scatter_tensor(share, gradient.contiguous(), group=ctx.group)
        return None, share, None

    functional._AllGatherBase.backward = staticmethod(backward)  # type: ignore[method-assign]


def linear_backward(
    value: Tensor, gradient: Tensor, weight: Tensor, output_mask: list[bool]
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of `linear` in operators that every device and DTensor have.

    All three whatever `output_mask` says: DTensor counts them.

    Args:
        value: (*, in), what `linear` was given.
        gradient: (*, out), of its result.
        weight: (out, in).
        output_mask: Whether the gradients of the value, the weight and the bias are wanted.
    """
    rows, values = (each.flatten(0, -2) if each.dim() > 1 else each.unsqueeze(0) for each in (gradient, value))
    return gradient.matmul(weight), rows.t().matmul(values), rows.sum(0)
