"""Learn to learn sine waves, through the gradient of a gradient: python maml.py"""
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call


def main():
    torch.manual_seed(19)
    model = nn.Sequential(nn.Linear(1, 24), nn.Softplus(), nn.Linear(24, 24), nn.Softplus(), nn.Linear(24, 1)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(4):
        losses = []
        for _ in range(3):
            height, shift = torch.rand(2, device="cuda").unbind()
            x = torch.rand(20, 1, device="cuda") * 6 - 3
            y = (height + 0.5) * torch.sin(x + shift)
            weights = dict(model.named_parameters())
            inner = F.mse_loss(functional_call(model, weights, (x[:10],)), y[:10])
            gradients = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
            moved = {name: weight - 0.05 * each for (name, weight), each in zip(weights.items(), gradients)}
            losses.append(F.mse_loss(functional_call(model, moved, (x[10:],)), y[10:]))
        loss = torch.stack(losses).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("loss", loss.item())


if __name__ == "__main__":
    main()
