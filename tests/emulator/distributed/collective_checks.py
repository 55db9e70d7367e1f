"""Run by ranks.py on 2 and on 4 emulated NPUs: what torch.distributed does with npu tensors."""

import math

import product_checks
import progress_checks
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from checking import FLOATS, INTEGERS, npu, ranks, refuses, same, size
from torch.distributed.distributed_c10d import _coalescing_manager
from torch.distributed.nn import functional as differentiable

MOVED = (*FLOATS, *INTEGERS, torch.bool, torch.uint8, torch.int16, torch.float64)
NPU = torch.device("npu")


def all_reduce_and_reduce(rank):
    values = [[2 + other % 2, 2 - other % 2] for other in ranks()]
    for dtype in (*FLOATS, *INTEGERS, torch.int16):
        for operation, combine in (
            (dist.ReduceOp.SUM, sum),
            (dist.ReduceOp.PRODUCT, math.prod),
            (dist.ReduceOp.MAX, max),
            (dist.ReduceOp.MIN, min),
        ):
            if operation is dist.ReduceOp.PRODUCT and dtype in (torch.int16, torch.bfloat16):
                continue  # HCCL refuses them
            expected = [combine(column) for column in zip(*values, strict=True)]
            tensor = npu(values[rank], dtype)
            dist.all_reduce(tensor, operation)
            same(tensor, expected)
            tensor = npu(values[rank], dtype)
            dist.reduce(tensor, dst=1, op=operation)
            if rank == 1:
                same(tensor, expected)


def averages(rank):
    mean = sum(ranks()) / size()
    for dtype in FLOATS:
        tensor, output = npu([3.0 + rank], dtype), npu([0.0], dtype)
        dist.all_reduce(tensor, dist.ReduceOp.AVG)
        same(tensor, [3 + mean])
        dist.reduce_scatter_tensor(output, npu([1.0 * rank] * size(), dtype), dist.ReduceOp.AVG)
        same(output, [mean])
        dist.reduce_scatter(output, [npu([1.0 * rank], dtype)] * size(), dist.ReduceOp.AVG)
        same(output, [mean])


def truth_values_and_bytes(rank):
    tensor = npu([True, rank == 0, False], torch.bool)
    dist.all_reduce(tensor)
    same(tensor, [True, True, False])
    same(tensor.to(torch.int32), [1, 1, 0])
    tensor = npu([200, 1], torch.uint8)
    dist.all_reduce(tensor)
    same(tensor, [200 * size() % 256, size()])
    tensor = npu([30000, -5], torch.int16)
    dist.all_reduce(tensor)
    same(tensor.int(), torch.tensor([30000 * size(), -5 * size()]).short().int())


def complex_numbers(rank):
    tensor = npu([1 + 2j], torch.complex64)
    dist.all_reduce(tensor)
    same(tensor, [size() * (1 + 2j)])
    parts = [npu([0j], torch.complex64) for _ in ranks()]
    dist.all_gather(parts, npu([rank + 1j], torch.complex64))
    same(parts[1], [1 + 1j])


def shapes_and_memory_formats(rank):
    host = torch.arange(24.0).view(1, 3, 4, 2).permute(0, 3, 1, 2)  # dense, in the order of channels_last
    tensor = torch.arange(24.0).view(1, 3, 4, 2).to(f"npu:{rank}").permute(0, 3, 1, 2)
    dist.all_reduce(tensor)
    same(tensor, size() * host)
    scalar = npu(1.5 + rank)
    dist.all_reduce(scalar)
    same(scalar, 1.5 * size() + sum(ranks()))
    tensor = npu([1.0, 2.0, 3.0, 4.0])
    dist.all_reduce(tensor[1:3])
    same(tensor, [1, 2 * size(), 3 * size(), 4])


def tensors_that_are_not_contiguous(rank):
    transposed = npu([[1.0, 2.0], [3.0, 4.0]]).t()
    refuses(ValueError, "contiguous", lambda: dist.all_reduce(transposed))
    refuses(ValueError, "contiguous", lambda: dist.broadcast(transposed, 0))
    outputs = [torch.zeros(2, 2, device=f"npu:{rank}").t() for _ in ranks()]  # members of a list may be
    dist.all_gather(outputs, npu([[1.0, 2.0], [3.0, 4.0]]))
    same(outputs[-1], [[1.0, 2.0], [3.0, 4.0]])
    dist.all_to_all(outputs, [npu([[1.0 * rank, 2.0], [3.0, 4.0]]).t() for _ in ranks()])
    same(outputs[1], [[1.0, 3.0], [2.0, 4.0]])


