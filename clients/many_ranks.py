"""Three steps of DDP on as many ranks as there are, and the same steps on the whole batch by one: the OUTPUT file."""

import copy
import json
import os
import sys
from pathlib import Path

import torch
import torch_npu  # noqa: F401
from torch.nn.parallel import DistributedDataParallel


def train(model, values, targets):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        loss = torch.nn.functional.mse_loss(model(values), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def main():
    torch.distributed.init_process_group("hccl")
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    device = torch.device("npu", int(os.environ["LOCAL_RANK"]))
    torch.npu.set_device(device)
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).to(device)
    values, targets = torch.randn(4 * ranks, 6).to(device), torch.randn(4 * ranks, 1).to(device)
    alone = train(copy.deepcopy(model), values, targets)
    own = slice(4 * rank, 4 * rank + 4)
    losses = torch.stack(train(DistributedDataParallel(model, device_ids=[device.index]), values[own], targets[own]))
    torch.distributed.all_reduce(losses)
    devices = [None] * ranks
    torch.distributed.all_gather_object(devices, str(losses.device))
    if rank == 0:
        found = {"devices": devices, "losses": (losses / ranks).tolist(), "alone": torch.stack(alone).tolist()}
        Path(sys.argv[1]).write_text(json.dumps(found))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
