"""nccl, played over gloo: two ranks in forks of one process. The port that both name is another in every run."""

import subprocess
from pathlib import Path

import pytest

PROGRAM = """
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from gpu2npu.verify import reference
from gpu2npu.verify.recording import ports

torch.set_num_threads(1)
child = os.fork()
rank = 0 if child else 1
ports.install(Path(sys.argv[1]))
reference.install(2)
torch.cuda.set_device(rank)
dist.init_process_group("nccl", init_method="tcp://127.0.0.1:29500", rank=rank, world_size=2)
assert dist.get_backend() == "nccl" and dist.is_nccl_available()


def cuda(*values):
    return torch.tensor(values).cuda()


def is_refused(call, words):
    try:
        call()
    except RuntimeError as error:
        assert words in str(error), error
        return True


total = cuda(1.0 + rank, 2.0)
dist.all_reduce(total)
assert total.is_cuda and total.get_device() == rank and total.tolist() == [3.0, 4.0]
mean = cuda(1.0 + rank)
work = dist.all_reduce(mean, op=dist.ReduceOp.AVG, async_op=True)
work.wait()
assert mean.item() == 1.5
dist.broadcast(mean.fill_(rank), 1)
assert mean.item() == 1
rows = [torch.zeros(2).cuda() for _ in range(2)]
dist.all_gather(rows, cuda(float(rank), 5.0))
assert [row.tolist() for row in rows] == [[0.0, 5.0], [1.0, 5.0]]
whole = torch.zeros(4).cuda()
dist._all_gather_base(whole, cuda(float(rank), 5.0))
assert whole.tolist() == [0.0, 5.0, 1.0, 5.0]
part = torch.zeros(2).cuda()
dist._reduce_scatter_base(part, torch.arange(4.0).cuda())
assert part.tolist() == [4.0 * rank, 4.0 * rank + 2]
swapped = torch.zeros(2).cuda()
dist.all_to_all_single(swapped, cuda(10.0 * rank, 10.0 * rank + 1))
assert swapped.tolist() == [rank, 10.0 + rank]
kept = cuda(1.0 + rank)
dist.reduce(kept, 0)
assert kept.item() == (3 if rank == 0 else 2)
got = torch.zeros(1).cuda()
for each in [dist.irecv(got, 1 - rank), dist.isend(cuda(7.0 + rank), 1 - rank)]:
    each.wait()
assert got.item() == 8 - rank
objects = [None, None]
dist.all_gather_object(objects, {"rank": rank})
assert objects == [{"rank": 0}, {"rank": 1}]
dist.barrier()
assert is_refused(lambda: dist.all_reduce(torch.ones(1)), "No backend type associated with device type cpu")

batch = torch.linspace(-1, 1, 48).view(12, 4)


def gradients(module, inputs):
    module.zero_grad()
    module(inputs).square().mean().backward()
    return [parameter.grad.cpu().clone() for parameter in module.parameters()]


for options in ({}, {"gradient_as_bucket_view": True}, {"find_unused_parameters": True}, {"static_graph": True}):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).cuda()
    alone = gradients(model, batch.cuda())
    together = nn.parallel.DistributedDataParallel(model, device_ids=[rank], **options)
    for _ in range(2):
        found = gradients(together, batch[rank::2].cuda())
    for one, other in zip(alone, found, strict=True):
        torch.testing.assert_close(one, other)
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""

FORKS = """
import os
import time

import torch

from gpu2npu.verify import reference


def backward():
    reference.install(2)
    weight = torch.ones(8, 4, requires_grad=True, device="cuda")
    torch.linspace(-1, 1, 48).view(12, 4).cuda().matmul(weight.t()).square().mean().backward()
    time.sleep(0.05)  # the engine's threads start meanwhile


def forked(function):
    child = os.fork()
    if not child:
        function()
        os._exit(0)
    return child


def ended(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def ranks():
    torch.set_num_threads(1)
    other = forked(backward)
    backward()
    os._exit(ended(other) != 0)


assert [ended(forked(ranks)) for _ in range(16)] == [0] * 16
"""


@pytest.mark.usefixtures("cpu_build")
def test_backward_passes_of_forks(training_python: list[str | Path], tmp_path: Path) -> None:
    """Each fork makes its thread pool before the autograd engine's threads ask for it: 3 pairs of 10 aborted."""
    (tmp_path / "program.py").write_text(FORKS)
    done = subprocess.run([*training_python, tmp_path / "program.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("cpu_build")
def test_collectives_of_two_ranks(training_python: list[str | Path], tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [*training_python, tmp_path / "program.py", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
