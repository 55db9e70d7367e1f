"""Run by ranks.py: DistributedDataParallel trains as a single process does on the whole batch."""

import copy

import torch
import torch.distributed as dist
from checking import close, npu, ranks, refuses, same
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook, quantization_hooks
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parallel.distributed import _MixedPrecision

torch.manual_seed(0)
NET = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
BATCHES = torch.randn(3, 8, 4)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.5)


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.01)


def train(model, optimizer, share=slice(None), device="cpu"):
    for batch in BATCHES:
        optimizer.zero_grad()
        model(batch[share].to(device)).pow(2).mean().backward()
        optimizer.step()
    return model


def trains_as_one_process(model, rank, make=sgd, tolerance=1e-5, optimizer=None):
    """The model, made on this rank's NPU, equals after three steps one that a CPU trained on the whole batch."""
    alone = copy.deepcopy(NET)
    train(alone, make(alone.parameters()))
    optimizer = optimizer or make(model.parameters())
    train(model, optimizer, slice(rank, None, dist.get_world_size()), f"npu:{rank}")
    for parallel, single in zip(model.parameters(), alone.parameters(), strict=True):
        close(parallel, single, tolerance)


def net(rank):
    return copy.deepcopy(NET).to(f"npu:{rank}")


def options(rank):
    for chosen in (
        {},
        {"gradient_as_bucket_view": True},
        {"find_unused_parameters": True},
        {"static_graph": True, "gradient_as_bucket_view": True},
        {"bucket_cap_mb": 0.0001},
        {"device_ids": [rank]},
    ):
        trains_as_one_process(DistributedDataParallel(net(rank), **chosen), rank)


def ranks_start_with_the_weights_of_the_first(rank):
    torch.manual_seed(rank)
    model = DistributedDataParallel(nn.Linear(2, 2).to(f"npu:{rank}"))
    weights = [torch.zeros(2, 2, device=f"npu:{rank}") for _ in ranks()]
    dist.all_gather(weights, model.module.weight.detach())
    for weight in weights:
        same(weight, weights[0].cpu())


def accumulates_without_synchronising(rank):
    model = DistributedDataParallel(nn.Linear(2, 1, bias=False).to(f"npu:{rank}"))
    with model.no_sync():
        model(npu([[2.0 * rank, 4.0]])).sum().backward()
    same(model.module.weight.grad, [[2.0 * rank, 4.0]])
    model(npu([[2.0 * rank, 4.0]])).sum().backward()
    same(model.module.weight.grad, [[4.0 * sum(ranks()) / dist.get_world_size(), 8.0]])


def buffers(rank):
    module = nn.Linear(2, 1).to(f"npu:{rank}")
    module.register_buffer("seen", npu([0.0]))
    for broadcasts in (True, False):
        model = DistributedDataParallel(module, broadcast_buffers=broadcasts)
        module.seen.fill_(5.0 + rank)
        model(npu([[1.0, 1.0]])).sum().backward()
        same(module.seen, [5.0 if broadcasts else 5.0 + rank])


class Branches(nn.Module):
    """Each rank uses another branch."""

    def __init__(self):
        super().__init__()
        self.branches = nn.ModuleList(nn.Linear(1, 1, bias=False) for _ in ranks())

    def forward(self, x):
        return self.branches[dist.get_rank()](x)


def gradients_reduced_late(rank):
    """DDP drops the handle of the collective that reduces them; the device waits for it."""
    module = net(rank)
    late = [(name, parameter) for name, parameter in module.named_parameters() if name.startswith("2.")]
    model = DistributedDataParallel(
        module, delay_all_reduce_named_params=late, param_to_hook_all_reduce=module[0].weight, device_ids=[rank]
    )
    optimizer = sgd(model.parameters())
    optimizer.register_step_pre_hook(lambda *_: torch.npu.synchronize())
    trains_as_one_process(model, rank, optimizer=optimizer)


def unused_parameters(rank):
    model = DistributedDataParallel(Branches().to(f"npu:{rank}"), find_unused_parameters=True)
    for _ in range(2):
        model.zero_grad()
        model(npu([[6.0]])).sum().backward()
        for branch in model.module.branches:
            same(branch.weight.grad, [[6.0 / dist.get_world_size()]])
    assert torch.empty_strided((2, 3), (1, 2)).stride() == (1, 2)
    assert torch.ones(2).pin_memory().is_pinned()
    assert not torch.ones(2).is_pinned()


def synchronised_batch_norm(rank):
    """Each rank's share of a batch, of another size, is normalised as the whole batch is by one process."""
    batch, alone = torch.randn(6, 3, 4, generator=torch.Generator().manual_seed(0)), nn.BatchNorm1d(3)
    module = nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm1d(3)).to(f"npu:{rank}")
    shares = (2, 4)
    model = DistributedDataParallel(module, device_ids=[rank])
    actual, expected = model(batch.split(shares)[rank].to(f"npu:{rank}")), alone(batch)
    close(actual, expected.split(shares)[rank])
    actual.pow(3).sum().backward()
    expected.pow(3).sum().backward()
    close(module.weight.grad * 2, alone.weight.grad)  # averaged over two ranks
    close(module.running_var, alone.running_var)


