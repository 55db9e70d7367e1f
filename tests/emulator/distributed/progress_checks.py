"""Part of collective_checks.py: collectives that go on beside the program, that wait, and that fail."""

import threading
from datetime import timedelta

import torch
import torch.distributed as dist
from checking import npu, ranks, refuses, same, size

NPU = torch.device("npu")


def messages_to_everybody_at_once(rank):
    received = [npu([0.0]) for _ in ranks()]
    others = [other for other in ranks() if other != rank]
    batch = [dist.P2POp(dist.irecv, received[other], other) for other in others]
    batch += [dist.P2POp(dist.isend, npu([10.0 * rank + other]), other) for other in others]
    for work in dist.batch_isend_irecv(batch):
        work.wait()
    for other in others:
        same(received[other], [10.0 * other + rank])
    group = dist.group.WORLD._get_backend(NPU)
    following, previous = (rank + 1) % size(), (rank - 1) % size()
    work = group.batch_isend_irecv(["isend", "irecv"], [npu([1.0 * rank]), received[0]], [following, previous])
    work.wait()
    same(received[0], [1.0 * previous])
    own = [npu([7.0 + rank]), npu([0.0])]
    batch = [dist.P2POp(dist.irecv, own[1], rank), dist.P2POp(dist.isend, own[0], rank)]
    batch += [dist.P2POp(dist.isend, npu([2.0 * rank]), following), dist.P2POp(dist.irecv, received[0], previous)]
    for work in dist.batch_isend_irecv(batch):
        work.wait()
    same(own[1], [7.0 + rank])
    same(received[0], [2.0 * previous])
    words = "1 messages of this rank to itself, and 0 that it receives"
    refuses(ValueError, words, lambda: dist.batch_isend_irecv(batch[1:2]))
    other = [dist.P2POp(dist.isend, npu([1.0]).to(torch.complex64), following)]
    refuses(RuntimeError, "Unsupported data type for HCCL", lambda: dist.batch_isend_irecv(other))
    work = dist.all_reduce(own[0], async_op=True)
    work.wait()
    refuses(ValueError, "of type ``torch.distributed.P2POp``", lambda: dist.batch_isend_irecv([1]))
    refuses(ValueError, "cannot send to itself but in one batch", lambda: dist.isend(own[0], rank))


def collectives_of_inference_mode_that_end_outside(rank):
    with torch.inference_mode():
        part, whole, total = npu([1.0 + rank]), torch.empty(size(), device=NPU), npu([1.0])
        begun = [dist.all_gather_into_tensor(whole, part, async_op=True), dist.all_reduce(total, async_op=True)]
    for work in begun:
        work.wait()
    same(whole, [1.0 + each for each in ranks()])
    same(total, [1.0 * size()])


def works(rank):
    tensor = npu([1.0 + rank])
    work = dist.all_reduce(tensor, async_op=True)
    (result,) = work.get_future().wait()
    assert result.data_ptr() == tensor.data_ptr()
    assert work.wait(timedelta(seconds=20))
    whole = torch.empty(size(), device=f"npu:{rank}")
    one = npu([1.0])
    for start in (
        lambda: dist.broadcast(one, 0, async_op=True),
        lambda: dist.reduce(one.clone(), 0, async_op=True),
        lambda: dist.all_gather(list(torch.zeros_like(whole).split(1)), one, async_op=True),
        lambda: dist.all_gather_into_tensor(whole, one, async_op=True),
        lambda: dist.reduce_scatter_tensor(one.clone(), torch.ones_like(whole), async_op=True),
        lambda: dist.reduce_scatter(one.clone(), list(torch.ones_like(whole).split(1)), async_op=True),
        lambda: dist.all_to_all_single(torch.empty_like(whole), torch.ones_like(whole), async_op=True),
        lambda: dist.all_to_all(list(torch.zeros_like(whole).split(1)), list(whole.split(1)), async_op=True),
        lambda: dist.barrier(async_op=True),
    ):
        works = [start() for _ in range(3)]
        assert works[0].wait()
        works[1].get_future().wait()
        while not works[2].is_completed():
            pass
        for work in works:
            work.wait()
            assert work.is_completed()
            assert work.is_success()
            assert work.exception() is None


