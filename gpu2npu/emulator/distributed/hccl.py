"""The `hccl` process group: collectives on npu tensors, carried by gloo over the host memory beneath them.

What it refuses is what torch_npu refuses (`ProcessGroupHCCL.cpp` of 2.7 to 2.14): dtypes and reductions that HCCL or
the chip lacks (see `datatypes`), tensors that are not contiguous where HCCL takes their memory as it is, messages from
any source, and CPU tensors unless the group was made with "cpu:gloo,npu:hccl". As with HCCL, the tag of a message is
not looked at: messages between two ranks arrive in the order in which they were sent.
"""
# The stubs describe C++ overloads for callers, not the one signature that a Python subclass is called with.
# mypy: disable-error-code="override, assignment, attr-defined, call-arg"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import (
    AllgatherOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    ReduceScatterOptions,
)

from gpu2npu.emulator.device import streams
from gpu2npu.emulator.device.dispatch.limits import refuse
from gpu2npu.emulator.distributed import calls, operands, pinned, pytorch, transport
from gpu2npu.emulator.distributed.group import Group
from gpu2npu.emulator.distributed.options import HcclOptions
from gpu2npu.emulator.distributed.work import HcclWork
from gpu2npu.support.conditions import CallFacts

Tensors = Sequence[torch.Tensor]

_NO_TAG = 0


