import json
import os
import subprocess
import sys
from pathlib import Path

RUN = [sys.executable, "-m", "gpu2npu", "run", "--npus", "2"]
COLLECTIVES = Path(__file__).with_name("collectives.py")

TRAIN = """
import os
import sys

import torch
import torch.distributed as dist
import torch_npu

torch.npu.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("hccl")
if dist.get_rank() == 1 and "die" in sys.argv:
    os._exit(3)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1, bias=False).npu())
model(torch.full((1, 3), 1.0 + dist.get_rank()).npu()).sum().backward()
sys.stdout.write(f"rank {dist.get_rank()} gradient {model.module.weight.grad.tolist()}\\n")
dist.destroy_process_group()
"""

SPAWN = """
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def rank(rank):
    dist.init_process_group("hccl", init_method=f"file://{sys.argv[1]}/store", rank=rank, world_size=2)
    dist.all_reduce(torch.ones(1).npu())
    if rank == 1:
        raise KeyError("the second rank gives up")
    dist.all_reduce(torch.ones(1).npu())


if __name__ == "__main__":
    mp.spawn(rank, nprocs=2)
"""


def run(*command, timeout):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*RUN, *map(str, command)], env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )


def torchrun(script, *arguments, timeout):
    return run(
        *("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", script, *arguments), timeout=timeout
    )


def test_every_collective(tmp_path):
    ran = run(COLLECTIVES, tmp_path, timeout=300)
    assert ran.returncode == 0, ran.stderr
    failures = json.loads(ran.stdout.splitlines()[-1])
    assert not failures, "\n".join(f"{name}:\n{trace}" for name, trace in failures.items())


def test_ddp_under_torchrun(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    ran = torchrun(script, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert sorted(ran.stdout.splitlines()) == [f"rank {rank} gradient [[1.5, 1.5, 1.5]]" for rank in range(2)]


def test_a_rank_that_dies_ends_a_torchrun_job(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    ran = torchrun(script, "die", timeout=120)
    assert ran.returncode == 1
    assert "exitcode: 3" in ran.stderr.replace(" ", "").replace(":", ": ")


def test_a_rank_that_raises_ends_a_spawned_job(tmp_path):
    script = tmp_path / "spawn.py"
    script.write_text(SPAWN)
    ran = run(script, tmp_path, timeout=120)
    assert ran.returncode == 1
    assert "the second rank gives up" in ran.stderr
