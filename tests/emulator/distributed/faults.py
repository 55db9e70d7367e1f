"""Run by test_faults.py: rank 1 of three dies in each way there is; prints what the others see, as JSON."""

import json
import multiprocessing
import os
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

WAYS = {
    "exception": lambda: sys.exit("rank 1 gives up"),
    "exit": lambda: os._exit(3),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
}


def run_rank(rank, way, folder, seen, all_reported):
    torch.npu.set_device(rank)
    dist.init_process_group(
        "hccl", init_method=f"file://{folder}/{way}", rank=rank, world_size=3, timeout=timedelta(seconds=600)
    )
    tensor = torch.ones(1, device=f"npu:{rank}")
    dist.all_reduce(tensor)
    if rank == 1:
        time.sleep(0.2)
        WAYS[way]()
    try:
        if rank == 0:
            dist.all_reduce(tensor)
        else:
            dist.recv(tensor, src=1)
    except RuntimeError as error:
        seen.put((way, rank, str(error)))
    all_reported.wait(600)  # who leaves earlier is one more rank that has ended


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    seen = context.Queue()
    stories = []
    for way in WAYS:
        all_reported = context.Event()
        arguments = [(rank, way, sys.argv[1], seen, all_reported) for rank in range(3)]
        processes = [context.Process(target=run_rank, args=each) for each in arguments]
        for process in processes:
            process.start()
        stories += [seen.get(timeout=600) for _ in range(2)]
        all_reported.set()
        for process in processes:
            process.join(600)
        stories.append((way, "codes", [process.exitcode for process in processes]))
    sys.stdout.write(json.dumps(stories) + "\n")
