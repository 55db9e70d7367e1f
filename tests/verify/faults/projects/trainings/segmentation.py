"""Train a segmenter with RMSprop on samples drawn by weight: python segmentation.py"""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.PReLU(16))
        self.wide = nn.Conv2d(16, 16, 3, padding=2, dilation=2)
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.dropout = nn.Dropout2d(0.2)
        self.head = nn.Conv2d(8, 3, 1)

    def forward(self, x):
        return self.head(self.dropout(F.relu(self.up(F.relu(self.wide(self.down(x)))))))


def dice(logits, labels):
    chances, wanted = logits.softmax(1), F.one_hot(labels, 3).permute(0, 3, 1, 2).float()
    inner, whole = (chances * wanted).sum((2, 3)), (chances + wanted).sum((2, 3))
    return 1 - ((2 * inner + 1) / (whole + 1)).mean()


def main():
    torch.manual_seed(18)
    generator = torch.Generator().manual_seed(6)
    labels = torch.randint(0, 3, (64, 16, 16), generator=generator)
    pictures = torch.rand(64, 3, 16, 16, generator=generator) + labels[:, None] / 2
    sampler = WeightedRandomSampler(torch.rand(64, generator=generator), 64, replacement=True)
    loader = DataLoader(TensorDataset(pictures, labels), batch_size=16, sampler=sampler)
    model = Segmenter().cuda()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.99, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=4, power=0.9)
    for picture, label in loader:
        picture, label = picture.cuda(), label.cuda()
        logits = model(picture)
        loss = F.cross_entropy(logits, label) + dice(logits, label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        print("loss", loss.item())


if __name__ == "__main__":
    main()