def empty_tensors(rank):
    def empty(*shape):
        return torch.empty(*shape, device=f"npu:{rank}")

    for tensor in (empty(0), empty(0, 3)):
        dist.all_reduce(tensor)
        dist.broadcast(tensor, 0)
        dist.all_gather([torch.empty_like(tensor) for _ in ranks()], tensor)
        dist.all_gather_into_tensor(torch.empty_like(tensor), tensor)
        dist.reduce_scatter_tensor(torch.empty_like(tensor), tensor)
        dist.all_to_all_single(torch.empty_like(tensor), tensor)
        dist.all_to_all([torch.empty_like(tensor) for _ in ranks()], [tensor] * size())
    if rank == 0:
        dist.send(empty(0), 1)
    if rank == 1:
        dist.recv(empty(0), 0)
    output = empty(2 * size() if rank == 0 else 0)
    splits = [2] + [0] * (size() - 1)
    dist.all_to_all_single(output, npu([1.0, 2.0]), [2] * size() if rank == 0 else [0] * size(), splits)
    same(output, [1.0, 2.0] * size() if rank == 0 else [])


def broadcast(rank):
    for dtype in MOVED:
        tensor = npu([rank + 1, 0], dtype)
        dist.broadcast(tensor, src=1)
        same(tensor, torch.tensor([2, 0], dtype=dtype))
    parameter = torch.nn.Parameter(npu([1.0 * rank, 1.0]))
    dist.broadcast(parameter, src=1)
    same(parameter.detach(), [1.0, 1.0])


def all_gather(rank):
    for dtype in MOVED:
        parts = [npu([0, 0], dtype) for _ in ranks()]
        dist.all_gather(parts, npu([rank % 2, 1], dtype))
        same(torch.stack(parts), torch.tensor([[other % 2, 1] for other in ranks()], dtype=dtype))
    whole = torch.zeros(2 * size(), device=f"npu:{rank}")
    for shape in ((-1,), (size(), 2)):
        dist.all_gather_into_tensor(whole.view(shape), npu([10.0 * rank, 1.0]))
        same(whole.view(-1, 2)[:, 0], [10.0 * other for other in ranks()])
    parts = [torch.zeros(other + 1, device=f"npu:{rank}") for other in ranks()]
    dist.all_gather(parts, torch.full((rank + 1,), 1.0 * rank, device=f"npu:{rank}"))
    same(torch.cat(parts), [other for other in ranks() for _ in range(other + 1)])


def gather_and_scatter(rank):
    parts = [npu([0]) for _ in ranks()] if rank == 0 else None
    dist.gather(npu([rank + 5]), parts, dst=0)
    if rank == 0:
        same(torch.cat(parts), [other + 5 for other in ranks()])
    tensor = npu([0, 0], torch.bfloat16)
    parts = [npu([other, 3], torch.bfloat16) for other in ranks()] if rank == 1 else None
    dist.scatter(tensor, parts, src=1)
    same(tensor, [rank, 3])


def reduce_scatter(rank):
    total = sum(ranks())
    output = npu([0.0])
    dist.reduce_scatter(output, [npu([10.0 * other + rank]) for other in ranks()])
    same(output, [10 * rank * size() + total])
    output = npu([0.0, 0.0])
    work = dist.reduce_scatter_tensor(output, npu([[other, rank] for other in ranks()]).view(-1), async_op=True)
    same(work.get_future().wait()[0], [rank * size(), total])
    output = torch.zeros(rank + 1, device=f"npu:{rank}")
    dist.reduce_scatter(output, [torch.full((other + 1,), 1.0, device=f"npu:{rank}") for other in ranks()])
    same(output, [1.0 * size()] * (rank + 1))
    output = npu([0], torch.int16)
    dist.reduce_scatter_tensor(output, npu(list(ranks()), torch.int16))
    same(output, [rank * size()])


