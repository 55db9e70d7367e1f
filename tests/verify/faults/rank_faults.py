"""The faults of programs on two ranks that `gpu2npu verify` has to find, each put alone into the migrated copy."""

from __future__ import annotations

from faults import Fault, Subject, edited

SUBJECTS = {
    "data_parallel": Subject(
        "fixtures/many_cards/image_classifier",
        ("train.py", "--checkpoints", "ck"),
        ranks=2,
        steps=6,
    ),
    "ddp": Subject(
        "fixtures/ddp_imagenet",
        ("main.py", "-j", "0", "--seed", "3", "--dist-url", "env://", "--gpu", "{rank}", "--train-size", "64", "--epochs", "2"),
        original_ranks=2,
        ranks=2,
    ),
}  # fmt: skip


def data_parallel(name: str, step: int, module: str | None, cause: str, old: str, new: str) -> Fault:
    """A fault in what was DataParallel."""
    return edited(name, "data_parallel", step, module, cause, "train.py", old, new)


def ddp(name: str, step: int, module: str | None, cause: str, old: str, new: str) -> Fault:
    """A fault in what was DistributedDataParallel on GPUs."""
    return edited(name, "ddp", step, module, cause, "main.py", old, new)


SAMPLER = "DistributedSampler(trainset, shuffle=not args.no_shuffle)"
AVERAGED, EPOCH = "gradients not averaged", "DistributedSampler without set_epoch"

FAULTS = (
    data_parallel("gradients not averaged", 1, "Net.conv1", AVERAGED, "outputs = net(inputs)\n        loss = criterion(outputs, targets)\n        loss.b", "outputs = net.module(inputs)\n        loss = criterion(outputs, targets)\n        loss.b"),
    data_parallel("set_epoch lost", 5, "Net", EPOCH, "trainloader.sampler.set_epoch(epoch)", "pass"),
    data_parallel("loss divided by the ranks", 1, None, "loss averaged otherwise", "        loss.backward()", "        loss = loss / dist.get_world_size(); loss.backward()"),
    data_parallel("another rank's share", 1, "Net", "other share of the batch", SAMPLER, "DistributedSampler(trainset, rank=0, shuffle=not args.no_shuffle)"),
    data_parallel("the whole batch on each rank", 1, "Net", "batch split otherwise", "args.batch_size // dist.get_world_size()", "args.batch_size"),
    data_parallel("rank added to the seed", 1, None, "different random draw", "manual_seed(args.seed)", "manual_seed(args.seed + dist.get_rank())"),
    ddp("set_epoch lost", 3, "ResNetMini", EPOCH, "train_sampler.set_epoch(epoch)", "pass"),
    ddp("buffers not broadcast", 2, "ResNetMini.stem.1", "buffer not broadcast", "DistributedDataParallel(model, device_ids=[args.gpu])", "DistributedDataParallel(model, device_ids=[args.gpu], broadcast_buffers=False)"),
    ddp("gradients not averaged", 1, "ResNetMini.stem.0", AVERAGED, "        output = model(images)\n        loss", "        output = getattr(model, 'module', model)(images)\n        loss"),
    ddp("another rank's share", 1, "ResNetMini", "other share of the batch", "DistributedSampler(train_dataset,", "DistributedSampler(train_dataset, rank=1 - args.rank,"),
    ddp("samples not shuffled", 1, None, "different random draw", "DistributedSampler(train_dataset, shuffle=not args.no_shuffle", "DistributedSampler(train_dataset, shuffle=False"),
    ddp("one epoch fewer", 3, None, "other number of steps", "range(args.start_epoch, args.epochs)", "range(args.start_epoch, args.epochs - 1)"),
    ddp("all-reduce lost", 2, None, "other collective", "dist.all_reduce(mean_loss, op=dist.ReduceOp.SUM)", "pass"),
)  # fmt: skip
# HCCL refuses these at their first collective, as on hardware: there is no recording to compare.
ON_ONE_NPU = (
    data_parallel("one index for all ranks", 1, "Net", "wrong device index", "torch.npu.set_device(int(os.environ['LOCAL_RANK']))", "torch.npu.set_device(0)"),
    ddp("two ranks on one card", 1, "ResNetMini", "wrong device index", "    args.gpu = gpu\n", "    args.gpu = 0\n"),
)  # fmt: skip
