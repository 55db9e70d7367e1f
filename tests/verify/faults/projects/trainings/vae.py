"""Train a variational autoencoder with a cosine schedule: python vae.py"""
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import DataLoader, TensorDataset


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ELU(), nn.Linear(48, 16))
        self.decoder = nn.Sequential(nn.Linear(8, 48), nn.ELU(), nn.Linear(48, 64))

    def forward(self, x):
        mean, log_variance = self.encoder(x).chunk(2, 1)
        drawn = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decoder(drawn).view_as(x), mean, log_variance


def main():
    torch.manual_seed(13)
    torch.cuda.manual_seed_all(13)
    pictures = torch.rand(128, 1, 8, 8, generator=torch.Generator().manual_seed(4)).round()
    loader = DataLoader(TensorDataset(pictures), batch_size=32, shuffle=True, drop_last=True, pin_memory=True)
    model = VAE().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, eps=1e-8)
    scheduler = CosineAnnealingLR(optimizer, T_max=8)
    for (picture,) in loader:
        picture = picture.cuda(non_blocking=True)
        logits, mean, log_variance = model(picture)
        rebuilt = F.binary_cross_entropy_with_logits(logits, picture, reduction="sum") / len(picture)
        divergence = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum(1).mean()
        loss = rebuilt + divergence
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        print("loss", loss.item(), "rate", scheduler.get_last_lr()[0])


if __name__ == "__main__":
    main()
