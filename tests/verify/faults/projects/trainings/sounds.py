"""Train a tagger of sounds with an optimizer and an average of the program's own: python sounds.py"""
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler

ACCUMULATE = 2


class Clips(Dataset):
    def __init__(self, number, classes):
        generator = torch.Generator().manual_seed(11)
        self.labels = torch.randint(0, classes, (number,), generator=generator)
        self.clips = torch.randn(number, 8, 40, generator=generator) + self.labels[:, None, None] * 0.3

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, item):
        return self.clips[item], self.labels[item]


class Block(nn.Module):
    def __init__(self, channels, drop):
        super().__init__()
        self.norm = nn.GroupNorm(4, channels)
        self.depth = nn.Conv1d(channels, channels, 5, padding=2, groups=channels)
        self.point = nn.Conv1d(channels, channels, 1)
        self.drop = nn.Dropout(drop)

    def forward(self, x):
        return x + self.drop(self.point(F.silu(self.depth(self.norm(x)))))


class Tagger(nn.Module):
    def __init__(self, classes, width=24, drop=0.1):
        super().__init__()
        self.stem = nn.Conv1d(8, width, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList([Block(width, drop) for _ in range(2)])
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.score = nn.Linear(width, 1)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        x, _ = self.rnn(x.transpose(1, 2))
        pooled = (x * self.score(x).softmax(1)).sum(1)
        return self.head(pooled)


class Average:
    def __init__(self, model, decay=0.98):
        self.decay = decay
        self.shadow = {name: each.detach().clone() for name, each in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model):
        for name, each in model.state_dict().items():
            self.shadow[name].lerp_(each, 1 - self.decay)


class Momentum(torch.optim.Optimizer):
    def __init__(self, params, lr, momentum=0.9, weight_decay=1e-4):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for each in group["params"]:
                change = each.grad + group["weight_decay"] * each
                stored = self.state[each].setdefault("momentum_buffer", torch.zeros_like(each))
                each.sub_(group["lr"] * stored.mul_(group["momentum"]).add_(change))


def loaders(clips, batch):
    weights = 1.0 / torch.bincount(clips.labels, minlength=5).float()[clips.labels]
    sampler = WeightedRandomSampler(weights, len(clips), generator=torch.Generator().manual_seed(5))
    return DataLoader(clips, batch_size=batch, sampler=sampler, drop_last=True)


def rate(step, warm=3, total=12):
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / (total - warm)))


def main():
    torch.manual_seed(23)
    clips = Clips(96, 5)
    model = Tagger(5).cuda()
    average = Average(model)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = Momentum(model.parameters(), lr=0.05)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    count = 0
    for epoch in range(2):
        for sounds, labels in loaders(clips, 8):
            sounds, labels = sounds.cuda(), labels.cuda()
            loss = criterion(model(sounds), labels) / ACCUMULATE
            loss.backward()
            count += 1
            if count % ACCUMULATE == 0:
                nn.utils.clip_grad_norm_(model.parameters(), 0.1)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad(set_to_none=True)
                average.update(model)
                print("step", count // ACCUMULATE, loss.item())


if __name__ == "__main__":
    main()