def synchronize_waits_for_collectives(rank):
    """Also waits for collectives whose handles were dropped, while the other ranks are late."""
    for wait in (torch.npu.synchronize, torch.accelerator.synchronize, lambda: torch.npu.synchronize(rank)):
        tensors, parts = [npu([1.0 + rank]) for _ in range(20)], npu([0.0] * size())
        if rank == 1:
            for _ in range(50):
                torch.ones(200, 200, device=f"npu:{rank}").mm(torch.ones(200, 200, device=f"npu:{rank}"))
        for tensor in tensors:
            dist.all_reduce(tensor, async_op=True)
        dist.all_gather_into_tensor(parts, npu([1.0 * rank]), async_op=True)
        received = npu([0.0])
        if rank == 0:
            dist.irecv(received, 1)
        elif rank == 1:
            dist.isend(npu([7.0]), 0)
        wait()
        for tensor in tensors:
            same(tensor, [sum(1.0 + other for other in ranks())])
        same(parts, list(ranks()))
        if rank == 0:
            same(received, [7.0])


def synchronize_raises_the_error_of_a_dropped_collective(rank):
    dist.all_reduce(torch.ones(2 + rank % 2, device=f"npu:{rank}"), async_op=True)
    refuses(dist.DistBackendError, "its arguments are inconsistent", torch.npu.synchronize)
    torch.npu.synchronize()  # it is known now


def a_timeout_raises_and_ends_the_group_alone(rank):
    dist.barrier()  # making a group may not take longer than its timeout either
    group = dist.new_group(list(ranks()), timeout=timedelta(seconds=2))
    if rank == 0:
        late = ["rank 1 has", f"ranks {', '.join(str(other) for other in ranks() if other)} have"][size() > 2]
        words = f"HCCL allreduce failed on rank 0: {late} not come to it in time"
        refuses(dist.DistBackendError, words, lambda: dist.all_reduce(npu([1.0]), group=group))
        work = dist.all_reduce(npu([1.0]), group=group, async_op=True)
        refuses(RuntimeError, "an earlier collective of the group failed", work.wait)
    dist.all_reduce(tensor := npu([1.0]))
    same(tensor, [size()])