class ProcessGroupHCCL(Group):
    """A group of ranks that each own an NPU. Every method starts one collective and returns its work.

    The methods are the ones PyTorch's `distributed_c10d` and the C++ of DistributedDataParallel call, under the names
    of PyTorch 2.5 and, where those changed, of 2.13 too. The group is its own backend: torch_npu's methods that scripts
    reach by `group._get_backend(torch.device("npu"))` are here.
    """

    # One tensor for all ranks.

    def broadcast(self, tensors: Tensors, opts: Any) -> HcclWork | None:
        moved = self._bytes(tensors)
        call = self._call(f"broadcast from {opts.rootRank}", tensors, opts)
        return self._run(call, lambda: [self._gloo.broadcast(moved, opts)], tensors)

    def allreduce(self, tensors: Tensors, opts: Any = None) -> HcclWork | None:
        opts = opts or AllreduceOptions()
        flat, terms = self._terms(tensors, opts, "allreduce")
        call = self._call(f"allreduce {calls.reduction(opts)}", tensors, opts)
        return self._run(call, lambda: [self._gloo.allreduce(terms, opts)], tensors, zip(flat, terms, strict=True))

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> HcclWork | None:
        opts, parts = opts or AllreduceOptions(), []
        for tensor in tensors:
            single = AllreduceOptions()
            single.reduceOp, single.timeout = opts.reduceOp, opts.timeout
            parts.append((single, *self._terms([tensor], single, "allreduce_coalesced")))
        return self._run(
            self._call(f"allreduce_coalesced {calls.reduction(opts)}", tensors, opts),
            lambda: [self._gloo.allreduce(terms, single) for single, _, terms in parts],
            tensors,
            [pair for _, flat, terms in parts for pair in zip(flat, terms, strict=True)],
        )

    def reduce(self, tensors: Tensors, opts: Any) -> HcclWork | None:
        flat, terms = self._terms(tensors, opts, "reduce")
        copies = zip(flat, terms, strict=True) if opts.rootRank == self.rank() else ()
        call = self._call(f"reduce {calls.reduction(opts)} to {opts.rootRank}", tensors, opts)
        return self._run(call, lambda: [self._gloo.reduce(terms, opts)], tensors, copies)

    def barrier(self, opts: Any = None) -> HcclWork | None:
        opts = opts or BarrierOptions()
        return self._run(self._call("barrier", (), opts), lambda: [self._gloo.barrier(opts)], ())

    # One tensor from, or for, each rank.

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> HcclWork | None:
        opts = opts or AllgatherOptions()
        (row,), (value,) = outputs, inputs
        parts = [operands.in_order(tensor) for tensor in self._hosts(row)]
        call = self._call("allgather", inputs, opts, received=parts)
        if len({part.numel() for part in parts}) > 1:
            return self._allgather_by_broadcasts(call, row, parts, value)
        received, sent = [operands.as_bytes(part) for part in parts], self._bytes(inputs)
        copies = zip(self._hosts(row), parts, strict=True)
        return self._run(
            call,
            lambda: [self._gloo.allgather([received], sent, opts)],
            lambda: [torch.stack(list(row))],  # torch_npu, like NCCL, gathers into one tensor first
            copies,
        )

    def _allgather_by_broadcasts(
        self, call: calls.Call, row: Tensors, parts: Tensors, value: torch.Tensor
    ) -> HcclWork | None:
        """With parts of different sizes, as torch_npu does it."""
        parts[self.rank()].copy_(operands.in_order(self._hosts([value])[0]).view_as(parts[self.rank()]))

        def start() -> Sequence[dist.Work]:
            works = []
            for root, part in enumerate(parts):
                opts = BroadcastOptions()
                opts.rootRank = root
                works.append(self._gloo.broadcast([operands.as_bytes(part)], opts))
            return works

        return self._run(call, start, row, zip(self._hosts(row), parts, strict=True))

    def allgather_coalesced(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> HcclWork | None:
        works = [self.allgather([[row[i] for row in outputs]], [tensor], opts) for i, tensor in enumerate(inputs)]
        return self._together(works)

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> HcclWork | None:
        root, (value,) = opts.rootRank, inputs
        row = outputs[0] if outputs else []
        sent = [value if rank == root else value.flatten()[:0] for rank in range(self.size())]
        received = row or [value.flatten()[:0] for _ in range(self.size())]
        return self._exchange(f"gather to {root}", received, sent, row, opts)

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> HcclWork | None:
        sent = [[operands.as_bytes(operands.in_order(tensor)) for tensor in self._hosts(row)] for row in inputs]
        received, root = self._bytes(outputs), opts.rootRank
        nothing = [received[0][:0]] * self.size()
        expected = [*nothing[:root], received[0], *nothing[root + 1 :]]
        call = self._call(f"scatter from {root}", outputs, opts, sent[0] if sent else nothing, expected)
        return self._run(call, lambda: [self._gloo.scatter(received, sent, opts)], outputs)

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> HcclWork | None:
        opts = opts or ReduceScatterOptions()
        flat, results = self._terms(outputs, opts, "reduce_scatter")
        terms = [self._terms([tensor.contiguous() for tensor in row], opts, "reduce_scatter")[1] for row in inputs]
        return self._run(
            self._call(f"reduce_scatter {calls.reduction(opts)}", outputs, opts, sent=inputs[0]),
            lambda: [self._gloo.reduce_scatter(results, terms, opts)],
            outputs,
            zip(flat, results, strict=True),
        )

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> HcclWork | None:
        return self._exchange("alltoall", outputs, inputs, outputs, opts)

    def _exchange(
        self, collective: str, outputs: Tensors, inputs: Tensors, results: Tensors, opts: Any
    ) -> HcclWork | None:
        """Send each rank its input and receive its output; of any sizes, and any that need not be sent are empty."""
        sent = [operands.as_bytes(operands.in_order(tensor)) for tensor in self._hosts(inputs)]
        targets = self._hosts(outputs)
        sizes = [target.nbytes for target in targets]
        received = torch.empty(sum(sizes), dtype=torch.uint8, device="cpu")
        parts = [
            part.view(target.dtype).view(target.shape)
            for part, target in zip(received.split(sizes), targets, strict=True)
        ]
        counts = [part.numel() for part in sent]
        return self._run(
            self._call(collective, inputs, opts, sent, targets),
            lambda: [self._gloo.alltoall_base(received, torch.cat(sent), sizes, counts, AllToAllOptions())],
            results,
            zip(targets, parts, strict=True),
        )

    # The same with one tensor that holds all ranks' parts.

    def all_gather_single(self, output: torch.Tensor, value: torch.Tensor, opts: Any = None) -> HcclWork | None:
        return self.all_gather_single_coalesced([output], [value], opts)

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> HcclWork | None:
        opts = opts or AllgatherOptions()
        pairs = list(zip(self._bytes(outputs), self._bytes(inputs), strict=True))
        return self._run(
            self._call("allgather_into_tensor", inputs, opts, received=calls.shares(outputs, self.size())),
            lambda: [self._gloo._allgather_base(output, value, opts) for output, value in pairs],
            outputs,
        )

    def reduce_scatter_single(self, output: torch.Tensor, value: torch.Tensor, opts: Any = None) -> HcclWork | None:
        return self.reduce_scatter_single_coalesced([output], [value], opts)

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> HcclWork | None:
        opts = opts or ReduceScatterOptions()
        flat, results = self._terms(outputs, opts, "_reduce_scatter_base")
        _, terms = self._terms(inputs, opts, "_reduce_scatter_base")
        pairs = list(zip(results, terms, strict=True))
        return self._run(
            self._call(
                f"reduce_scatter_tensor {calls.reduction(opts)}", outputs, opts, sent=calls.shares(inputs, self.size())
            ),
            lambda: [self._gloo._reduce_scatter_base(result, term, opts) for result, term in pairs],
            outputs,
            zip(flat, results, strict=True),
        )

    def all_to_all_single(
        self,
        output: torch.Tensor,
        value: torch.Tensor,
        output_splits: list[int],
        input_splits: list[int],
        opts: Any = None,
    ) -> HcclWork | None:
        opts = opts or AllToAllOptions()
        rows = [operands.rows(tensor) for tensor in self._hosts([output, value])]
        back, out = (
            row.split(list(splits) or -(-row.shape[0] // self.size()))
            for row, splits in zip(rows, (output_splits, input_splits), strict=True)
        )
        return self._run(
            self._call("all_to_all_single", [value], opts, out, back),
            lambda: [self._gloo.alltoall_base(*rows, output_splits, input_splits, opts)],
            [output],
        )

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    # With parts of different sizes in one tensor: torch_npu's own.

    def reduce_scatter_tensor_uneven(
        self, output: torch.Tensor, value: torch.Tensor, input_split_sizes: Sequence[int] = (), opts: Any = None
    ) -> HcclWork | None:
        return self.reduce_scatter([output], [self._split(value, input_split_sizes)], opts)

    def all_gather_into_tensor_uneven(
        self, output: torch.Tensor, value: torch.Tensor, output_split_sizes: Sequence[int] = (), opts: Any = None
    ) -> HcclWork | None:
        return self.allgather([self._split(output, output_split_sizes)], [value], opts)

    def alltoallvc(
        self, output: torch.Tensor, value: torch.Tensor, send_counts: Sequence[int], opts: Any = None
    ) -> HcclWork | None:
        """`send_counts`: (ranks * ranks,), the elements that each rank sends to each, in rows by sender."""
        sent = value.flatten().split(list(send_counts[self.rank() * self.size() :][: self.size()]))
        received = output.view(-1).split(list(send_counts[self.rank() :: self.size()]))
        return self._exchange("alltoallvc", received, sent, [output], opts)

    def _split(self, tensor: torch.Tensor, sizes: Sequence[int]) -> Tensors:
        """Views of the parts along the first dimension; equal ones when no sizes are given."""
        if not sizes and tensor.shape[0] % self.size():
            raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
        if sizes and len(sizes) != self.size():
            raise RuntimeError("Number of tensor splits not equal to group size")
        return tensor.split(list(sizes) or tensor.shape[0] // self.size())

    # From one rank to another.

    def send(self, tensors: Tensors, destination: int, tag: int) -> HcclWork | None:
        if destination == self.rank():
            self._with_itself("send", tensors)
            return None
        return self._started(self._messages.send(tensors, self._bytes(tensors), destination))

    def recv(self, tensors: Tensors, source: int, tag: int) -> HcclWork | None:
        if source == self.rank():
            self._with_itself("recv", tensors)
            return None
        return self._started(self._messages.receive(tensors, self._bytes(tensors), source))

    def recv_anysource(self, tensors: Tensors, tag: int) -> dist.Work:
        refuse("torch.distributed.recv", CallFacts({"src": None}))
        raise NotImplementedError("HCCL recv: the emulated NPU receives from a rank that is named; give src")

    def batch_isend_irecv(self, kinds: Sequence[str], tensors: Tensors, ranks: Sequence[int]) -> HcclWork | None:
        """Several messages at once: "isend" or "irecv", the tensor and the group's rank of each."""
        is_whole = self._coalesced is None
        if is_whole:
            self._start_coalescing(tensors[0].device)
        try:
            for kind, tensor, rank in zip(kinds, tensors, ranks, strict=True):
                (self.send if kind == "isend" else self.recv)([tensor], rank, _NO_TAG)
        except Exception:
            self._drop_coalesced()
            raise
        return self._end_coalescing(tensors[0].device) if is_whole else None


def register() -> None:
    """Make "hccl" a backend of torch.distributed, and the default one of the npu device."""
    dist.Backend.register_backend("hccl", _create, extended_api=True, devices=["npu"])
    dist.ProcessGroupHCCL = ProcessGroupHCCL
    dist.is_hccl_available = lambda: True
    transport.register()
    streams.on_synchronize(transport.synchronize)
    pinned.register()
    pytorch.register()


def _create(dist_options: Any, pg_options: Any) -> ProcessGroupHCCL:
    options = pg_options if isinstance(pg_options, HcclOptions) else HcclOptions()
    options._timeout = dist_options.timeout
    options.global_ranks_in_group = dist_options.global_ranks_in_group
    options.group_id = dist_options.group_id
    return ProcessGroupHCCL(dist_options.store, dist_options.group_rank, dist_options.group_size, options)
