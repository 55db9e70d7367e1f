"""One rank of a job: trains with DistributedDataParallel, drops a collective's handle each step, and ends.

Arguments: "destroy" or "leave" (the group, to the interpreter's exit), and for a job that fails the rank, its way
(raise, exit, kill), the second of the training at which it fails, and a file for the moment when it does.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import torch
import torch.distributed as dist
import torch_npu

STEPS, STEPS_OF_FAILING = 4, 100_000


def report(words: str) -> None:
    """One line in one write, so that those of several ranks do not mix."""
    sys.stdout.write(f"rank {os.environ['RANK']}: {words}\n")


def fail(way: str, moment: str) -> NoReturn:
    Path(moment).write_text(str(time.time()))
    if way == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if way == "exit":
        sys.exit(3)
    raise KeyError(f"rank {os.environ['RANK']} gives up")


def train(steps: int, is_over: Callable[[], bool]) -> None:
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(30, 10).to("npu"))
    optimizer = torch.optim.SGD(model.parameters(), 0.001)
    for _ in range(steps):
        model(torch.ones(4, 30).to("npu")).sum().backward()
        dist.all_reduce(torch.ones(100, device="npu"), async_op=True)
        optimizer.step()
        optimizer.zero_grad()
        if is_over():
            return
    dist.all_reduce(total := torch.ones(1, device="npu"))
    report(f"trained, {int(total.item())} ranks")


def main() -> None:
    end, *failing = sys.argv[1:]
    atexit.register(report, "left")
    torch_npu.npu.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("hccl")
    if failing:
        rank, way, second, moment = failing
        is_this_rank, deadline = int(rank) == dist.get_rank(), time.monotonic() + float(second)
        if is_this_rank and way == "kill":
            threading.Timer(float(second), fail, (way, moment)).start()
        train(STEPS_OF_FAILING, lambda: is_this_rank and way != "kill" and time.monotonic() > deadline)
        fail(way, moment)
    train(STEPS, lambda: False)
    if end == "destroy":
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
