"""Run by ranks.py on 2 emulated NPUs: attention over a cut sequence is that of one CPU, with its gradients."""

import os

import torch
from checking import close, refuses
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.experimental._attention import _cp_options, context_parallel_unshard, set_rotate_method
from torch.nn import functional
from torch_npu.distributed.tensor.experimental import context_parallel as context_parallel_of_torch_npu

from gpu2npu.emulator.device.dispatch import support_table

TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


def on_one_cpu(tensors, **options):
    """The result, and the gradients of the sum of its squares, in float32."""
    tensors = [each.float().requires_grad_() for each in tensors]
    result = functional.scaled_dot_product_attention(*tensors, **options)
    result.square().sum().backward()
    return result, *[each.grad for each in tensors]


def cut_among_ranks(rank, tensors, **options):
    mesh = init_device_mesh("npu", (2,))
    cut = [each.to(f"npu:{rank}") for each in tensors]
    with context_parallel_of_torch_npu(mesh, buffers=cut, buffer_seq_dims=[2] * 3):
        assert cut[0].shape[2] == tensors[0].shape[2] // 2
        cut = [each.requires_grad_() for each in cut]
        result = functional.scaled_dot_product_attention(*cut, **options)
        result.square().sum().backward()
        own_parts = [result.detach(), *[each.grad for each in cut]]
        for each in cut:
            each.requires_grad_(False)
        return context_parallel_unshard(mesh, own_parts, [2] * 4)


def attention_over_a_cut_sequence(rank):
    torch.manual_seed(0)
    for causal, balanced, rotation, dtype in (
        (True, True, "allgather", torch.float32),
        (True, True, "alltoall", torch.bfloat16),
        (True, False, "alltoall", torch.float32),
        (False, False, "allgather", torch.float32),
    ):
        _cp_options.enable_load_balance = balanced
        set_rotate_method(rotation)
        tensors = [torch.randn(2, 4, 16, 8).to(dtype) for _ in range(3)]
        options = {"is_causal": causal, "scale": 0.3}
        for ours, theirs in zip(cut_among_ranks(rank, tensors, **options), on_one_cpu(tensors, **options), strict=True):
            assert ours.dtype == dtype
            close(ours.float(), theirs, TOLERANCES[dtype])


def what_the_ring_refuses(rank):
    mesh = init_device_mesh("npu", (2,))
    x = torch.ones(1, 2, 4, 8, device=f"npu:{rank}")
    with context_parallel(mesh, buffers=[x.clone()], buffer_seq_dims=[2]):
        refuses(RuntimeError, "redistributed", lambda: functional.scaled_dot_product_attention(x, x, x, dropout_p=0.5))
        refuses(
            NotImplementedError, "got 3 dimensions", lambda: functional.scaled_dot_product_attention(x[0], x[0], x[0])
        )
        inner = context_parallel(mesh, buffers=[x.clone()], buffer_seq_dims=[2])
        refuses(RuntimeError, "a context inside another", inner.__enter__)
        y = torch.arange(64.0, device=x.device).reshape(1, 2, 4, 8) * (rank + 1)
        with torch.no_grad():
            expected = functional.scaled_dot_product_attention(y, y, y, is_causal=True)
        with torch.inference_mode():
            close(functional.scaled_dot_product_attention(y, y, y, is_causal=True), expected.cpu())
        cut = DTensor.from_local(x, mesh, [Shard(2)])
        attend = torch.ops.npu.npu_fusion_attention_v3
        refuses(NotImplementedError, "BNSD", lambda: attend(cut, cut, cut, 4, "BSND"))
        refuses(NotImplementedError, "sparse_mode=4", lambda: attend(cut, cut, cut, 2, "BNSD", sparse_mode=4))
        refuses(NotImplementedError, "prefix", lambda: attend(cut, cut, cut, 2, "BNSD", prefix=[1]))
    outside = functional.scaled_dot_product_attention(x, x, x)
    close(outside, torch.ones(1, 2, 4, 8))


def a_release_without_a_ring(rank):
    mesh = init_device_mesh("npu", (2,))
    x = torch.ones(1, 2, 4, 8, device=f"npu:{rank}")
    os.environ["GPU2NPU_TORCH_NPU"] = "2.9.1"
    support_table._table.cache_clear()
    try:
        refuses(
            RuntimeError,
            "context_parallel: torch_npu 2.9.1: this release has no ring attention",
            lambda: context_parallel(mesh, buffers=[x], buffer_seq_dims=[2]).__enter__(),
        )
    finally:
        del os.environ["GPU2NPU_TORCH_NPU"]
        support_table._table.cache_clear()


BOUND = {"hccl"}
CHECKS = {"hccl": [a_release_without_a_ring, attention_over_a_cut_sequence, what_the_ring_refuses]}
