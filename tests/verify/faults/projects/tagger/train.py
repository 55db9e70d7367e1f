"""Train a tagger that marks the first character of every word: python train.py"""
import os

import torch
import torch.nn as nn
from model import Tagger

LETTERS = " abcdefghijklmnopqrstuvwxyz"
LENGTH = 24


def rows():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "text.txt")) as file:
        lines = [line.strip() for line in file]
    size = max(map(len, lines))
    text = torch.tensor([[LETTERS.index(c) for c in line.ljust(size)] for line in lines])
    before = torch.cat((torch.zeros(len(lines), 1, dtype=torch.long), text[:, :-1]), dim=1)
    tags = torch.where((before == 0) & (text > 0), 1, 0)
    lengths = torch.tensor([len(line) for line in lines])
    tags[torch.arange(size) >= lengths[:, None]] = -100
    return text, tags


def main():
    torch.manual_seed(5)
    text, tags = rows()
    model = Tagger(len(LETTERS), 2).cuda()
    criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 4.0]).cuda())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
    for epoch in range(2):
        state = None
        for start in range(0, text.size(1) - LENGTH + 1, LENGTH):
            data = text[:, start : start + LENGTH].cuda()
            target = tags[:, start : start + LENGTH].cuda()
            output, state = model(data, state)
            state = tuple(each.detach() for each in state)
            loss = criterion(output.flatten(0, 1), target.flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
            scheduler.step()
            print("epoch", epoch, "loss", loss.item())


if __name__ == "__main__":
    main()