def all_to_all(rank):
    outputs = [npu([0]) for _ in ranks()]
    dist.all_to_all(outputs, [npu([10 * rank + other]) for other in ranks()])
    same(torch.cat(outputs), [10 * other + rank for other in ranks()])
    outputs = [torch.zeros(rank + 1, 2, device=f"npu:{rank}") for _ in ranks()]
    dist.all_to_all(outputs, [torch.full((other + 1, 2), 1.0 * rank, device=f"npu:{rank}") for other in ranks()])
    same(torch.cat(outputs)[:, 0], [other for other in ranks() for _ in range(rank + 1)])
    for dtype in (torch.float32, torch.int16):
        output = npu([0] * size(), dtype)
        dist.all_to_all_single(output, npu([10 * rank + other for other in ranks()], dtype))
        same(output, [10 * other + rank for other in ranks()])
    sent = npu([[rank, other] for other in ranks() for _ in range(other + 1)])
    output = torch.zeros(size() * (rank + 1), 2, device=f"npu:{rank}")
    dist.all_to_all_single(output, sent, [rank + 1] * size(), [other + 1 for other in ranks()])
    same(output, [[other, rank] for other in ranks() for _ in range(rank + 1)])


def messages(rank):
    if rank == 0:
        sent = [dist.isend(npu([1.5 * number]), dst=1, tag=number) for number in (1, 2)]
        answer = npu([0.0])
        dist.recv(answer, src=1)
        same(answer, [4.5])
        assert all(work.wait() for work in sent)
    if rank == 1:
        first, second = npu([0.0]), npu([0.0])
        work = dist.irecv(first, src=0, tag=2)  # HCCL does not look at tags
        while not work.is_completed():
            pass
        same(first, [1.5])
        dist.recv(second, src=0)
        dist.send(first + second, dst=0)
    refuses(RuntimeError, "does not support recv", lambda: dist.recv(npu([0.0])))


def barrier(rank):
    dist.barrier()
    dist.barrier(device_ids=[rank])
    refuses(ValueError, "GLOO", dist.monitored_barrier)  # "only implemented for", before PyTorch 2.14


def objects(rank):
    everything = [{"rank": other} for other in ranks()]
    collected = [None] * size()
    dist.all_gather_object(collected, {"rank": rank})
    assert collected == everything
    sent = ["from", rank] if rank == 0 else [None, None]
    dist.broadcast_object_list(sent, src=0)
    assert sent == ["from", 0]
    collected = [None] * size() if rank == 0 else None
    dist.gather_object({"rank": rank}, collected, dst=0)
    assert collected == (everything if rank == 0 else None)
    received = [None]
    dist.scatter_object_list(received, everything if rank == 0 else None, src=0)
    assert received == [{"rank": rank}]


def coalesced(rank):
    tensors = [npu([1.0 + rank]), npu([[5.0, rank]])]
    dist.all_reduce_coalesced(tensors)
    same(tensors[0], [size() + sum(ranks())])
    inputs = [npu([1.0 * rank]), npu([2.0 * rank, 1.0])]
    outputs = [[npu([0.0]), npu([0.0, 0.0])] for _ in ranks()]
    dist.all_gather_coalesced(outputs, inputs)
    same(outputs[1][1], [2.0, 1.0])
    wholes = [torch.empty(size(), device=f"npu:{rank}"), torch.empty(2 * size(), device=f"npu:{rank}")]
    parts = [npu([0.0]), npu([0.0, 0.0])]
    for device in (None, torch.device("npu", rank)):
        for asynchronous in (True, False):
            tensors = [npu([1.0]), npu([2.0])]
            for collective, arguments in (
                (dist.all_reduce, [(tensor,) for tensor in tensors]),
                (dist.all_gather_into_tensor, list(zip(wholes, inputs, strict=True))),
                (dist.reduce_scatter_tensor, list(zip(parts, wholes, strict=True))),
            ):
                with _coalescing_manager(device=device, async_ops=asynchronous) as coalescing:
                    for operands in arguments:
                        collective(*operands)
                if asynchronous:
                    coalescing.wait()
            same(torch.cat(tensors), [size(), 2.0 * size()])
            same(wholes[0], list(ranks()))
            same(parts[0], [rank * size()])
    received = npu([0.0])
    with _coalescing_manager(device=torch.device("npu", rank), async_ops=True) as coalescing:
        dist.irecv(received, (rank - 1) % size())
        dist.isend(npu([1.0 * rank]), (rank + 1) % size())
    coalescing.wait()
    same(received, [(rank - 1) % size()])


def a_rank_alone_leaves_the_shared_store_as_it_is(_rank):
    # Ranks that make groups of themselves at the same time do so under one name, and deleted each other's keys.
    store = dist.HashStore()
    dist.ProcessGroupHCCL(store, 0, 1)
    assert store.num_keys() == 0


