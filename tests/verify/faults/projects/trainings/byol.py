"""Train a student that follows its own average, as BYOL does: python byol.py"""
import copy

import torch
import torch.nn.functional as F
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.project = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 16))

    def forward(self, x):
        return self.project(self.body(x))


class Predictor(nn.Sequential):
    pass


def seen(pictures):
    """A view of each picture: mirrored by chance, and noisy."""
    mirrored = torch.where(torch.rand(len(pictures), 1, 1, 1, device=pictures.device) < 0.5, pictures.flip(-1), pictures)
    return mirrored + 0.1 * torch.randn_like(pictures)


@torch.no_grad()
def follow(teacher, student, momentum=0.95):
    for own, new in zip(teacher.parameters(), student.parameters()):
        own.mul_(momentum).add_(new, alpha=1 - momentum)


def main():
    torch.manual_seed(14)
    student = Encoder().cuda()
    teacher = copy.deepcopy(student).requires_grad_(False)
    predictor = Predictor(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16)).cuda()
    optimizer = torch.optim.SGD([*student.parameters(), *predictor.parameters()], lr=0.1, momentum=0.9, weight_decay=1e-4)
    pictures = torch.rand(64, 3, 12, 12, generator=torch.Generator().manual_seed(3))
    for picture in pictures.split(16):
        picture = picture.cuda()
        one, other = seen(picture), seen(picture)
        loss = 0.0
        for here, there in ((one, other), (other, one)):
            with torch.no_grad():
                wanted = teacher(there)
            loss = loss + (2 - 2 * F.cosine_similarity(predictor(student(here)), wanted)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        follow(teacher, student)
        print("loss", loss.item())


if __name__ == "__main__":
    main()
