"""Train a field of colours that is rendered along rays: python nerf.py"""
import torch
import torch.nn.functional as F
from torch import nn


def encoded(x):
    angles = x[..., None] * 2 ** torch.arange(4, device=x.device) * torch.pi
    return torch.cat([x, angles.sin().flatten(-2), angles.cos().flatten(-2)], -1)


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(27, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU())
        self.density, self.color = nn.Linear(48, 1), nn.Linear(48, 3)

    def forward(self, places):
        hidden = self.layers(encoded(places))
        return F.softplus(self.density(hidden)).squeeze(-1), torch.sigmoid(self.color(hidden))


def rendered(field, starts, directions, many=16):
    depths = torch.linspace(0.1, 2, many, device=starts.device) + torch.rand(len(starts), many, device=starts.device) * 0.1
    density, color = field(starts[:, None] + directions[:, None] * depths[..., None])
    gaps = F.pad(depths.diff(dim=-1), (0, 1), value=1.0)
    opaque = 1 - torch.exp(-density * gaps)
    passed = torch.cumprod(torch.cat([torch.ones_like(opaque[:, :1]), 1 - opaque + 1e-10], -1), -1)[:, :-1]
    return ((opaque * passed)[..., None] * color).sum(1)


def main():
    torch.manual_seed(20)
    field = Field().cuda()
    optimizer = torch.optim.NAdam(field.parameters(), lr=2e-3)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
    directions = F.normalize(torch.randn(128, 3), dim=-1)
    colors = directions.abs()
    for chosen in torch.randperm(128).split(32):
        starts = torch.zeros(32, 3, device="cuda")
        loss = F.mse_loss(rendered(field, starts, directions[chosen].cuda()), colors[chosen].cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        print("loss", loss.item())


if __name__ == "__main__":
    main()