def ranks_that_do_not_agree(rank):
    """Every rank gets the arguments of all ranks in its error, nothing is written, and the group goes on."""
    odd, value = rank % 2, npu([5.0] * size())
    two_or_three = torch.ones(2 + odd, device=f"npu:{rank}")
    other_dtype = value.to((torch.float32, torch.int32)[odd])
    splits = [1] * size() if odd else [size()] + [0] * (size() - 1)
    parts = [npu([0.0] * (1 + odd)) for _ in ranks()]
    for name, call in (
        ("allreduce", lambda: dist.all_reduce(two_or_three)),
        ("allreduce", lambda: dist.all_reduce(other_dtype)),
        ("allreduce", lambda: dist.all_reduce(value, (dist.ReduceOp.SUM, dist.ReduceOp.MAX)[odd])),
        ("allreduce_coalesced", lambda: dist.all_reduce_coalesced([value, two_or_three])),
        ("reduce", lambda: dist.reduce(two_or_three, 0)),
        ("broadcast", lambda: dist.broadcast(two_or_three, 0)),
        ("broadcast", lambda: dist.broadcast(value, odd)),
        (("allreduce", "broadcast")[odd], (lambda: dist.all_reduce(value), lambda: dist.broadcast(value, 0))[odd]),
        ("allgather", lambda: dist.all_gather(parts, npu([1.0]))),
        ("allgather_into_tensor", lambda: dist.all_gather_into_tensor(npu([0.0] * size() * (1 + odd)), parts[0])),
        ("reduce_scatter_tensor", lambda: dist.reduce_scatter_tensor(parts[0], npu([0.0] * size() * (1 + odd)))),
        ("reduce_scatter", lambda: dist.reduce_scatter(parts[0], parts)),
        ("alltoall", lambda: dist.all_to_all(parts, [npu([1.0])] * size())),
        ("all_to_all_single", lambda: dist.all_to_all_single(npu([0.0] * size()), value, None, splits)),
        ("gather", lambda: dist.gather(npu([1.0] * (1 + odd)), None if rank else parts, 0)),
        ("scatter", lambda: dist.scatter(npu([1.0] * (1 + odd)), None if rank else parts, 0)),
    ):
        refuses(dist.DistBackendError, f"HCCL {name} failed on rank {rank}: its arguments are inconsistent", call)
    words = "(EI0005): rank 0: allreduce SUM of float32 [2]; rank 1: allreduce SUM of float32 [3]"
    refuses(RuntimeError, words, lambda: dist.all_reduce(two_or_three))
    work = dist.all_reduce(two_or_three, async_op=True)
    refuses(RuntimeError, words, work.get_future().wait)
    assert work.is_completed()
    assert not work.is_success()
    assert words in str(work.exception())
    same(two_or_three, [1.0] * (2 + odd))
    dist.all_reduce(value.view(-1, 1) if odd else value)  # HCCL counts elements
    same(value, [5.0 * size()] * size())


def messages_that_do_not_fit(rank):
    """The receiver raises; the sender's bytes are never taken, and those of other sizes still are."""
    for sent, expected, words in (
        (npu([1.0, 2.0]), npu([0.0]), "rank 0: message of float32 [2]; rank 1: message of float32 [1]"),
        (npu([1.0] * 3), npu([0.0] * 4), "rank 0: message of float32 [3]; rank 1: message of float32 [4]"),
        (npu([1.0] * 6), npu([0] * 6, torch.int32), "rank 0: message of float32 [6]; rank 1: message of int32 [6]"),
    ):
        if rank == 0:
            dist.isend(sent, 1)
        elif rank == 1:
            refuses(dist.DistBackendError, words, lambda to=expected: dist.recv(to, 0))
    if rank < 2:
        received = npu([0.0] * 5)
        work = dist.isend(npu([1.0 + rank] * 5), 1 - rank)
        dist.recv(received, 1 - rank)
        work.wait()
        same(received, [2.0 - rank] * 5)


def hundreds_of_collectives_in_flight(rank):
    started = []
    for number in range(300):
        tensor = npu([1.0 * number])
        started.append((tensor, dist.all_reduce(tensor, async_op=True)))
    for number, (tensor, work) in enumerate(started):
        work.wait()
        same(tensor, [number * size()])
    doubled = [
        dist.all_reduce(npu([1.0]), async_op=True).get_future().then(lambda future: future.value()[0] * 2)
        for _ in range(100)
    ]
    for future in doubled:
        same(future.wait(), [2 * size()])


def collectives_in_several_threads(rank):
    groups = [dist.new_group(list(ranks())) for _ in range(3)]
    sums = []

    def reduce(group):
        torch.npu.set_device(rank)
        for _ in range(40):
            dist.all_reduce(tensor := npu([1.0]), group=group)
            sums.append(tensor.item())

    threads = [threading.Thread(target=reduce, args=(group,)) for group in groups]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [size()] * 120


CHECKS = [
    messages_to_everybody_at_once,
    collectives_of_inference_mode_that_end_outside,
    works,
    synchronize_waits_for_collectives,
    synchronize_raises_the_error_of_a_dropped_collective,
    a_timeout_raises_and_ends_the_group_alone,
    ranks_that_do_not_agree,
    messages_that_do_not_fit,
    hundreds_of_collectives_in_flight,
    collectives_in_several_threads,
]
