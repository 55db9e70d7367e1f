"""Scripts under torchrun, and processes that find each other without it.

Two nodes are in tests/fixtures/test_launching.py.
"""

import json
from pathlib import Path

TRAIN = """
import json
import os
import sys

import torch
import torch.distributed as dist
import torch_npu

torch.npu.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("hccl")
rank = dist.get_rank()
if rank == 1 and "die" in sys.argv:
    os._exit(3)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1, bias=False).npu())
model(torch.full((1, 3), 1.0 + rank).npu()).sum().backward()
gradient = model.module.weight.grad.tolist()
node = os.environ["GROUP_RANK"]
sys.stdout.write(json.dumps([rank, int(node), torch.npu.current_device(), gradient]) + "\\n")
dist.destroy_process_group()
"""

SPAWN = """
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def rank(rank):
    torch.npu.set_device(rank)
    dist.init_process_group("hccl", init_method=f"file://{sys.argv[1]}/store", rank=rank, world_size=2)
    dist.all_reduce(torch.ones(1).npu())
    if rank == 1:
        raise KeyError("the second rank gives up")
    dist.all_reduce(torch.ones(1).npu())


if __name__ == "__main__":
    mp.spawn(rank, nprocs=2)
"""


def reports(output):
    return sorted(json.loads(line) for line in output.splitlines() if line.startswith("["))


def test_a_rank_that_dies_ends_a_torchrun_job(run, torch_python, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    torchrun = [*torch_python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", 2]
    ran = run(*torchrun, "--no-python", *torch_python, script, "die")
    assert ran.returncode == 1
    assert "exitcode:3" in ran.stderr.replace(" ", "")
    assert "rank:1" in ran.stderr.replace(" ", "")


def test_torchrun_on_one_node(run, torch_python, tmp_path):
    """torchrun as users start it, and ranks that end as theirs do."""
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    torchrun = ["-m", "torch_npu.distributed.run", "--standalone", "--nproc_per_node", 2]
    ran = run(*torchrun, "--no-python", *torch_python, script)
    assert ran.returncode == 0, ran.stderr
    assert reports(ran.stdout) == [[rank, 0, rank, [[1.5, 1.5, 1.5]]] for rank in range(2)]


def test_a_rank_that_raises_ends_a_spawned_job(run, torch_python, tmp_path):
    script = tmp_path / "spawn.py"
    script.write_text(SPAWN)
    ran = run(*torch_python, script, tmp_path)
    assert ran.returncode == 1
    assert "the second rank gives up" in ran.stderr or "rank 1 has ended" in ran.stderr


def test_every_init_method(run, torch_python, tmp_path):
    ran = run(*torch_python, Path(__file__).with_name("rendezvous.py"), tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "all joined" in ran.stdout
