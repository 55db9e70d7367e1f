"""Train a small ViT from random weights, and evaluate it after each epoch: python vit.py"""
import vision  # before what imports torchvision
import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import ViTConfig, ViTForImageClassification


def main():
    torch.manual_seed(3)
    config = ViTConfig(hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, image_size=16,
                       patch_size=4, num_labels=3, hidden_dropout_prob=0.1)
    model = ViTForImageClassification(config).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    pictures, labels = torch.randn(16, 3, 16, 16), torch.randint(0, 3, (16,))
    loader = DataLoader(TensorDataset(pictures, labels), batch_size=8, shuffle=True)
    for epoch in range(2):
        model.train()
        for images, targets in loader:
            outputs = model(pixel_values=images.cuda(), labels=targets.cuda())
            optimizer.zero_grad()
            outputs.loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            right = sum((model(images.cuda()).logits.argmax(-1).cpu() == targets).sum() for images, targets in loader)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "vit.pt")
        print("epoch", epoch, "right", int(right))


if __name__ == "__main__":
    main()
