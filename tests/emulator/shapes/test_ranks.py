"""Several ranks in a shapes-only run."""

import os
import subprocess
import sys

from gpu2npu.emulator.launch import emulating

RANKS = """
import os, sys, torch, torch_npu, torch.distributed as dist, torch.multiprocessing as mp

def rank(number, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    dist.init_process_group("hccl", rank=number, world_size=2)
    torch.npu.set_device(number)
    counts = torch.tensor([number + 1]).npu()
    dist.all_reduce(counts)
    objects = [None, None]
    dist.all_gather_object(objects, {"rank": number})
    large = torch.ones(1 << 30, device="npu", dtype=torch.bfloat16)
    dist.all_reduce(large)
    received = torch.empty(4, device="npu")
    dist.send(received, 1) if number == 0 else dist.recv(received, 0)
    assert (counts.item(), objects, large.sum().item()) == (3, [{"rank": 0}, {"rank": 1}], 0)
    try:
        if number == 0:
            dist.all_reduce(torch.ones(3, device="npu"))
        else:
            dist.all_reduce(torch.ones(4, device="npu"))
    except dist.DistBackendError as error:
        if number == 0:
            print(error)
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(rank, (sys.argv[1],), 2)
"""


def test_ranks_compare_what_they_do_and_integers_move(torch_python, tmp_path, free_port):
    path = tmp_path / "ranks.py"
    path.write_text(RANKS, encoding="utf-8")
    environment = emulating(os.environ, python=sys.executable, shapes_only=True)
    command = [*torch_python, path, str(free_port())]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "rank 0: allreduce SUM of float32 [3] at ranks.py:19" in done.stdout
    assert "rank 1: allreduce SUM of float32 [4] at ranks.py:21" in done.stdout
