"""Trains a GPT as nanoGPT does: --amp for mixed precision with a loss scale, --compile for torch.compile."""
import argparse
from contextlib import nullcontext

import torch

from model import GPT

LENGTH, VOCABULARY = 32, 48


def get_batch(data, generator):
    starts = torch.randint(len(data) - LENGTH - 1, (8,), generator=generator)
    x = torch.stack([data[i:i + LENGTH] for i in starts])
    y = torch.stack([data[i + 1:i + 1 + LENGTH] for i in starts])
    return x.pin_memory().to("cuda", non_blocking=True), y.pin_memory().to("cuda", non_blocking=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(1337)
    torch.backends.cuda.matmul.allow_tf32 = True
    generator = torch.Generator().manual_seed(7)
    data = torch.randint(VOCABULARY, (2000,), generator=generator)
    ctx = torch.amp.autocast(device_type="cuda", dtype=torch.float16) if args.amp else nullcontext()
    model = GPT(VOCABULARY, LENGTH).to("cuda")
    scaler = torch.cuda.amp.GradScaler(enabled=args.amp)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
    if args.compile:
        model = torch.compile(model)
    for step in range(20):
        for _ in range(2):
            x, y = get_batch(data, generator)
            with ctx:
                _, loss = model(x, y)
                loss = loss / 2
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step + 1} loss {loss.item() * 2:.6f}")


if __name__ == "__main__":
    main()
