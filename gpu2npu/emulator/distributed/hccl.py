"""The `hccl` process group: collectives on npu tensors, carried by gloo over the host memory beneath them.

What it refuses is what torch_npu refuses (ProcessGroupHCCL.cpp): reductions of float64 or complex tensors, bitwise
reductions, tensors that are not contiguous, and CPU tensors unless the group was made with "cpu:gloo,npu:hccl".
One limit is gloo's: int16 can be moved but not reduced.
"""
# The stubs describe C++ overloads for callers, not the one signature that a Python subclass is called with.
# mypy: disable-error-code="override, assignment, attr-defined, call-arg"

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import (
    AllgatherOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    ReduceScatterOptions,
    Store,
)

from gpu2npu.emulator.device.tensor import host
from gpu2npu.emulator.distributed import pinned
from gpu2npu.emulator.distributed.work import HcclSend, HcclWork

Tensors = Sequence[torch.Tensor]

_REDUCIBLE = {torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8}
_AS_INTEGERS = {torch.bool, torch.uint8}  # torch_npu casts them to int32 for the way
_BITWISE = {dist.ReduceOp.BAND: "BAND", dist.ReduceOp.BOR: "BOR", dist.ReduceOp.BXOR: "BXOR"}


class ProcessGroupHCCL(dist.ProcessGroup):
    """A group of ranks that each own an NPU. Every method starts one collective and returns its work.

    The methods are the ones PyTorch's `distributed_c10d` and the C++ of DistributedDataParallel call, under the names
    of PyTorch 2.5 and, where those changed, of 2.13 too.
    """

    class Options:
        """What scripts pass as `pg_options`; only `hccl_config` and the stream priority exist, and neither matters."""

        def __init__(self) -> None:
            self.is_high_priority_stream = False
            self.hccl_config: dict[str, Any] = {}

    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self._gloo: Any = dist.ProcessGroupGloo(store, rank, size, timeout)
        self._unwaited: set[HcclSend] = set()
        # Says which device this group serves, to object collectives, barrier() and DistributedDataParallel.
        self._register_backend(torch.device("npu"), dist.ProcessGroup.BackendType.CUSTOM, self._gloo)

    def getBackendName(self) -> str:  # noqa: N802 - c10d's name
        return "hccl"

    def shutdown(self) -> None:
        self._unwaited.clear()
        # Without this gloo's threads abort the process at exit.
        self._gloo.shutdown()

    def abort(self) -> None:
        self._gloo.abort()

    # One tensor for all ranks.

    def broadcast(self, tensors: Tensors, opts: Any) -> HcclWork:
        return HcclWork([self._gloo.broadcast(self._bytes(tensors), opts)], tensors)

    def allreduce(self, tensors: Tensors, opts: Any = None) -> HcclWork:
        opts = opts or AllreduceOptions()
        return HcclWork([self._gloo.allreduce(self._terms(tensors, opts, "allreduce"), opts)], tensors)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> HcclWork:
        single = AllreduceOptions()
        if opts is not None:
            single.reduceOp, single.timeout = opts.reduceOp, opts.timeout
        works = [self._gloo.allreduce(self._terms([tensor], single, "allreduce"), single) for tensor in tensors]
        return HcclWork(works, tensors)

    def reduce(self, tensors: Tensors, opts: Any) -> HcclWork:
        return HcclWork([self._gloo.reduce(self._terms(tensors, opts, "reduce"), opts)], tensors)

    def barrier(self, opts: Any = None) -> dist.Work:
        return self._gloo.barrier(opts or BarrierOptions())

    # One tensor from, or for, each rank.

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> HcclWork:
        opts = opts or AllgatherOptions()
        work = self._gloo.allgather([self._bytes(row) for row in outputs], self._bytes(inputs), opts)
        return HcclWork([work], [tensor for row in outputs for tensor in row])

    def allgather_coalesced(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> HcclWork:
        opts = opts or AllgatherOptions()
        works = [
            self._gloo.allgather([self._bytes(row[i] for row in outputs)], self._bytes([tensor]), opts)
            for i, tensor in enumerate(inputs)
        ]
        return HcclWork(works, [tensor for row in outputs for tensor in row])

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> HcclWork:
        work = self._gloo.gather([self._bytes(row) for row in outputs], self._bytes(inputs), opts)
        return HcclWork([work], [tensor for row in outputs for tensor in row])

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> HcclWork:
        work = self._gloo.scatter(self._bytes(outputs), [self._bytes(row) for row in inputs], opts)
        return HcclWork([work], outputs)

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> HcclWork:
        opts = opts or ReduceScatterOptions()
        terms = [self._terms(row, opts, "reduce_scatter") for row in inputs]
        return HcclWork([self._gloo.reduce_scatter(self._terms(outputs, opts, "reduce_scatter"), terms, opts)], outputs)

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> HcclWork:
        opts = opts or AllToAllOptions()
        return HcclWork([self._gloo.alltoall(self._bytes(outputs), self._bytes(inputs), opts)], outputs)

    # The same with one tensor that holds all ranks' parts.

    def all_gather_single(self, output: torch.Tensor, value: torch.Tensor, opts: Any = None) -> HcclWork:
        return self.all_gather_single_coalesced([output], [value], opts)

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> HcclWork:
        opts = opts or AllgatherOptions()
        pairs = zip(self._bytes(outputs), self._bytes(inputs), strict=True)
        return HcclWork([self._gloo._allgather_base(output, value, opts) for output, value in pairs], outputs)

    def reduce_scatter_single(self, output: torch.Tensor, value: torch.Tensor, opts: Any = None) -> HcclWork:
        return self.reduce_scatter_single_coalesced([output], [value], opts)

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> HcclWork:
        opts = opts or ReduceScatterOptions()
        terms = (self._terms(tensors, opts, "reduce_scatter") for tensors in (outputs, inputs))
        works = [self._gloo._reduce_scatter_base(output, value, opts) for output, value in zip(*terms, strict=True)]
        return HcclWork(works, outputs)

    def all_to_all_single(
        self,
        output: torch.Tensor,
        value: torch.Tensor,
        output_splits: list[int],
        input_splits: list[int],
        opts: Any = None,
    ) -> HcclWork:
        opts = opts or AllToAllOptions()
        work = self._gloo.alltoall_base(self._rows(output), self._rows(value), output_splits, input_splits, opts)
        return HcclWork([work], [output])

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    # From one rank to another.

    def send(self, tensors: Tensors, destination: int, tag: int) -> HcclSend:
        return HcclSend(self._gloo.send(self._bytes(tensors), destination, tag), tensors, self._unwaited)

    def recv(self, tensors: Tensors, source: int, tag: int) -> dist.Work:
        return self._gloo.recv(self._bytes(tensors), source, tag)

    def recv_anysource(self, tensors: Tensors, tag: int) -> dist.Work:
        return self._gloo.recv_anysource(self._bytes(tensors), tag)

    # Host memory, as gloo wants it.

    def _bytes(self, tensors: Any) -> list[torch.Tensor]:
        """Tensors that are only moved, as 1-d uint8: gloo need not know their dtype."""
        return [self._flat(tensor).view(torch.uint8) for tensor in tensors]

    def _rows(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor that is moved in parts of its first dimension, as uint8 of shape (shape[0], bytes of a row)."""
        if not tensor.is_contiguous():
            raise ValueError("Tensors must be contiguous")
        return self._flat(tensor).view(torch.uint8).view(tensor.shape[0], tensor[:1].nbytes)

    def _terms(self, tensors: Tensors, opts: Any, collective: str) -> list[torch.Tensor]:
        """Tensors that are reduced, 1-d; `opts` is adapted where the dtype asks for another operation.

        Raises:
            RuntimeError: HCCL cannot reduce this dtype, or not with this operation.
        """
        for name in (name for operation, name in _BITWISE.items() if opts.reduceOp == operation):
            raise RuntimeError(f"Cannot use ReduceOp.{name} with HCCL")
        flat = [self._flat(tensor) for tensor in tensors]
        for tensor in flat:
            if tensor.dtype not in _REDUCIBLE | _AS_INTEGERS:
                raise RuntimeError(f"HCCL {collective}: Unsupported data type {tensor.dtype}")
        if flat and flat[0].dtype == torch.bool:  # a sum of truth values is "any", and bytes must stay 0 or 1
            flat = [tensor.view(torch.uint8) for tensor in flat]
            if opts.reduceOp == dist.ReduceOp.SUM:
                opts.reduceOp = dist.ReduceOp.MAX
        return flat

    def _flat(self, tensor: torch.Tensor) -> torch.Tensor:
        """The bytes of a tensor as a 1-d host tensor in the order they lie in memory."""
        if tensor.device.type == "cpu" and "cpu:" not in dist.get_backend_config(self):
            raise RuntimeError("No backend type associated with device type cpu")
        if not (tensor.is_contiguous() or tensor.is_contiguous(memory_format=torch.channels_last)):
            raise ValueError("Tensors must be contiguous")
        with torch.no_grad():
            return host(tensor.detach()).as_strided((tensor.numel(),), (1,))


def register() -> None:
    """Make "hccl" a backend of torch.distributed, and the default one of the npu device."""
    dist.Backend.register_backend("hccl", _create, extended_api=True, devices=["npu"])
    dist.ProcessGroupHCCL = ProcessGroupHCCL
    dist.is_hccl_available = lambda: True
    pinned.register()


def _create(options: Any, pg_options: Any) -> ProcessGroupHCCL:
    return ProcessGroupHCCL(options.store, options.group_rank, options.group_size, options.timeout)
