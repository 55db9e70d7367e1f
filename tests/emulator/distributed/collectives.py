"""Run by test_hccl.py on two emulated NPUs: every check is called by both ranks; prints the failures as JSON."""

import json
import sys
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
INTEGERS = (torch.int8, torch.int32, torch.int64)
MOVED = (*FLOATS, *INTEGERS, torch.bool, torch.uint8, torch.int16, torch.float64, torch.complex64)


def npu(values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype).to(f"npu:{dist.get_rank()}")


def same(actual, expected):
    assert actual.device == torch.device("npu", dist.get_rank()), actual.device
    wanted = torch.as_tensor(expected, dtype=actual.dtype)
    assert torch.equal(actual.cpu(), wanted), f"{actual.cpu()} is not {wanted}"


def refuses(error, words, call):
    try:
        call()
    except error as refusal:
        assert words in str(refusal), refusal
    else:
        raise AssertionError(f"no {error.__name__}")


def all_reduce(rank):
    for dtype in (*FLOATS, *INTEGERS):
        for operation, expected in (
            (dist.ReduceOp.SUM, [7, 3]),
            (dist.ReduceOp.PRODUCT, [12, 2]),
            (dist.ReduceOp.MAX, [4, 2]),
            (dist.ReduceOp.MIN, [3, 1]),
        ):
            tensor = npu([3 + rank, 2 - rank], dtype)
            dist.all_reduce(tensor, operation)
            same(tensor, expected)


def all_reduce_average(rank):
    for dtype in FLOATS:
        tensor = npu([3 + rank, 2 - rank], dtype)
        dist.all_reduce(tensor, dist.ReduceOp.AVG)
        same(tensor, [3.5, 1.5])


def all_reduce_truth_values_is_any(rank):
    tensor = npu([True, rank == 0, False], torch.bool)
    dist.all_reduce(tensor)
    same(tensor, [True, True, False])
    same(tensor.to(torch.int32), [1, 1, 0])


def all_reduce_keeps_the_shape_and_memory_format(rank):
    tensor = torch.arange(24.0).view(1, 2, 3, 4).to(f"npu:{rank}").contiguous(memory_format=torch.channels_last)
    dist.all_reduce(tensor)
    same(tensor, 2 * torch.arange(24.0).view(1, 2, 3, 4))
    scalar = npu(1.5 + rank)
    dist.all_reduce(scalar)
    same(scalar, 4.0)


def all_reduce_of_a_slice_leaves_the_rest_alone(rank):
    tensor = npu([1.0, 2.0, 3.0, 4.0])
    dist.all_reduce(tensor[1:3])
    same(tensor, [1.0, 4.0, 6.0, 4.0])


def all_reduce_async_gives_npu_tensors(rank):
    tensor = npu([1.0 + rank])
    work = dist.all_reduce(tensor, async_op=True)
    (result,) = work.get_future().wait()
    same(result, [3.0])
    assert work.wait(timedelta(seconds=20))
    assert work.is_completed()
    assert result.data_ptr() == tensor.data_ptr()


def all_reduce_coalesced(rank):
    tensors = [npu([1.0 + rank]), npu([[5.0, rank]])]
    dist.all_reduce_coalesced(tensors)
    same(tensors[0], [3.0])
    same(tensors[1], [[10.0, 1.0]])


def broadcast(rank):
    for dtype in MOVED:
        tensor = npu([rank + 1, 0], dtype)
        dist.broadcast(tensor, src=1)
        same(tensor, torch.tensor([2, 0], dtype=dtype))


def broadcast_of_a_parameter(rank):
    parameter = torch.nn.Parameter(npu([1.0 * rank, 1.0]))
    dist.broadcast(parameter, src=1)
    same(parameter.detach(), [1.0, 1.0])


def reduce(rank):
    tensor = npu([1 + rank])
    dist.reduce(tensor, dst=1)
    if rank == 1:
        same(tensor, [3])


