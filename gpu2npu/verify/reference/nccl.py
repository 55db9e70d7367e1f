"""nccl, played: the collectives of tensors on `cuda`, carried by gloo over the host memory beneath them.

Groups, works and reducers are PyTorch's own in C++. What is here are the operators of `torch.distributed` for tensors
on `cuda`, and the class that makes nccl's part of a group, which is gloo's. Collectives are over when they return, as
all work on a played GPU is, so that none is in flight when a process ends; sends and receives are not, since two ranks
may both send first.
"""

from __future__ import annotations

import atexit
import warnings
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from gpu2npu.verify.reference.tensors import host

Tensor = torch.Tensor
Tensors = Sequence[Tensor]

_DEFAULT_TIMEOUT = timedelta(minutes=10)  # nccl's
_library = torch.library.Library("c10d", "IMPL")
_c10d: Any = distributed_c10d
_backends: Any = torch._C._distributed_c10d
_VERSION = (2, 21, 5)


class _Options:
    """`ProcessGroupNCCL.Options`: all are kept, and the timeout is used."""

    def __init__(self, is_high_priority_stream: bool = False) -> None:
        self.is_high_priority_stream = is_high_priority_stream
        self._timeout = _DEFAULT_TIMEOUT
        self.global_ranks_in_group: list[int] = []
        self.group_name = ""


class _GlooType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _c10d.ProcessGroupGloo)


class ProcessGroupNCCL(metaclass=_GlooType):
    """The name under which PyTorch makes nccl's part of a group: what it makes is gloo's."""

    Options = _Options

    def __new__(cls, store: Any, rank: int, size: int, options: _Options | None = None) -> Any:
        options = options or _Options()
        made = _c10d.ProcessGroupGloo(store, rank, size, timeout=options._timeout)
        made.options.global_ranks_in_group = options.global_ranks_in_group
        made.options.group_name = options.group_name
        return made


def install() -> None:
    """Let torch.distributed have nccl, once a process."""
    modules: list[Any] = [dist, distributed_c10d]
    for module in modules:
        module.is_nccl_available = lambda: True
        module.ProcessGroupNCCL = ProcessGroupNCCL
    _c10d.default_pg_nccl_timeout = _DEFAULT_TIMEOUT
    torch.cuda.nccl.version = lambda: _VERSION
    _backends.Logger.set_runtime_stats_and_log = lambda self: None  # its timers are part of a CUDA build
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that kernels are replaced
        for name, function in _COLLECTIVES.items():
            _library.impl(name, function, "CUDA")
    atexit.register(_end)


def _end() -> None:
    """End the groups while the interpreter is there: gloo's threads would outlive it."""
    if dist.is_initialized():
        dist.destroy_process_group()


def _gloo(group: Any) -> Any:
    unboxed = dist.ProcessGroup.unbox(group)
    return unboxed._get_backend(torch.device("cuda"))


def _done(result: Any) -> Any:
    """The work of a collective that is over: `result` are its tensors on `cuda`."""
    future: Any = torch.futures.Future()
    future.set_result(result)
    return _backends._create_work_from_future(future).boxed()


def _options(kind: Any, timeout: int, **values: Any) -> Any:
    options = kind()
    if timeout > 0:
        options.timeout = timedelta(milliseconds=timeout)
    for name, value in values.items():
        setattr(options, name, value)
    return options


def _hosts(tensors: Tensors) -> list[Tensor]:
    """The host tensors over the same bytes; detached, as collectives are not part of a backward pass."""
    return [host(tensor.detach()) for tensor in tensors]


def _reduced(tensors: Tensors, operation: Any, run: Callable[[list[Tensor], Any], Any], size: int) -> None:
    """Run a reduction in place, as gloo can: an average is a sum that is divided."""
    hosts = _hosts(tensors)
    kind = _c10d.ReduceOp(_c10d.ReduceOp.RedOpType(operation.op()))
    average = kind == _c10d.ReduceOp.AVG
    run(hosts, _c10d.ReduceOp(_c10d.ReduceOp.SUM) if average else kind)
    if average:
        for tensor in hosts:
            tensor.div_(size) if tensor.is_floating_point() else tensor.floor_divide_(size)


