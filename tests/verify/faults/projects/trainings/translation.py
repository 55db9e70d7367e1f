"""Train an encoder and a decoder with a warm-up, over gradients of two batches: python translation.py"""
import torch
from torch import nn

PAD = 0


class Translator(nn.Module):
    def __init__(self, words=30, width=32):
        super().__init__()
        self.embed, self.places = nn.Embedding(words, width, padding_idx=PAD), nn.Embedding(20, width)
        self.dropout = nn.Dropout(0.1)
        self.norm = nn.LayerNorm(width)
        self.transformer = nn.Transformer(width, 4, 1, 1, 64, 0.1, batch_first=True)
        self.head = nn.Linear(width, words)

    def embedded(self, words):
        places = torch.arange(words.shape[1], device=words.device)
        return self.dropout(self.norm(self.embed(words) + self.places(places)))

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], device=target.device)
        hidden = self.transformer(self.embedded(source), self.embedded(target), tgt_mask=mask, tgt_is_causal=True,
                                  src_key_padding_mask=source == PAD, memory_key_padding_mask=source == PAD)
        return self.head(hidden)


def pairs(number):
    generator = torch.Generator().manual_seed(9)
    for _ in range(number):
        source = torch.randint(1, 30, (8, 9), generator=generator)
        source[::3, 7:] = PAD
        yield source, source.flip(1)


def main():
    torch.manual_seed(23)
    model = Translator().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 32 ** -0.5 * min((step + 1) ** -0.5, (step + 1) * 40 ** -1.5))
    criterion = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)
    for number, (source, target) in enumerate(pairs(8)):
        source, target = source.cuda(), target.cuda()
        loss = criterion(model(source, target[:, :-1]).transpose(1, 2), target[:, 1:])
        (loss / 2).backward()
        if number % 2 == 0:
            continue
        nn.utils.clip_grad_norm_(model.parameters(), 0.7)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        print("loss", loss.item())


if __name__ == "__main__":
    main()
