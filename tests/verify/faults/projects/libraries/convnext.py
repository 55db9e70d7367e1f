"""Train timm's smallest ConvNeXt with its optimizer, loss and moving average of weights: python convnext.py"""
import vision  # before what imports torchvision
import timm
import torch
from timm.loss import LabelSmoothingCrossEntropy
from timm.optim import create_optimizer_v2
from timm.utils import ModelEmaV2


def main():
    torch.manual_seed(4)
    model = timm.create_model("convnext_atto", num_classes=4, drop_path_rate=0.1, depths=(1, 1, 1, 1), dims=(8, 16, 24, 32))
    model = model.cuda()
    average = ModelEmaV2(model, decay=0.9)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
    criterion = LabelSmoothingCrossEntropy(0.1).cuda()
    for step in range(3):
        images = torch.randn(8, 3, 64, 64).cuda(non_blocking=True)
        targets = torch.randint(0, 4, (8,)).cuda(non_blocking=True)
        model.train()
        loss = criterion(model(images), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update(model)
        with torch.no_grad():
            sure = average.module.eval()(images).softmax(-1).amax(-1).mean()
        print("step", step, "loss", loss.item(), "sure", sure.item())


if __name__ == "__main__":
    main()
