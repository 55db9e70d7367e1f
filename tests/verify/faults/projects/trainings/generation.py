"""Train a small Llama in bfloat16 and let it write after each step: python generation.py"""
import torch
import torch.nn.functional as F
from torch import nn

WORDS, WIDTH, HEADS, KEYS = 40, 32, 4, 2


def rotated(x, start):
    half = x.shape[-1] // 2
    places = torch.arange(start, start + x.shape[-2], device=x.device, dtype=torch.float32)
    angles = torch.outer(places, 10000 ** (-torch.arange(half, device=x.device) / half))
    cos, sin = angles.cos().repeat(1, 2).to(x.dtype), angles.sin().repeat(1, 2).to(x.dtype)
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        size = WIDTH // HEADS
        self.q, self.k, self.v = (nn.Linear(WIDTH, size * many, bias=False) for many in (HEADS, KEYS, KEYS))
        self.o = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x, cache=None):
        q, k, v = (layer(x).view(*x.shape[:2], -1, WIDTH // HEADS).transpose(1, 2) for layer in (self.q, self.k, self.v))
        start = cache[0].shape[2] if cache else 0
        q, k = rotated(q, start), rotated(k, start)
        if cache:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        many = HEADS // KEYS
        out = F.scaled_dot_product_attention(q, k.repeat_interleave(many, 1), v.repeat_interleave(many, 1), is_causal=not start)
        return self.o(out.transpose(1, 2).flatten(2)), (k, v)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.first, self.second = Attention(), nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.gate, self.up, self.down = nn.Linear(WIDTH, 64), nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)

    def forward(self, x, cache=None):
        mixed, cache = self.attention(self.first(x), cache)
        x = x + mixed
        hidden = self.second(x)
        return x + self.down(F.silu(self.gate(hidden)) * self.up(hidden)), cache


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.norm, self.head = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, words, caches=(None, None)):
        x, stored = self.embed(words), []
        for layer, cache in zip(self.layers, caches):
            x, cache = layer(x, cache)
            stored.append(cache)
        return self.head(self.norm(x)), stored

    @torch.no_grad()
    def generate(self, words, many):
        logits, caches = self(words)
        for _ in range(many):
            chances = (logits[:, -1].float() / 0.8).softmax(-1)
            following = torch.multinomial(chances, 1)
            words = torch.cat([words, following], 1)
            logits, caches = self(following, caches)
        return words


def main():
    torch.manual_seed(10)
    model = Llama().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.95), weight_decay=0.1)
    text = (torch.arange(4 * 4 * 17) * 7 % 31 + torch.arange(4 * 4 * 17) // 50).view(4, 4, 17)
    for batch in text:
        batch = batch.cuda()
        with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
            logits, _ = model(batch[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        model.eval()
        print("loss", loss.item(), "norm", norm.item(), model.generate(batch[:1, :4], 6).tolist())
        model.train()


if __name__ == "__main__":
    main()
