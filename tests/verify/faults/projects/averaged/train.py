"""Train a small ResNet, and evaluate the moving average of its weights: python train.py"""
import copy

import torch
import torch.nn.functional as F
from model import ResNet
from torch.utils.data import DataLoader, TensorDataset

DECAY = 0.9
PATH = "resnet.pt"


def pictures(number, seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 4, (number,), generator=generator)
    images = torch.randn(number, 3, 12, 12, generator=generator)
    return TensorDataset(images + labels[:, None, None, None] / 2, labels)


class MovingAverage:
    """A copy of a model whose weights follow the model's slowly, and whose buffers are the model's."""

    def __init__(self, model):
        self.model = copy.deepcopy(model).eval()
        self.model.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for own, new in zip(self.model.parameters(), model.parameters()):
            own.lerp_(new, 1 - DECAY)
        for own, new in zip(self.model.buffers(), model.buffers()):
            own.copy_(new)


@torch.no_grad()
def evaluate(model, images):
    return model(images.cuda()).softmax(1).max(1).values.mean().item()


def main():
    torch.manual_seed(3)
    model = ResNet()
    torch.save(model.state_dict(), PATH)
    model.load_state_dict(torch.load(PATH))
    model = model.cuda()
    average = MovingAverage(model)
    optimizer = torch.optim.SGD(
        [{"params": model.blocks.parameters()}, {"params": model.stem.parameters(), "lr": 0.02},
         {"params": model.head.parameters(), "weight_decay": 0.0}],
        lr=0.1, momentum=0.9, weight_decay=1e-3)
    loader = DataLoader(pictures(64, seed=1), batch_size=16, shuffle=True)
    for step, (images, labels) in enumerate(loader):
        images, labels = images.cuda(), labels.cuda()
        model.train()
        loss = F.cross_entropy(model(images), labels, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update(model)
        if step % 2:
            torch.save({"model": model.state_dict(), "average": average.model.state_dict(),
                        "optimizer": optimizer.state_dict(), "step": step}, f"after_{step}.pt")
        print("step", step + 1, "loss", loss.item(), "sure", evaluate(average.model, images))


if __name__ == "__main__":
    main()
