"""Train with mixed-up samples, then average weights: python swa.py"""
import numpy as np
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, SWALR, update_bn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.Hardswish(), nn.MaxPool2d(2), nn.Flatten())
        self.dropout, self.head = nn.Dropout(0.3), nn.Linear(72, 5)

    def forward(self, x):
        return self.head(self.dropout(self.body(x)))


def main():
    torch.manual_seed(22)
    np.random.seed(3)
    generator = torch.Generator().manual_seed(8)
    data = TensorDataset(torch.rand(64, 1, 8, 8, generator=generator), torch.randint(0, 5, (64,), generator=generator))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = Net().cuda()
    averaged = AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = SWALR(optimizer, swa_lr=0.02, anneal_epochs=4)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    model.train()
    for picture, label in loader:
        picture, label = picture.cuda(), label.cuda()
        share = np.random.beta(0.4, 0.4)
        order = torch.randperm(len(picture), device=picture.device)
        output = model(share * picture + (1 - share) * picture[order])
        loss = share * criterion(output, label) + (1 - share) * criterion(output, label[order])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        averaged.update_parameters(model)
        scheduler.step()
        print("loss", loss.item())
    update_bn(loader, averaged, device="cuda")
    averaged.eval()
    print(averaged(data.tensors[0].cuda()).argmax(1).sum().item())


if __name__ == "__main__":
    main()