def _allreduce(
    tensors: Tensors, group: Any, operation: Any, sparse: Any, is_async: bool = True, timeout: int = -1
) -> Any:
    gloo = _gloo(group)

    def run(hosts: list[Tensor], kind: Any) -> None:
        gloo.allreduce(hosts, _options(dist.AllreduceOptions, timeout, reduceOp=kind)).wait()

    _reduced(tensors, operation, run, gloo.size())
    return list(tensors), _done(list(tensors))


def _allreduce_coalesced(tensors: Tensors, group: Any, operation: Any, is_async: bool = True, timeout: int = -1) -> Any:
    for tensor in tensors:
        _allreduce([tensor], group, operation, None, is_async, timeout)
    return _done(list(tensors))


def _reduce(
    tensors: Tensors, group: Any, operation: Any, root: int, root_tensor: int, is_async: bool = True, timeout: int = -1
) -> Any:
    gloo = _gloo(group)
    copies = [tensor.detach().clone() for tensor in tensors]  # gloo changes them on every rank

    def run(hosts: list[Tensor], kind: Any) -> None:
        gloo.reduce(hosts, _options(dist.ReduceOptions, timeout, reduceOp=kind, rootRank=root)).wait()

    _reduced(copies, operation, run, gloo.size())
    if gloo.rank() == root:
        for tensor, copy in zip(tensors, copies, strict=True):
            host(tensor.detach()).copy_(host(copy))
    return _done(list(tensors))


def _broadcast(
    tensors: Tensors, group: Any, root: int, root_tensor: int, is_async: bool = True, timeout: int = -1
) -> Any:
    _gloo(group).broadcast(_hosts(tensors), _options(dist.BroadcastOptions, timeout, rootRank=root)).wait()
    return list(tensors), _done(list(tensors))


def _allgather(
    outputs: Sequence[Tensors], inputs: Tensors, group: Any, is_async: bool = True, timeout: int = -1
) -> Any:
    gloo = _gloo(group)
    for row, value in zip(outputs, inputs, strict=True):
        gloo.allgather([_hosts(row)], _hosts([value.contiguous()])).wait()
    return [list(row) for row in outputs], _done([list(row) for row in outputs])


def _allgather_coalesced(outputs: Sequence[Tensors], inputs: Tensors, group: Any, is_async: bool = True) -> Any:
    for number, value in enumerate(inputs):
        _allgather([[row[number] for row in outputs]], [value], group)
    return _done([list(row) for row in outputs])


def _allgather_base(output: Tensor, value: Tensor, group: Any, is_async: bool = True, timeout: int = -1) -> Any:
    gloo = _gloo(group)
    (whole,) = _hosts([output])
    gloo.allgather([list(whole.view(-1).chunk(gloo.size()))], [host(value.detach()).reshape(-1)]).wait()
    return output, _done([output])


def _allgather_into_coalesced(outputs: Tensors, inputs: Tensors, group: Any, is_async: bool = True) -> Any:
    for output, value in zip(outputs, inputs, strict=True):
        _allgather_base(output, value, group)
    return _done(list(outputs))


def _reduce_scatter_base(
    output: Tensor, value: Tensor, group: Any, operation: Any, is_async: bool = True, timeout: int = -1
) -> Any:
    gloo = _gloo(group)
    whole = value.detach().clone()
    _allreduce([whole], group, operation, None, is_async, timeout)
    share = host(whole).reshape(-1).chunk(gloo.size())[gloo.rank()]
    host(output.detach()).copy_(share.view(output.shape))
    return output, _done([output])


def _reduce_scatter_coalesced(
    outputs: Tensors, inputs: Tensors, group: Any, operation: Any, is_async: bool = True, timeout: int = -1
) -> Any:
    for output, value in zip(outputs, inputs, strict=True):
        _reduce_scatter_base(output, value, group, operation, is_async, timeout)
    return _done(list(outputs))