def communication_hooks(rank):
    for hook, tolerance in (
        (default_hooks.allreduce_hook, 1e-5),
        (default_hooks.fp16_compress_hook, 1e-2),
        (default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook), 1e-2),
        (quantization_hooks.quantization_pertensor_hook, 5e-2),
    ):
        model = DistributedDataParallel(net(rank))
        model.register_comm_hook(None, hook)
        trains_as_one_process(model, rank, tolerance=tolerance)
    for builtin in (dist.BuiltinCommHookType.ALLREDUCE, dist.BuiltinCommHookType.FP16_COMPRESS):
        model = DistributedDataParallel(net(rank))
        model._register_builtin_comm_hook(builtin)
        trains_as_one_process(model, rank, tolerance=1e-2)
    model = DistributedDataParallel(net(rank))
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    trains_as_one_process(model, rank, tolerance=0.5)
    for parameter in model.parameters():  # an approximation, but the same on all ranks
        first = parameter.detach().clone()
        dist.broadcast(first, 0)
        same(parameter.detach(), first.cpu())
    if torch.version.cuda is None:  # PyTorch's refusal, on a real NPU too, to which its build for CUDA is not given
        words = "BF16 all reduce communication hook required CUDA"
        refuses(TypeError, words, lambda: model.register_comm_hook(None, default_hooks.bf16_compress_hook))


def mixed_precision(rank):
    model = DistributedDataParallel(net(rank))
    with torch.autocast("npu", dtype=torch.bfloat16):
        loss = model(BATCHES[0][rank::2].to(f"npu:{rank}")).pow(2).mean()
    scaler = torch.amp.GradScaler("npu")
    scaler.scale(loss).backward()
    optimizer = sgd(model.parameters())
    scaler.step(optimizer)
    scaler.update()


def native_mixed_precision(rank):
    """Parameters in float16 for the passes, whose storage is freed and allocated at each of them.

    The first backward pass goes nowhere: PyTorch's `Reducer::set_mixed_precision_param_dtype` (2.13) replaces the
    buckets and leaves their views on the old ones until the buckets are rebuilt, so it reduces memory nobody wrote.
    """
    for reduction in (torch.float16, torch.float32):
        precision = _MixedPrecision(param_dtype=torch.float16, reduce_dtype=reduction, buffer_dtype=torch.float16)
        model = DistributedDataParallel(net(rank), mixed_precision=precision)
        model(BATCHES[0].to(f"npu:{rank}")).sum().backward()
        trains_as_one_process(model, rank, tolerance=2e-3)
        assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def uneven_inputs(rank):
    model = DistributedDataParallel(nn.Linear(1, 1, bias=False).to(f"npu:{rank}"))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.125)
    nn.init.zeros_(model.module.weight)
    with Join([model, optimizer]):
        for _ in range(2 + rank):
            optimizer.zero_grad()
            model(npu([[1.0]])).sum().backward()
            optimizer.step()
    same(model.module.weight.detach(), [[-0.125 * 3]])  # as with gloo on the CPU


def a_rank_without_inputs_shadows_the_others(rank):
    for divided_by_all, gradients in ((True, (4.0, 6.0)), (False, (4.0, 12.0))):
        model = DistributedDataParallel(nn.Linear(1, 1, bias=False).to(f"npu:{rank}"))
        with model.join(divide_by_initial_world_size=divided_by_all):
            for step in range(1 + rank):
                model(npu([[4.0 * (1 + step)]])).sum().backward()
        same(model.module.weight.grad, [[gradients[rank]]])  # as with gloo on the CPU


def zero_redundancy_optimizer(rank):
    for views in (False, True):
        model = DistributedDataParallel(net(rank))
        optimizer = ZeroRedundancyOptimizer(
            model.parameters(), torch.optim.Adam, lr=0.01, parameters_as_bucket_view=views
        )
        trains_as_one_process(model, rank, adam, optimizer=optimizer)
    optimizer.consolidate_state_dict(0)
    if rank == 0:
        assert len(optimizer.state_dict()["state"]) == len(list(NET.parameters()))


def backward_with_many_small_buckets(rank):
    model = DistributedDataParallel(
        nn.Sequential(*[nn.Linear(4, 4) for _ in range(40)]).to(f"npu:{rank}"), bucket_cap_mb=0.00001
    )
    for _ in range(6):
        model(torch.ones(2, 4, device=f"npu:{rank}")).sum().backward()


def pipeline(rank):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    layers, batch = [nn.Linear(4, 4), nn.Linear(4, 4)], torch.ones(4, 4)
    for number, layer in enumerate(layers):
        nn.init.constant_(layer.weight, 0.1 + number)
        nn.init.zeros_(layer.bias)
    alone = nn.Sequential(*copy.deepcopy(layers))
    alone(batch).pow(2).mean().backward()
    for schedule in (ScheduleGPipe, Schedule1F1B):
        own_layer = copy.deepcopy(layers[rank]).to(f"npu:{rank}")
        stage = PipelineStage(own_layer, rank, 2, torch.device("npu", rank))
        steps = schedule(stage, n_microbatches=2, loss_fn=lambda output, target: (output - target).pow(2).mean())
        if rank == 0:
            steps.step(batch.to(f"npu:{rank}"))
        else:
            steps.step(target=torch.zeros(4, 4, device=f"npu:{rank}"))
        close(own_layer.weight.grad, alone[rank].weight.grad)


BOUND = {"hccl"}
CHECKS = {
    "hccl": [
        native_mixed_precision,
        options,
        gradients_reduced_late,
        ranks_start_with_the_weights_of_the_first,
        accumulates_without_synchronising,
        buffers,
        unused_parameters,
        synchronised_batch_norm,
        communication_hooks,
        mixed_precision,
        uneven_inputs,
        a_rank_without_inputs_shadows_the_others,
        zero_redundancy_optimizer,
        backward_with_many_small_buckets,
        pipeline,
    ]
}
