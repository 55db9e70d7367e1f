"""Train a net whose biases all come before a batch norm, where they do nothing: python train.py"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def block(width, new):
    return nn.Sequential(nn.Conv2d(width, new, 3, padding=1), nn.BatchNorm2d(new), nn.ReLU())


def main():
    torch.manual_seed(1)
    model = nn.Sequential(block(3, 8), block(8, 8), nn.Flatten(), nn.Linear(8 * 6 * 6, 10)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(4):
        images, labels = torch.randn(8, 3, 6, 6).cuda(), torch.randint(0, 10, (8,)).cuda()
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        print("step", step + 1, "loss", loss.item())


if __name__ == "__main__":
    main()