def all_gather(rank):
    for dtype in MOVED:
        parts = [npu([0, 0], dtype) for _ in range(2)]
        dist.all_gather(parts, npu([rank, 1], dtype))
        same(torch.stack(parts), torch.tensor([[0, 1], [1, 1]], dtype=dtype))


def all_gather_into_tensor(rank):
    for shape in ((4,), (2, 2)):
        whole = torch.zeros(shape).to(f"npu:{rank}")
        dist.all_gather_into_tensor(whole, npu([10.0 * rank, 1.0]))
        same(whole.view(-1), [0.0, 1.0, 10.0, 1.0])


def gather(rank):
    parts = [npu([0]) for _ in range(2)] if rank == 0 else None
    dist.gather(npu([rank + 5]), parts, dst=0)
    if rank == 0:
        same(torch.cat(parts), [5, 6])


def scatter(rank):
    tensor = npu([0, 0], torch.bfloat16)
    parts = [npu([1, 2], torch.bfloat16), npu([3, 4], torch.bfloat16)] if rank == 0 else None
    dist.scatter(tensor, parts, src=0)
    same(tensor, [[1, 2], [3, 4]][rank])


def reduce_scatter(rank):
    output = npu([0.0])
    dist.reduce_scatter(output, [npu([1.0 + rank]), npu([10.0 + rank])])
    same(output, [[3.0], [21.0]][rank])


def reduce_scatter_tensor(rank):
    output = npu([0.0, 0.0])
    work = dist.reduce_scatter_tensor(output, npu([1.0, 2.0, 3.0, 4.0 + rank]), async_op=True)
    same(work.get_future().wait()[0], [[2.0, 4.0], [6.0, 9.0]][rank])


def all_to_all(rank):
    outputs = [npu([0]), npu([0])]
    dist.all_to_all(outputs, [npu([10 * rank]), npu([10 * rank + 1])])
    same(torch.cat(outputs), [rank, 10 + rank])


def all_to_all_single(rank):
    for dtype in (torch.float32, torch.int16):
        output = npu([0, 0], dtype)
        dist.all_to_all_single(output, npu([10 * rank, 10 * rank + 1], dtype))
        same(output, [rank, 10 + rank])
    splits = ([1, 2], [2, 1])[rank]
    output = npu([[0, 0]] * 3)
    dist.all_to_all_single(output, npu([[rank, i] for i in range(3)]), splits, splits)
    same(output, [[[0, 0], [1, 0], [1, 1]], [[0, 1], [0, 2], [1, 2]]][rank])


def send_and_receive_by_tag(rank):
    if rank == 0:
        for tag in (1, 2):
            dist.isend(npu([tag * 1.5]), dst=1, tag=tag)
        same_size = npu([0.0])
        dist.recv(same_size, src=1)
        same(same_size, [4.5])
        return
    first, second = npu([0.0]), npu([0.0])
    dist.recv(second, src=0, tag=2)
    assert dist.recv(first, tag=1) == 0  # from any source
    same(first + second, [4.5])
    dist.send(first + second, dst=0)


def send_both_ways_at_once(rank):
    received = npu([0.0])
    works = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, npu([1.0 + rank]), 1 - rank), dist.P2POp(dist.irecv, received, 1 - rank)]
    )
    for work in works:
        work.wait()
    same(received, [2.0 - rank])


def barrier(rank):
    dist.barrier()
    dist.barrier(device_ids=[rank])


def objects(rank):
    gathered = [None, None]
    dist.all_gather_object(gathered, {"rank": rank})
    assert gathered == [{"rank": 0}, {"rank": 1}]
    sent = ["from", rank] if rank == 0 else [None, None]
    dist.broadcast_object_list(sent, src=0)
    assert sent == ["from", 0]


def sub_groups(rank):
    alone = [dist.new_group([r]) for r in range(2)]
    tensor = npu([1.0 + rank])
    dist.all_reduce(tensor, group=alone[rank])
    same(tensor, [1.0 + rank])
    reversed_pair = dist.new_group([1, 0])
    dist.all_reduce(tensor, group=reversed_pair)
    same(tensor, [3.0])
    dist.destroy_process_group(reversed_pair)