def sub_groups(rank):
    alone = [dist.new_group([other]) for other in ranks()]
    tensor = npu([1.0 + rank])
    dist.all_reduce(tensor, group=alone[rank])
    same(tensor, [1.0 + rank])
    backwards = dist.new_group(list(ranks())[::-1])
    dist.all_reduce(tensor, group=backwards)
    same(tensor, [size() + sum(ranks())])
    dist.destroy_process_group(backwards)
    mates = sorted({rank, size() - 1 - rank})
    # By all ranks: PyTorch 2.14 numbers groups by such calls too.
    group = dist.new_group(mates, use_local_synchronization=True)
    dist.broadcast(tensor, src=mates[-1], group=group)
    subgroup, _ = dist.new_subgroups(size() // 2)
    dist.all_reduce(tensor := npu([1.0]), group=subgroup)
    same(tensor, [size() // 2])
    refuses(RuntimeError, "split", lambda: dist.split_group(split_ranks=[[0], [1]]))  # as torch_npu


def functional_collectives(rank):
    world, total, one = dist.group.WORLD, sum(ranks()), npu([1.0])
    ones = torch.ones(size(), device=f"npu:{rank}")
    same(functional.all_reduce(npu([1.0 * rank]), "sum", world) + 0, [total])
    same(functional.all_reduce(npu([1.0 * rank]), "avg", world) + 0, [total / size()])
    same(functional.all_gather_single(npu([[1.0 * rank]]), 1, world) + 0, [list(ranks())])
    same(functional.reduce_scatter_single(ones, "sum", 0, world) + 0, [size()])
    same(functional.all_to_all_single(npu(list(ranks())), None, None, world) + 0, [rank] * size())
    same(functional.all_to_all_single(npu(list(ranks())), [1] * size(), [1] * size(), world) + 0, [rank] * size())
    same(functional.broadcast(npu([1.0 * rank]), 1, world) + 0, [1.0])
    same(functional.all_reduce_coalesced([one, one * 2], "sum", world)[1] + 0, [2 * size()])
    same(functional.all_gather_single_coalesced([one, one * 2], world)[1] + 0, [2] * size())
    same(functional.reduce_scatter_single_coalesced([ones, ones], "sum", [0, 0], world)[1] + 0, [size()])
    value = npu([1.0 * rank]).requires_grad_()
    functional.all_gather_single_autograd(value, 0, world).sum().backward()
    same(value.grad, [size()])


def differentiable_collectives(rank):
    value = npu([1.0 + rank]).requires_grad_()
    whole = torch.empty(size(), device=f"npu:{rank}")
    for call, gradient in (
        (lambda: differentiable.all_reduce(value), size()),
        (lambda: torch.cat(differentiable.all_gather(value)), size()),
        (lambda: differentiable.broadcast(value, 0), size() if rank == 0 else 0),
        (lambda: differentiable.reduce_scatter(torch.empty(1, device=f"npu:{rank}"), [value] * size()), size()),
        (lambda: differentiable.all_to_all_single(whole.clone(), value.repeat(size())), size()),
        (lambda: differentiable._all_gather_base(whole.clone(), value), size()),
    ):
        value.grad = None
        call().sum().backward()
        same(value.grad, [gradient])


def what_hccl_refuses(rank):
    def reduce(tensor, operation=dist.ReduceOp.SUM):
        return lambda: dist.all_reduce(tensor, operation)

    bytes_ = npu([1] * size(), torch.uint8)
    refuses(RuntimeError, "device type cpu", reduce(torch.ones(2)))
    refuses(RuntimeError, "HCCL allreduce: Unsupported data type at::kDouble", reduce(npu([1.0], torch.float64)))
    refuses(RuntimeError, "Cannot use ReduceOp.BAND with HCCL", reduce(npu([1]), dist.ReduceOp.BAND))
    refuses(RuntimeError, "PREMUL_SUM", reduce(npu([1.0]), dist._make_nccl_premul_sum(2.0)))
    refuses(RuntimeError, "can't be cast", reduce(npu([1], torch.int32), dist.ReduceOp.AVG))
    refuses(RuntimeError, "does not reduce torch.int16", reduce(npu([1], torch.int16), dist.ReduceOp.PRODUCT))
    refuses(RuntimeError, "Unsupported data type", lambda: dist.reduce_scatter_tensor(bytes_[:1].clone(), bytes_))
    refuses(RuntimeError, "Unsupported data type", lambda: dist.broadcast(npu([1], torch.uint16), 0))
    refuses(ValueError, "itself", lambda: dist.isend(npu([1.0]), rank))


def groups_describe_themselves(rank):
    assert dist.get_backend() == "hccl"
    assert dist.is_hccl_available()
    world = dist.group.WORLD
    before = world._get_sequence_number_for_group()
    dist.all_reduce(npu([1.0]))
    assert world._get_sequence_number_for_group() == before + 1
    names = [None] * size()
    dist.all_gather_object(names, world._get_backend(NPU).get_hccl_comm_name(rank))
    assert len(set(names)) == 1
    assert names[0]
    refuses(NotImplementedError, "no HCCL communicator", lambda: world._get_backend(NPU).get_hccl_comm(rank))
    refuses(RuntimeError, "device type cuda", lambda: world._get_backend(torch.device("cuda")))


def options(rank):
    import torch_npu

    options = torch_npu._C._distributed_c10d.ProcessGroupHCCL.Options()
    options.hccl_config = {"hccl_buffer_size": 200, "group_name": "mine"}
    group = dist.new_group(list(ranks()), pg_options=options)
    assert group._get_backend(NPU).get_hccl_comm_name(rank) == "mine"
    assert group.options.global_ranks_in_group == list(ranks())
    dist.all_reduce(npu([1.0]), group=group)


def torch_npus_own_collectives(rank):
    import torch_npu.distributed as own

    sizes = [other + 1 for other in ranks()]
    output = torch.empty(rank + 1, device=f"npu:{rank}")
    own.reduce_scatter_tensor_uneven(output, npu([1.0] * sum(sizes)), sizes)
    same(output, [size()] * (rank + 1))
    output = torch.empty(sum(sizes), device=f"npu:{rank}")
    own.all_gather_into_tensor_uneven(output, npu([1.0 * rank] * (rank + 1)), sizes, async_op=True).wait()
    same(output, [other for other in ranks() for _ in range(other + 1)])
    own.all_gather_into_tensor_uneven(output[: size()], npu([1.0 * rank]))
    same(output[: size()], list(ranks()))
    matrix = [[sender + receiver for receiver in ranks()] for sender in ranks()]
    output = torch.empty(sum(row[rank] for row in matrix), device=f"npu:{rank}")
    own.all_to_all_vc(output, npu([1.0 * rank] * sum(matrix[rank])), matrix)
    same(output, [sender for sender in ranks() for _ in range(sender + rank)])
    refuses(ValueError, "square", lambda: own.all_to_all_vc(output, output, [[1]]))
    refuses(RuntimeError, "not equal to group size", lambda: own.all_gather_into_tensor_uneven(output, output, [1]))
    assert own.reinit_process_group() is dist.group.WORLD
    assert own.is_available()
    assert own.is_hccl_available()
    refuses(NotImplementedError, "not emulated", own.ParallelStore)


def mixed_group_takes_both_devices(rank):
    for tensor in (torch.ones(2), npu([1.0, 1.0]), torch.ones(2, dtype=torch.float64)):
        dist.all_reduce(tensor)
        assert tensor.cpu().tolist() == [size(), size()]
    assert dist.group.WORLD._get_backend(torch.device("cpu")) is not None


def gloo_alone_refuses_npu_tensors(rank):
    dist.barrier()  # the other rank may still be connecting, and would take the end of this one for a failure
    refuses(RuntimeError, "device type npu", lambda: dist.all_reduce(npu([1.0])))


def default_backend_of_the_npu_is_hccl(rank):
    assert dist.get_backend() == "hccl"
    averages(rank)
    barrier(rank)


BOUND = {None}
CHECKS = {
    "hccl": [
        all_reduce_and_reduce,
        averages,
        truth_values_and_bytes,
        complex_numbers,
        shapes_and_memory_formats,
        tensors_that_are_not_contiguous,
        empty_tensors,
        broadcast,
        all_gather,
        gather_and_scatter,
        reduce_scatter,
        all_to_all,
        messages,
        barrier,
        objects,
        coalesced,
        sub_groups,
        a_rank_alone_leaves_the_shared_store_as_it_is,
        functional_collectives,
        differentiable_collectives,
        what_hccl_refuses,
        groups_describe_themselves,
        options,
        torch_npus_own_collectives,
        *product_checks.CHECKS,
        *progress_checks.CHECKS,
    ],
    "cpu:gloo,npu:hccl": [mixed_group_takes_both_devices, objects],
    "npu:hccl,cpu:gloo": [mixed_group_takes_both_devices],
    "gloo": [gloo_alone_refuses_npu_tensors],
    None: [default_backend_of_the_npu_is_hccl],
}
