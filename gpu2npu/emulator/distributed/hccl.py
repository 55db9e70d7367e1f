"""The `hccl` process group: collectives on npu tensors, carried by gloo over the host memory beneath them.

What it refuses is what torch_npu refuses (`ProcessGroupHCCL.cpp` of 2.7 to 2.14): dtypes and reductions that HCCL or
the chip lacks (see `datatypes`), tensors that are not contiguous where HCCL takes their memory as it is, messages from
any source, and CPU tensors unless the group was made with "cpu:gloo,npu:hccl". As with HCCL, the tag of a message is
not looked at: messages between two ranks arrive in the order in which they were sent.
"""
# The stubs describe C++ overloads for callers, not the one signature that a Python subclass is called with.
# mypy: disable-error-code="override, assignment, attr-defined, call-arg"

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
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
    Store,
)

from gpu2npu.emulator.distributed import agreement, calls, datatypes, operands, pinned, pytorch
from gpu2npu.emulator.distributed.options import HcclOptions
from gpu2npu.emulator.distributed.peers import Peers
from gpu2npu.emulator.distributed.work import Copies, HcclWork, Heading, Results, Sending, WaitedWork

Tensors = Sequence[torch.Tensor]

_NO_TAG = 0
_WAITED = {"reduce_scatter", "reduce_scatter_tensor"}  # gloo does part of their work when it is waited for


