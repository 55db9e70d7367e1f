"""Run by ranks.py on 4 emulated NPUs: FSDP, DTensor and tensor parallelism train as a CPU does without them."""

import copy
import gc
import shutil
import tempfile
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoints
from checking import close, npu, same
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardingStrategy,
    fully_shard,
)
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, randn, zeros
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn import functional

torch.manual_seed(0)
NET = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
BATCHES = torch.randn(3, 8, 4)


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=0.01)


def train(model, optimizer, share=slice(None), device="cpu"):
    for batch in BATCHES:
        optimizer.zero_grad()
        model(batch[share].to(device)).pow(2).mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
    return optimizer


def train_share(model, rank, optimizer=None):
    return train(model, optimizer or adamw(model), slice(rank, None, dist.get_world_size()), f"npu:{rank}")


def equals_alone(model, tolerance=1e-5):
    alone = copy.deepcopy(NET)
    train(alone, adamw(alone))
    for sharded, whole in zip(model.parameters(), alone.parameters(), strict=True):
        close(sharded, whole, tolerance)


def net(rank):
    return copy.deepcopy(NET).to(f"npu:{rank}")


def mesh(*shape, names=None):
    return init_device_mesh("npu", shape, mesh_dim_names=names)


def sharded(rank):
    for reshard in (True, False):
        model = net(rank)
        for layer in model[::2]:
            fully_shard(layer, reshard_after_forward=reshard)
        fully_shard(model, reshard_after_forward=reshard)
        train_share(model, rank)
        equals_alone(model)


def sharding_saves_memory(rank):
    gc.collect()  # the models of other checks
    model = nn.Sequential(*[nn.Linear(256, 256, bias=False, device=f"npu:{rank}") for _ in range(4)])
    before = torch.npu.memory_allocated(rank)
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    with torch.no_grad():
        model(torch.ones(1, 256, device=f"npu:{rank}"))
    deadline = time.monotonic() + 300
    while torch.npu.memory_allocated(rank) >= before / 2:  # gloo's threads let go of the last layer milliseconds later
        assert time.monotonic() < deadline
        time.sleep(0.001)


def sharded_with_mixed_precision(rank):
    for parameters, reduction in ((torch.bfloat16, torch.float32), (torch.float16, torch.float16)):
        model = net(rank)
        fully_shard(model, mp_policy=MixedPrecisionPolicy(param_dtype=parameters, reduce_dtype=reduction))
        train_share(model, rank)
        equals_alone(model, tolerance=2e-2)
        assert next(model.parameters()).dtype is torch.float32


def sharded_in_two_dimensions(rank):
    model = net(rank)
    fully_shard(model, mesh=mesh(2, 2, names=("replicate", "shard")))
    train_share(model, rank)
    equals_alone(model)


def sharded_and_offloaded(rank):
    model = copy.deepcopy(NET)
    fully_shard(model, offload_policy=CPUOffloadPolicy())
    train_share(model, rank)
    assert next(model.parameters()).device.type == "cpu"
    equals_alone(model)


def sharded_checkpoints(rank):
    folder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder, 0)
    model, other = net(rank), net(rank)
    nn.init.zeros_(other[0].weight)
    fully_shard(model)
    fully_shard(other)
    optimizer, other_optimizer = train_share(model, rank), adamw(other)
    state = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
    checkpoints.save(state, checkpoint_id=folder[0])
    state = dict(zip(("model", "optimizer"), get_state_dict(other, other_optimizer), strict=True))
    checkpoints.load(state, checkpoint_id=folder[0])
    set_state_dict(other, other_optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    train_share(model, rank, optimizer)
    train_share(other, rank, other_optimizer)
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        close(one, two.full_tensor())
    whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    weight = model[0].weight.full_tensor()
    if rank == 0:
        close(weight, whole["0.weight"])
        shutil.rmtree(folder[0])


def fully_sharded_data_parallel(rank):
    for strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy.NO_SHARD):
        device = torch.device("npu", rank)
        model = FullyShardedDataParallel(
            net(rank), device_id=device, sharding_strategy=strategy, use_orig_params=True, sync_module_states=True
        )
        optimizer = adamw(model)
        for batch in BATCHES:
            optimizer.zero_grad()
            model(batch[rank :: dist.get_world_size()].to(device)).pow(2).mean().backward()
            model.clip_grad_norm_(0.1)
            optimizer.step()
        with FullyShardedDataParallel.summon_full_params(model):
            equals_alone(model.module)
    precision = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = FullyShardedDataParallel(net(rank), device_id=rank, mixed_precision=precision)
    model(BATCHES[0].to(device)).sum().backward()
    assert set(model.state_dict()) == set(NET.state_dict())


