"""Train a diffusion U-Net in float16 with a moving average of its weights: python diffusion.py"""
import copy
import math

import torch
import torch.nn.functional as F
from torch import nn

STEPS = 50


class Block(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.norm, self.conv = nn.GroupNorm(4, inner), nn.Conv2d(inner, outer, 3, padding=1)
        self.time = nn.Linear(32, outer)
        self.dropout = nn.Dropout(0.1)
        self.last = nn.Conv2d(outer, outer, 3, padding=1)
        self.skip = nn.Conv2d(inner, outer, 1) if inner != outer else nn.Identity()

    def forward(self, x, time):
        hidden = self.conv(F.silu(self.norm(x))) + self.time(F.silu(time))[:, :, None, None]
        return self.skip(x) + self.last(self.dropout(F.silu(hidden)))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 32))
        self.begin = nn.Conv2d(1, 16, 3, padding=1)
        self.down, self.middle, self.up = Block(16, 16), Block(16, 32), Block(48, 16)
        self.end = nn.Conv2d(16, 1, 3, padding=1)

    def forward(self, x, time):
        rates = torch.exp(-math.log(1000) * torch.arange(8, device=x.device) / 8)
        angles = time[:, None].float() * rates
        embedded = self.embed(torch.cat([angles.sin(), angles.cos()], 1))
        first = self.down(self.begin(x), embedded)
        middle = self.middle(F.avg_pool2d(first, 2), embedded)
        return self.end(self.up(torch.cat([F.interpolate(middle, scale_factor=2.0), first], 1), embedded))


def main():
    torch.manual_seed(9)
    model = UNet().cuda()
    average = copy.deepcopy(model).eval().requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    scaler = torch.amp.GradScaler("cuda", growth_interval=2)
    stored = torch.linspace(1e-4, 0.05, STEPS, device="cuda").neg().add(1).cumprod(0)
    pictures = torch.rand(32, 1, 8, 8, generator=torch.Generator().manual_seed(1)) * 2 - 1
    for picture in pictures.split(8):
        picture = picture.cuda()
        time = torch.randint(0, STEPS, (len(picture),), device="cuda")
        noise = torch.randn_like(picture)
        share = stored[time][:, None, None, None]
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.mse_loss(model(share.sqrt() * picture + (1 - share).sqrt() * noise, time), noise)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        with torch.no_grad():
            for own, new in zip(average.parameters(), model.parameters()):
                own.lerp_(new, 1 - 0.99)
            sampled = average(torch.randn_like(picture[:2]), time[:2])
        print("loss", loss.item(), sampled.abs().mean().item())


if __name__ == "__main__":
    main()
