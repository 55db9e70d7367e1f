"""Run by test_rendezvous.py on two emulated NPUs: groups made, destroyed and made again in every way there is."""

import os
import socket
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def run_rank(rank, ports, folder):
    torch.npu.set_device(rank)
    os.environ.update(MASTER_ADDR="127.0.0.1", RANK=str(rank), WORLD_SIZE="2")
    bound = torch.device("npu", rank)
    for number, (backend, method, device) in enumerate(
        (
            ("hccl", "env://", None),
            ("hccl", f"tcp://127.0.0.1:{ports[1]}", None),
            ("hccl", f"file://{folder}/store", bound),
            ("cpu:gloo,npu:hccl", None, None),
            (None, None, bound),
        )
    ):
        os.environ["MASTER_PORT"] = str(ports[number])
        named = {} if method in (None, "env://") else {"rank": rank, "world_size": 2}
        dist.init_process_group(backend, init_method=method, device_id=device, **named)
        dist.all_reduce(tensor := torch.ones(1).npu())
        part = dist.new_group([rank], backend="hccl")
        dist.all_reduce(tensor, group=part)
        assert tensor.item() == 2, tensor
        dist.barrier()
        dist.destroy_process_group()
        assert not dist.is_initialized()


def bound_socket():
    """A bound socket that does not listen: nobody else is given its port, at which PyTorch's store may listen."""
    keeper = socket.socket()
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    keeper.bind(("127.0.0.1", 0))
    return keeper


if __name__ == "__main__":
    sockets = [bound_socket() for _ in range(5)]
    ports = [each.getsockname()[1] for each in sockets]
    mp.start_processes(run_rank, (ports, sys.argv[1]), nprocs=2, start_method="fork")
    sys.stdout.write("all joined\n")
