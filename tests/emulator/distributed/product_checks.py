"""Part of collective_checks.py: torch_npu's matrix products that are fused with collectives."""

import torch
import torch.distributed as dist
import torch_npu
from checking import ranks, refuses, size

NPU = torch.device("npu")


def made(rank):
    torch.manual_seed(rank)
    return torch.randn(4 * size(), 3), torch.randn(3, 2)


def products_with_collectives(rank):
    name = dist.group.WORLD._get_backend(NPU).get_hccl_comm_name(rank)
    pairs = [made(each) for each in ranks()]
    x, weight = (each.npu() for each in pairs[rank])
    bias = torch.ones(2)
    total = sum(a @ b + bias for a, b in pairs)
    found = torch_npu.npu_mm_all_reduce_base(x, weight, name, bias=bias.npu())
    torch.testing.assert_close(found.cpu(), total, rtol=1e-4, atol=1e-5)
    rows = torch_npu.npu_mm_reduce_scatter_base(x, weight, name, size())
    plain = sum(a @ b for a, b in pairs).chunk(size())[rank]
    torch.testing.assert_close(rows.cpu(), plain, rtol=1e-4, atol=1e-5)
    product, collected = torch_npu.npu_all_gather_base_mm(x, weight, name, size())
    every = torch.cat([a for a, _ in pairs])
    torch.testing.assert_close(collected.cpu(), every)
    torch.testing.assert_close(product.cpu(), every @ pairs[rank][1], rtol=1e-4, atol=1e-5)
    refuses(RuntimeError, "no process group", lambda: torch_npu.npu_mm_all_reduce_base(x, weight, "nobody"))


CHECKS = [products_with_collectives]
