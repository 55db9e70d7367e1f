"""Fine-tune a frozen encoder by small matrices beside its layers: python lora.py"""
import torch
import torch.nn.functional as F
from torch import nn


class Lora(nn.Module):
    def __init__(self, layer, rank=4, dropout=0.1):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, layer.in_features) * 0.1)
        self.b = nn.Parameter(torch.randn(layer.out_features, rank) * 0.1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.layer(x) + 2.0 * F.linear(F.linear(self.dropout(x), self.a), self.b)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, 32)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(32, 4, 64, 0.1, batch_first=True, norm_first=True) for _ in range(2))
        self.head = nn.Linear(32, 2)

    def forward(self, words, hidden):
        x = self.embed(words)
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=hidden)
        return self.head(x.mean(1))


def main():
    torch.manual_seed(17)
    model = Encoder().requires_grad_(False)
    for layer in model.layers:
        layer.linear1, layer.linear2 = Lora(layer.linear1), Lora(layer.linear2)
    model.head.requires_grad_(True)
    model = model.cuda()
    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=5e-3, weight_decay=0.1)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=4)
    words = torch.randint(1, 40, (64, 10), generator=torch.Generator().manual_seed(2))
    for batch in words.split(16):
        batch = batch.cuda()
        loss = F.cross_entropy(model(batch, batch > 35), batch[:, 0] % 2)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
        print("loss", loss.item())
    torch.save({name: each for name, each in model.state_dict().items() if "a" in name}, "lora.pt")


if __name__ == "__main__":
    main()