class ProcessGroupHCCL(dist.ProcessGroup):
    """A group of ranks that each own an NPU. Every method starts one collective and returns its work.

    The methods are the ones PyTorch's `distributed_c10d` and the C++ of DistributedDataParallel call, under the names
    of PyTorch 2.5 and, where those changed, of 2.13 too. The group is its own backend: torch_npu's methods that scripts
    reach by `group._get_backend(torch.device("npu"))` are here.
    """

    Options = HcclOptions
    supports_splitting = False  # so that split_group() refuses, as with torch_npu
    supports_coalescing = True

    def __init__(self, store: Store, rank: int, size: int, options: HcclOptions | timedelta | None = None) -> None:
        super().__init__(rank, size)
        if not isinstance(options, HcclOptions):
            timeout, options = options, HcclOptions()
            options._timeout = timeout or options._timeout
        self.options = options
        self._peers = Peers(store, rank, size, options.global_ranks_in_group)
        self._gloo: Any = dist.ProcessGroupGloo(store, rank, size, options._timeout)
        self._agreement = agreement.Agreement(store, rank, self._peers.global_ranks, options._timeout)
        self._peers.meet()
        self._unwaited: set[Sending] = set()
        self._refused: list[dist.Work] = []
        self._sent, self._received = ([itertools.count() for _ in range(size)] for _ in range(2))
        self._coalesced: list[HcclWork] | None = None
        self._sequence_number = 0
        # Says which device this group serves, to object collectives, barrier() and DistributedDataParallel.
        self._register_backend(torch.device("npu"), dist.ProcessGroup.BackendType.CUSTOM, self._gloo)

    # What is asked about a group.

    def getBackendName(self) -> str:  # noqa: N802 - c10d's name
        return "hccl"

    def name(self) -> str:
        return "hccl"

    def _get_backend(self, device: torch.device) -> Any:
        if device.type == "npu":
            return self
        if device.type == "cpu" and self._serves_cpu():
            return self._gloo
        raise RuntimeError(f"No backend type associated with device type {device.type}")

    def supports_tensor_alloc(self, device: torch.device) -> bool:
        return False

    def _serves_cpu(self) -> bool:
        return "cpu:" in dist.get_backend_config(self)

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence_number

    def _set_sequence_number_for_group(self) -> None:
        """Nothing to agree on: every rank counts from 0."""

    def set_timeout(self, timeout: timedelta) -> None:
        """The longest a collective started from now on may take."""
        for gloo in (self._gloo, self._agreement.gloo):
            gloo._set_default_timeout(timeout)

    _set_default_timeout = set_timeout

    def get_hccl_comm_name(self, rank: int, init_comm: bool = True) -> str:
        """The communicator's name, the same on all ranks of the group: what `hccl_config` says, or one of our own."""
        return str(self.options.hccl_config.get("group_name") or f"hccl_{self.options.group_id}")

    def get_hccl_comm(self, rank: int) -> int:
        """Raises NotImplementedError: a real one is the address of a structure in HCCL's memory."""
        raise NotImplementedError("get_hccl_comm: the emulated NPU has no HCCL communicator in memory")

    # Its end.

    def shutdown(self) -> None:
        self._unwaited.clear()
        # Without this gloo's threads abort the process at exit.
        self._agreement.gloo.shutdown()
        self._gloo.shutdown()

    def abort(self, reason: str | None = None) -> None:
        self._agreement.gloo.abort()
        self._gloo.abort()

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
            raise ValueError("HCCL send: a rank cannot send to itself")
        moved, failed = self._bytes(tensors), self._failed("send")
        try:
            works = [
                self._gloo.send([calls.message(tensors)], destination, calls.HEADERS),
                self._gloo.send(moved, destination, calls.tag(moved, next(self._sent[destination]))),
            ]
        except RuntimeError as error:
            raise dist.DistBackendError(failed(str(error))) from error
        return self._started(Sending(works, failed, self._unwaited))

    def recv(self, tensors: Tensors, source: int, tag: int) -> HcclWork | None:
        moved, failed, expected = self._bytes(tensors), self._failed("recv"), calls.message(tensors)
        header, ranks = (
            torch.empty_like(expected),
            (self._peers.global_ranks[source], self._peers.global_ranks[self.rank()]),
        )
        try:
            heading = self._gloo.recv([header], source, calls.HEADERS)
            message = self._gloo.recv(moved, source, calls.tag(moved, next(self._received[source])))
        except RuntimeError as error:
            raise dist.DistBackendError(failed(str(error))) from error

        def disagreement() -> str:
            said = agreement.disagreement(header.numpy().tobytes() + expected.numpy().tobytes(), ranks)
            if said:
                self._refused.append(message)  # gloo loses others when the handle of one in flight is dropped
            return said

        works = [Heading(heading, disagreement), message]
        return self._started(WaitedWork(agreement.Started(works), tensors, (), failed))

    def recv_anysource(self, tensors: Tensors, tag: int) -> dist.Work:
        raise RuntimeError("ProcessGroupHCCL does not support recv from any source: name the rank")

    def batch_isend_irecv(self, kinds: Sequence[str], tensors: Tensors, ranks: Sequence[int]) -> HcclWork | None:
        """Several messages at once: "isend" or "irecv", the tensor and the group's rank of each."""
        works = [
            (self.send if kind == "isend" else self.recv)([tensor], rank, _NO_TAG)
            for kind, tensor, rank in zip(kinds, tensors, ranks, strict=True)
        ]
        return self._together(works)

    # Collectives that belong together.

    def _start_coalescing(self, device: torch.device) -> None:
        self._coalesced = []

    def _end_coalescing(self, device: torch.device) -> HcclWork | None:
        works, self._coalesced = self._coalesced or [], None
        return self._together(works)

    def _together(self, works: Iterable[HcclWork | None]) -> HcclWork | None:
        started = [work for work in works if work is not None]
        if self._coalesced is not None:  # each is in the list already
            return None
        return HcclWork(agreement.Started(started), [tensor for work in started for tensor in work.result()])

    def _call(self, what: str, tensors: Tensors, opts: Any, sent: Tensors = (), received: Tensors = ()) -> calls.Call:
        is_awaited = self._coalesced is None and not getattr(opts, "asyncOp", True)
        return calls.describe(what, tensors, self.size(), is_awaited, sent, received)

    def _run(self, call: calls.Call, start: agreement.Start, results: Results, copies: Copies = ()) -> HcclWork | None:
        failed = self._failed(call.collective)
        try:
            agreed = self._agreement.call(call.header, start, call.is_awaited)
        except RuntimeError as error:
            raise dist.DistBackendError(failed(str(error))) from error
        kind = WaitedWork if call.collective in _WAITED else HcclWork
        return self._started(kind(agreed, results, copies, failed))

    def _started(self, work: HcclWork) -> HcclWork | None:
        """The work; None between the start and the end of coalescing, where one for all follows."""
        self._sequence_number += 1
        if self._coalesced is None:
            return work
        self._coalesced.append(work)
        return None

    def _failed(self, collective: str) -> Callable[[str], str]:
        return lambda words: self._peers.explain(collective, words)

    # Host memory, as gloo wants it.

    def _hosts(self, tensors: Any) -> list[torch.Tensor]:
        """The host tensors over the same bytes."""
        return [operands.host_memory(self._served(tensor)) for tensor in tensors]

    def _served(self, tensor: torch.Tensor) -> torch.Tensor:
        device = tensor.device.type
        if device != "npu" and not (device == "cpu" and self._serves_cpu()):
            raise RuntimeError(f"No backend type associated with device type {device}")
        return tensor

    def _bytes(self, tensors: Any) -> list[torch.Tensor]:
        return [operands.as_bytes(operands.flat(tensor)) for tensor in self._hosts(tensors)]

    def _terms(self, tensors: Tensors, opts: Any, collective: str) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """The 1-d memory of tensors that are reduced, and what gloo reduces in its stead.

        Raises:
            RuntimeError: HCCL cannot reduce this dtype, or not with this operation.
        """
        flat = [operands.flat(tensor) for tensor in self._hosts(tensors)]
        for tensor in tensors:
            if tensor.device.type == "npu":
                datatypes.check_reduced(tensor.dtype, opts.reduceOp, collective)
        return flat, operands.terms(flat, opts)


def register() -> None:
    """Make "hccl" a backend of torch.distributed, and the default one of the npu device."""
    dist.Backend.register_backend("hccl", _create, extended_api=True, devices=["npu"])
    dist.ProcessGroupHCCL = ProcessGroupHCCL
    dist.is_hccl_available = lambda: True
    pinned.register()
    pytorch.register()


def _create(dist_options: Any, pg_options: Any) -> ProcessGroupHCCL:
    options = pg_options if isinstance(pg_options, HcclOptions) else HcclOptions()
    options._timeout = dist_options.timeout
    options.global_ranks_in_group = dist_options.global_ranks_in_group
    options.group_id = dist_options.group_id
    return ProcessGroupHCCL(dist_options.store, dist_options.group_rank, dist_options.group_size, options)
