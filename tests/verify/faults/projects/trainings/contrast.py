"""Train two towers on pairs of pictures and words, as CLIP does: python contrast.py"""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.pictures = nn.Sequential(nn.Conv2d(3, 16, 4, 4), nn.GELU(), nn.Flatten(), nn.Linear(144, 24))
        self.words = nn.EmbeddingBag(50, 24, mode="mean")
        self.scale = nn.Parameter(torch.tensor(2.6593))

    def forward(self, pictures, words):
        one, other = F.normalize(self.pictures(pictures), dim=-1), F.normalize(self.words(words), dim=-1)
        return self.scale.exp() * one @ other.t()


def main():
    torch.manual_seed(15)
    generator = torch.Generator().manual_seed(5)
    pairs = TensorDataset(torch.rand(64, 3, 12, 12, generator=generator), torch.randint(0, 50, (64, 6), generator=generator))
    loader = DataLoader(pairs, batch_size=16, shuffle=True, generator=torch.Generator().manual_seed(7))
    model = Towers().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.2)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=12, pct_start=0.5)
    for pictures, words in loader:
        logits = model(pictures.cuda(), words.cuda())
        wanted = torch.arange(len(logits), device="cuda")
        loss = (F.cross_entropy(logits, wanted) + F.cross_entropy(logits.t(), wanted)) / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        with torch.no_grad():
            model.scale.clamp_(0, 4.6052)
        print("loss", loss.item())


if __name__ == "__main__":
    main()
