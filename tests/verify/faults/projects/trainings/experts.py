"""Train a mixture of experts in bfloat16: python experts.py"""
import torch
import torch.nn.functional as F
from torch import nn


class Experts(nn.Module):
    def __init__(self, width=32, many=4):
        super().__init__()
        self.gate = nn.Linear(width, many, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(width, 48), nn.GELU(), nn.Linear(48, width)) for _ in range(many))

    def forward(self, x):
        flat = x.flatten(0, 1)
        chances = self.gate(flat).float().softmax(-1)
        weights, chosen = chances.topk(2, dim=-1)
        weights = (weights / weights.sum(-1, keepdim=True)).to(flat.dtype)
        out = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            rows, which = torch.where(chosen == number)
            if rows.numel():
                out.index_add_(0, rows, (expert(flat[rows]) * weights[rows, which, None]).to(out.dtype))
        share = F.one_hot(chosen[:, 0], len(self.experts)).float().mean(0)
        return out.view_as(x), len(self.experts) * (share * chances.mean(0)).sum()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.norm = nn.Embedding(30, 32), nn.LayerNorm(32)
        self.experts, self.head = Experts(), nn.Linear(32, 30)

    def forward(self, words):
        x = self.embed(words)
        mixed, balance = self.experts(self.norm(x))
        return self.head(x + mixed), balance


def main():
    torch.manual_seed(16)
    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    for _ in range(4):
        words = torch.randint(0, 30, (8, 13)).cuda()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits, balance = model(words[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), words[:, 1:].flatten()) + 0.01 * balance
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("loss", loss.item())


if __name__ == "__main__":
    main()
