"""The base of every hccl group, beneath its collectives: its names, its end, and how it starts a collective."""
# The stubs describe C++ overloads for callers, not the one signature that a Python subclass is called with.
# mypy: disable-error-code="override, call-arg"

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore, Store

from gpu2npu.emulator.distributed import agreement, calls, datatypes, operands
from gpu2npu.emulator.distributed.messages import Messages
from gpu2npu.emulator.distributed.options import HcclOptions
from gpu2npu.emulator.distributed.peers import Peers
from gpu2npu.emulator.distributed.progress import Collective, PendingOperation
from gpu2npu.emulator.distributed.transport import Transport
from gpu2npu.emulator.distributed.work import Copies, HcclWork, Results, together
from gpu2npu.emulator.shapes import collectives

Tensors = Sequence[torch.Tensor]


def _nothing() -> Sequence[dist.Work]:
    return ()


class Group(dist.ProcessGroup):
    """A group of ranks that each own an NPU, without its collectives."""

    Options = HcclOptions
    supports_splitting = False  # so that split_group() refuses, as with torch_npu
    supports_coalescing = True

    def __init__(self, store: Store, rank: int, size: int, options: HcclOptions | timedelta | None = None) -> None:
        super().__init__(rank, size)
        if not isinstance(options, HcclOptions):
            timeout, options = options, HcclOptions()
            options._timeout = timeout or options._timeout
        options.check()
        self.options = options
        if size == 1:  # other ranks may make groups of themselves at the same time, under the same name
            store = HashStore()
        self._peers = Peers(store, rank, size, options.global_ranks_in_group)
        self._transport = Transport(store, self._peers, options._timeout)
        self._messages = Messages(self._transport, rank, self._peers.global_ranks)
        self._coalesced: list[HcclWork] | None = None
        self._to_itself: dict[str, list[torch.Tensor]] = {"send": [], "recv": []}
        self._sequence_number = 0
        self._group_name = self._group_desc = ""
        # Says which device this group serves, to object collectives, barrier() and DistributedDataParallel.
        self._register_backend(torch.device("npu"), dist.ProcessGroup.BackendType.CUSTOM, None)

    @property
    def _gloo(self) -> Any:
        return self._transport.gloo

    # Properties of a group.

    def getBackendName(self) -> str:  # noqa: N802 - c10d's name
        return "hccl"

    def name(self) -> str:
        return "hccl"

    # C++ keeps a group's name in its backends, and gloo's group must be nobody's but the transport's.

    @property
    def group_name(self) -> str:
        return self._group_name

    def getGroupName(self) -> str:  # noqa: N802 - as C++ asks
        return self._group_name

    def _set_group_name(self, name: str) -> None:
        self._group_name = name

    @property
    def group_desc(self) -> str:
        return self._group_desc

    def getGroupDesc(self) -> str:  # noqa: N802
        return self._group_desc

    def _set_group_desc(self, description: str) -> None:
        self._group_desc = description

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
        self._transport.set_timeout(timeout)

    _set_default_timeout = set_timeout

    def get_hccl_comm_name(self, rank: int, init_comm: bool = True) -> str:
        """The communicator's name, the same on all ranks of the group: what `hccl_config` says, or one of our own."""
        return str(self.options.hccl_config.get("group_name") or f"hccl_{self.options.group_id}")

    def get_hccl_comm(self, rank: int) -> int:
        """Raises NotImplementedError: a real one is the address of a structure in HCCL's memory."""
        raise NotImplementedError("get_hccl_comm: the emulated NPU has no HCCL communicator in memory")

    # Its end.

    def shutdown(self) -> None:
        self._transport.end()

    def abort(self, reason: str | None = None) -> None:
        self._transport.abort("this rank has aborted the process group")

    # Collectives that belong together.

    def _start_coalescing(self, device: torch.device) -> None:
        self._coalesced = []

    def _end_coalescing(self, device: torch.device) -> HcclWork | None:
        works, self._coalesced = self._coalesced or [], None
        given, self._to_itself = self._to_itself, {"send": [], "recv": []}
        operands.copy_in_order(given["send"], given["recv"])
        return self._together(works)

    def _drop_coalesced(self) -> None:
        """End a batch that has failed, so that what comes next is not taken for a part of it."""
        self._coalesced, self._to_itself = None, {"send": [], "recv": []}

    def _with_itself(self, kind: str, tensors: Tensors) -> None:
        """Note a message of a rank to itself, which is copied when coalescing ends.

        Raises:
            ValueError: The message is not one of a batch: it would wait for itself.
        """
        if self._coalesced is None:
            raise ValueError(f"HCCL {kind}: a rank cannot send to itself but in one batch_isend_irecv")
        self._to_itself[kind] += self._hosts(tensors)

    def _together(self, works: Iterable[HcclWork | None]) -> HcclWork | None:
        started = [work for work in works if work is not None]
        if self._coalesced is not None:  # each is in the list already
            return None
        return together(started, self._transport)

    def _call(self, what: str, tensors: Tensors, opts: Any, sent: Tensors = (), received: Tensors = ()) -> calls.Call:
        is_awaited = self._coalesced is None and not getattr(opts, "asyncOp", True)
        collectives.note(what, tensors, self.size())
        return calls.describe(what, tensors, self.size(), is_awaited, sent, received)

    def _run(self, call: calls.Call, start: agreement.Start, results: Results, copies: Copies = ()) -> HcclWork | None:
        if not call.moves:
            start, copies = _nothing, ()
        try:
            agreed, number = self._transport.call(call.header, start)
        except RuntimeError as error:
            explained = self._transport.explain(PendingOperation(call.collective), str(error))
            raise dist.DistBackendError(explained) from error
        work = HcclWork(Collective(call.collective, number), agreed, self._transport, results, copies)
        if call.moves:
            collectives.moved(results)
        if not call.is_awaited:
            self._transport.in_flight.follow(work)
        return self._started(work)

    def _started(self, work: HcclWork) -> HcclWork | None:
        """The work; None between the start and the end of coalescing, where one for all follows."""
        self._sequence_number += 1
        if self._coalesced is None:
            return work
        self._coalesced.append(work)
        return None

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