def meshes(rank):
    whole = mesh(2, 2, names=("data", "tensor"))
    assert list(whole.get_coordinate()) == [rank // 2, rank % 2]
    for name, peers in (("data", [rank % 2, rank % 2 + 2]), ("tensor", [rank // 2 * 2, rank // 2 * 2 + 1])):
        assert dist.get_process_group_ranks(whole.get_group(name)) == peers
        dist.all_reduce(tensor := npu([1.0 * rank]), group=whole[name].get_group())
        same(tensor, [sum(peers)])
    dist.all_reduce(tensor := npu([1.0]), group=whole._flatten("all").get_group())
    same(tensor, [4])


def redistribution(rank):
    whole, line = torch.arange(24.0).view(6, 4), mesh(4)
    placements = (Shard(0), Shard(1), Replicate())
    for source in placements:
        tensor = distribute_tensor(whole.to(f"npu:{rank}"), line, [source])
        for target in placements:
            moved = tensor.redistribute(line, [target])
            assert moved.placements == (target,)
            close(moved, whole)
    partial = DTensor.from_local(whole.to(f"npu:{rank}"), line, [Partial()])
    for target in placements:
        close(partial.redistribute(line, [target]), whole * 4)
    rows = distribute_tensor(whole.to(f"npu:{rank}"), line, [Shard(0)])
    close(rows @ rows.t(), whole @ whole.t())
    close((rows + 1).mean(0), (whole + 1).mean(0))
    square = distribute_tensor(whole.to(f"npu:{rank}"), mesh(2, 2), [Shard(0), Shard(1)])
    close(square.redistribute(placements=[Replicate(), Shard(0)]), whole)
    close(zeros(4, 4, device_mesh=line, placements=[Shard(0)]), torch.zeros(4, 4))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(16, 16) for _ in range(4))

    def forward(self, x):
        batch, length, _ = x.shape
        heads = [layer(x).view(batch, length, -1, 4).transpose(1, 2) for layer in (self.q, self.k, self.v)]
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, -1))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(12, 16)
        self.norm1, self.attention = nn.LayerNorm(16), Attention()
        self.norm2, self.up, self.down = nn.RMSNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)
        self.out = nn.Linear(16, 12)

    def forward(self, tokens):
        x = self.embed(tokens)
        x = x + self.attention(self.norm1(x))
        return self.out(x + self.down(functional.gelu(self.up(self.norm2(x)))))


PLAN = {
    "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
    "norm1": SequenceParallel(),
    "norm2": SequenceParallel(),
    "attention": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
    **{f"attention.{name}": ColwiseParallel() for name in ("q", "k", "v")},
    "attention.out": RowwiseParallel(output_layouts=Shard(1)),
    "up": ColwiseParallel(input_layouts=Shard(1)),
    "down": RowwiseParallel(output_layouts=Shard(1)),
    "out": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False),
}


def tensor_parallel_transformer(rank):
    torch.manual_seed(1)
    alone = Transformer()
    tokens = torch.randint(0, 12, (2, 8))
    model = parallelize_module(copy.deepcopy(alone).to(f"npu:{rank}"), mesh(4), PLAN)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.5) for each in (model, alone)]
    for _ in range(2):
        for optimizer in optimizers:
            optimizer.zero_grad()
        with loss_parallel():
            there = tokens.to(f"npu:{rank}")
            loss = functional.cross_entropy(model(there).flatten(0, 1), there.roll(1, 1).flatten())
            loss.backward()
        expected = functional.cross_entropy(alone(tokens).flatten(0, 1), tokens.roll(1, 1).flatten())
        expected.backward()
        close(loss, expected)
        for optimizer in optimizers:
            optimizer.step()
    for parallel, whole in zip(model.parameters(), alone.parameters(), strict=True):
        close(parallel, whole, tolerance=1e-4)


def tensor_parallel_and_sharded(rank):
    square = mesh(2, 2, names=("data", "tensor"))
    model = parallelize_module(net(rank), square["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(model, mesh=square["data"])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    alone = copy.deepcopy(NET)
    alone_optimizer = torch.optim.SGD(alone.parameters(), lr=0.5)
    for batch in BATCHES:
        for each, steps, inputs in (
            (model, optimizer, batch[rank // 2 :: 2].to(f"npu:{rank}")),
            (alone, alone_optimizer, batch),
        ):
            steps.zero_grad()
            each(inputs).pow(2).mean().backward()
            steps.step()
    for parallel, whole in zip(model.parameters(), alone.parameters(), strict=True):
        close(parallel, whole)


def random_numbers(rank):
    """A seed decides the whole, however it is sharded among the ranks: no two shards repeat each other."""
    torch.manual_seed(3)
    square, state = mesh(2, 2), torch.npu.get_rng_state()
    whole = randn(8, 4, device_mesh=square, placements=[Shard(0), Shard(1)])
    assert len(whole.full_tensor().unique()) == whole.numel()
    replicated = randn(8, 4, device_mesh=square, placements=[Replicate(), Replicate()])
    first = replicated.to_local().clone()
    dist.broadcast(first, 0)
    assert torch.equal(replicated.to_local(), first)
    dropped = functional.dropout(whole)
    torch.npu.set_rng_state(state)
    again = randn(8, 4, device_mesh=square, placements=[Shard(0), Shard(1)])
    assert torch.equal(again.to_local(), whole.to_local())
    randn(8, 4, device_mesh=square, placements=[Replicate(), Replicate()])
    assert torch.equal(functional.dropout(again).to_local(), dropped.to_local())


def initialised_after_sharding(rank):
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 2))
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=f"npu:{rank}")
    for layer in model:
        layer.reset_parameters()
    weight = model[0].weight.full_tensor()
    assert len(weight.unique()) > 4000
    assert 0.06 < weight.std() < 0.08  # uniform in -1/8 to 1/8
    model(torch.ones(2, 64, device=f"npu:{rank}")).sum().backward()
    assert model[0].weight.grad.shape == (64, 64)


BOUND = {"hccl"}
CHECKS = {
    "hccl": [
        sharded,
        sharding_saves_memory,
        sharded_with_mixed_precision,
        sharded_in_two_dimensions,
        sharded_checkpoints,
        fully_sharded_data_parallel,
        meshes,
        redistribution,
        random_numbers,
        initialised_after_sharding,
        tensor_parallel_transformer,
        tensor_parallel_and_sharded,
    ],
    "cpu:gloo,npu:hccl": [sharded_and_offloaded],
}
