"""Runs the checks of a module on emulated NPUs: every rank calls every check; the last line is the failures as JSON.

Arguments: the module, the number of ranks, and an empty folder.
"""

import importlib
import json
import sys
import traceback
from datetime import timedelta

import torch
import torch._dynamo  # DDP, FSDP and DTensor import it: three seconds, here once and not in every rank
import torch.distributed as dist
import torch.multiprocessing as mp


def attempt(check, rank, name, failures):
    try:
        check(rank)
    except Exception:
        failures[name] = traceback.format_exc()


def run_checks(rank, module, size, folder, failures):
    torch.set_num_threads(1)
    torch.npu.set_device(rank)
    for number, (backend, checks) in enumerate(module.CHECKS.items()):
        dist.init_process_group(
            backend,
            init_method=f"file://{folder}/store{number}",
            rank=rank,
            world_size=size,
            timeout=timedelta(seconds=300),
            device_id=torch.device("npu", rank) if backend in module.BOUND else None,
        )
        for check in checks:
            attempt(check, rank, f"{backend} {check.__name__} on rank {rank}", failures)
        dist.destroy_process_group()


if __name__ == "__main__":
    name, size, folder = sys.argv[1:]
    module = importlib.import_module(name)  # before the fork: importing is most of the time
    with mp.Manager() as shared:
        failures = shared.dict()
        arguments = (module, int(size), folder, failures)
        mp.start_processes(run_checks, arguments, nprocs=int(size), start_method="fork")
        sys.stdout.write(json.dumps(dict(failures)) + "\n")