def functional_collectives(rank):
    import torch.distributed._functional_collectives as functional

    same(functional.all_reduce(npu([1.0 + rank]), "sum", dist.group.WORLD) + 0, [3.0])
    same(functional.all_gather_tensor(npu([1.0 * rank]), 0, dist.group.WORLD) + 0, [0.0, 1.0])


def what_hccl_refuses(rank):
    refuses(RuntimeError, "device type cpu", lambda: dist.all_reduce(torch.ones(2)))
    refuses(RuntimeError, "torch.float64", lambda: dist.all_reduce(npu([1.0], torch.float64)))
    refuses(RuntimeError, "ReduceOp.BAND", lambda: dist.all_reduce(npu([1], torch.int32), dist.ReduceOp.BAND))
    refuses(ValueError, "contiguous", lambda: dist.all_reduce(npu([[1.0, 2.0], [3.0, 4.0]])[:, 0]))


def names(rank):
    assert dist.get_backend() == "hccl"
    assert dist.is_hccl_available()
    assert dist.get_world_size() == 2


def ddp_averages_as_one_process_would(rank):
    """Gradients and weights of every step equal those of a single process on the whole batch."""
    for options in ({}, {"gradient_as_bucket_view": True}, {"find_unused_parameters": True}, {"static_graph": True}):
        torch.manual_seed(rank)  # ranks start apart: DDP has to bring them together
        model = DistributedDataParallel(small_net().to(f"npu:{rank}"), device_ids=[rank], **options)
        torch.manual_seed(0)
        alone = small_net().to(f"npu:{rank}")
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.5) for m in (model, alone)]
        for batch in torch.randn(3, 6, 4, generator=torch.Generator().manual_seed(5)).to(f"npu:{rank}"):
            for optimizer, module, inputs in zip(optimizers, (model, alone), (batch[rank::2], batch), strict=True):
                optimizer.zero_grad()
                module(inputs).pow(2).mean().backward()
            for averaged, whole in zip(model.parameters(), alone.parameters(), strict=True):
                torch.testing.assert_close(averaged.grad.cpu(), whole.grad.cpu(), rtol=1e-5, atol=1e-6)
            for optimizer in optimizers:
                optimizer.step()
        for averaged, whole in zip(model.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(averaged.cpu(), whole.cpu(), rtol=1e-5, atol=1e-6)


def small_net():
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


def ddp_accumulates_without_synchronising(rank):
    model = DistributedDataParallel(torch.nn.Linear(2, 1, bias=False).to(f"npu:{rank}"))
    with model.no_sync():
        model(npu([[2.0 * rank, 4.0]])).sum().backward()
    same(model.module.weight.grad, [[2.0 * rank, 4.0]])
    model(npu([[2.0 * rank, 4.0]])).sum().backward()
    same(model.module.weight.grad, [[2.0, 8.0]])


def ddp_broadcasts_buffers(rank):
    module = torch.nn.Linear(2, 1).to(f"npu:{rank}")
    module.register_buffer("seen", npu([0.0]))
    model = DistributedDataParallel(module)
    module.seen.fill_(5.0 + rank)
    model(npu([[1.0, 1.0]])).sum().backward()
    same(module.seen, [5.0])


class Branches(torch.nn.Module):
    """Each rank uses another of two branches."""

    def __init__(self):
        super().__init__()
        self.branches = torch.nn.ModuleList(torch.nn.Linear(1, 1, bias=False) for _ in range(2))

    def forward(self, x):
        return self.branches[dist.get_rank()](x)


def ddp_finds_unused_parameters(rank):
    model = DistributedDataParallel(Branches().to(f"npu:{rank}"), find_unused_parameters=True)
    for _ in range(2):
        model.zero_grad()
        model(npu([[6.0]])).sum().backward()
        for branch in model.module.branches:
            same(branch.weight.grad, [[3.0]])
    assert torch.empty_strided((2, 3), (1, 2)).stride() == (1, 2)
    assert torch.ones(2).pin_memory().is_pinned()
    assert not torch.ones(2).is_pinned()


def synchronised_batch_norm(rank):
    """Each rank's share of a batch is normalised as the whole batch is by one process."""
    torch.manual_seed(0)
    batch, alone = torch.randn(6, 3, 4), torch.nn.BatchNorm1d(3)
    module = torch.nn.SyncBatchNorm.convert_sync_batchnorm(torch.nn.BatchNorm1d(3)).to(f"npu:{rank}")
    shares = batch.split((2, 4))
    model = DistributedDataParallel(module, device_ids=[rank])
    actual = model(shares[rank].to(f"npu:{rank}"))
    expected = alone(batch)
    torch.testing.assert_close(actual.cpu(), expected.split((2, 4))[rank])
    actual.pow(3).sum().backward()
    expected.pow(3).sum().backward()
    torch.testing.assert_close(module.weight.grad.cpu() * 2, alone.weight.grad)  # averaged over two ranks
    torch.testing.assert_close(module.running_var.cpu(), alone.running_var)


def ddp_communication_hook(rank):
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

    model = DistributedDataParallel(torch.nn.Linear(2, 1, bias=False).to(f"npu:{rank}"))
    model.register_comm_hook(None, fp16_compress_hook)
    model(npu([[2.0 * rank, 4.0]])).sum().backward()
    same(model.module.weight.grad, [[1.0, 4.0]])


def mixed_group_takes_both_devices(rank):
    for tensor in (torch.ones(2), npu([1.0, 1.0])):
        dist.all_reduce(tensor)
        assert tensor.cpu().tolist() == [2.0, 2.0]


def gloo_alone_refuses_npu_tensors(rank):
    refuses(RuntimeError, "device type npu", lambda: dist.all_reduce(npu([1.0])))


def default_backend_of_the_npu_is_hccl(rank):
    assert dist.get_backend() == "hccl"
    all_reduce(rank)
    barrier(rank)


CHECKS = {
    "hccl": [
        all_reduce,
        all_reduce_average,
        all_reduce_truth_values_is_any,
        all_reduce_keeps_the_shape_and_memory_format,
        all_reduce_of_a_slice_leaves_the_rest_alone,
        all_reduce_async_gives_npu_tensors,
        all_reduce_coalesced,
        broadcast,
        broadcast_of_a_parameter,
        reduce,
        all_gather,
        all_gather_into_tensor,
        gather,
        scatter,
        reduce_scatter,
        reduce_scatter_tensor,
        all_to_all,
        all_to_all_single,
        send_and_receive_by_tag,
        send_both_ways_at_once,
        barrier,
        objects,
        sub_groups,
        functional_collectives,
        what_hccl_refuses,
        names,
        ddp_averages_as_one_process_would,
        ddp_finds_unused_parameters,
        ddp_accumulates_without_synchronising,
        ddp_broadcasts_buffers,
        synchronised_batch_norm,
        ddp_communication_hook,
    ],
    "cpu:gloo,npu:hccl": [mixed_group_takes_both_devices, objects],
    "npu:hccl,cpu:gloo": [mixed_group_takes_both_devices],
    "gloo": [gloo_alone_refuses_npu_tensors],
    None: [default_backend_of_the_npu_is_hccl],
}


def attempt(check, rank, name, failures):
    try:
        check(rank)
    except Exception:
        failures[name] = traceback.format_exc()


def run_checks(rank, folder, failures):
    torch.npu.set_device(rank)
    for number, (backend, checks) in enumerate(CHECKS.items()):
        dist.init_process_group(
            backend,
            init_method=f"file://{folder}/store{number}",
            rank=rank,
            world_size=2,
            timeout=timedelta(seconds=30),
            device_id=None if backend else torch.device("npu", rank),
        )
        for check in checks:
            attempt(check, rank, f"{backend} {check.__name__} on rank {rank}", failures)
        dist.destroy_process_group()


if __name__ == "__main__":
    with mp.Manager() as manager:
        failures = manager.dict()
        mp.spawn(run_checks, args=(sys.argv[1], failures), nprocs=2)
        print(json.dumps(dict(failures)))
