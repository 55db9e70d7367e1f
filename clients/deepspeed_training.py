"""Four steps under DeepSpeed: the STAGE of ZeRO and the OUTPUT file of the first rank."""

import json
import sys
from pathlib import Path

import deepspeed
import torch
import torch_npu  # noqa: F401

stage, output = int(sys.argv[1]), Path(sys.argv[2])


def main() -> None:
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    config = {
        "train_micro_batch_size_per_gpu": 4,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "torch_adam": True}},
        "zero_optimization": {"stage": stage},
        "bf16": {"enabled": stage > 0},
    }
    engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
    rank = torch.distributed.get_rank()
    generator = torch.Generator().manual_seed(rank)
    inputs, labels = torch.randn(4, 16, generator=generator), torch.randint(0, 4, (4,), generator=generator)
    inputs = inputs.to(engine.device, torch.bfloat16 if stage else torch.float32)
    losses = []
    for _ in range(4):
        loss = torch.nn.functional.cross_entropy(engine(inputs).float(), labels.to(engine.device))
        engine.backward(loss)
        engine.step()
        torch.distributed.all_reduce(loss.detach())
        losses.append(loss.item() / torch.distributed.get_world_size())
    if rank == 0:
        found = {"device": str(engine.device), "backend": torch.distributed.get_backend(), "losses": losses}
        output.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