def _reduce_scatter(
    outputs: Tensors, inputs: Sequence[Tensors], group: Any, operation: Any, is_async: bool = True, timeout: int = -1
) -> Any:
    gloo = _gloo(group)
    for output, row in zip(outputs, inputs, strict=True):
        for rank, value in enumerate(row):
            whole = value.detach().clone()
            _allreduce([whole], group, operation, None, is_async, timeout)
            if rank == gloo.rank():
                host(output.detach()).copy_(host(whole))
    return list(outputs), _done(list(outputs))


def _scatter(
    outputs: Tensors, inputs: Sequence[Tensors], group: Any, root: int, is_async: bool = True, timeout: int = -1
) -> Any:
    options = _options(dist.ScatterOptions, timeout, rootRank=root)
    _gloo(group).scatter(
        _hosts(outputs), [_hosts([each.contiguous() for each in row]) for row in inputs], options
    ).wait()
    return list(outputs), _done(list(outputs))


def _gather(
    outputs: Sequence[Tensors], inputs: Tensors, group: Any, root: int, is_async: bool = True, timeout: int = -1
) -> Any:
    options = _options(dist.GatherOptions, timeout, rootRank=root)
    _gloo(group).gather(
        [_hosts(row) for row in outputs], _hosts([each.contiguous() for each in inputs]), options
    ).wait()
    return _done([list(row) for row in outputs])


def _alltoall_base(
    output: Tensor,
    value: Tensor,
    group: Any,
    output_sizes: list[int],
    input_sizes: list[int],
    is_async: bool = True,
    timeout: int = -1,
) -> Any:
    options = _options(dist.AllToAllOptions, timeout)
    (received,), (sent,) = _hosts([output]), _hosts([value.contiguous()])
    _gloo(group).alltoall_base(received, sent, list(output_sizes), list(input_sizes), options).wait()
    return _done([output])


def _alltoall(outputs: Tensors, inputs: Tensors, group: Any, is_async: bool = True, timeout: int = -1) -> Any:
    hosts = _hosts(outputs)
    sizes, counts = [each.numel() for each in hosts], [each.numel() for each in inputs]
    received = torch.empty(sum(sizes), dtype=hosts[0].dtype, device="cpu")
    sent = torch.cat([each.reshape(-1) for each in _hosts(inputs)])
    _gloo(group).alltoall_base(received, sent, sizes, counts, _options(dist.AllToAllOptions, timeout)).wait()
    for target, part in zip(hosts, received.split(sizes), strict=True):
        target.copy_(part.view(target.shape))
    return list(outputs), _done(list(outputs))


def _barrier(tensor: Tensor, group: Any, devices: list[int], is_async: bool = True, timeout: int = -1) -> Any:
    _gloo(group).barrier(_options(dist.BarrierOptions, timeout)).wait()
    return _done([tensor])


def _send(tensors: Tensors, group: Any, destination: int, tag: int) -> Any:
    return _gloo(group).send(_hosts([each.contiguous() for each in tensors]), destination, tag).boxed()


def _receive(tensors: Tensors, group: Any, source: int, tag: int) -> Any:
    return _gloo(group).recv(_hosts(tensors), source, tag).boxed()


_COLLECTIVES: dict[str, Callable[..., Any]] = {
    "allreduce_": _allreduce,
    "allreduce_coalesced_": _allreduce_coalesced,
    "reduce_": _reduce,
    "broadcast_": _broadcast,
    "allgather_": _allgather,
    "allgather_coalesced_": _allgather_coalesced,
    "_allgather_base_": _allgather_base,
    "allgather_into_tensor_coalesced_": _allgather_into_coalesced,
    "reduce_scatter_": _reduce_scatter,
    "_reduce_scatter_base_": _reduce_scatter_base,
    "reduce_scatter_tensor_coalesced_": _reduce_scatter_coalesced,
    "scatter_": _scatter,
    "gather_": _gather,
    "alltoall_base_": _alltoall_base,
    "alltoall_": _alltoall,
    "barrier": _barrier,
    "send": _send,
    "recv_": _receive,
}
