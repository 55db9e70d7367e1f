"""Train a small BERT from random weights to classify sequences, in float16 with a loss scale: python bert.py"""
import vision  # before what imports torchvision
import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup


def sentences(number, length, words):
    tokens = torch.randint(5, words, (number, length))
    lengths = torch.randint(length // 2, length + 1, (number,))
    mask = (torch.arange(length) < lengths[:, None]).long()
    return TensorDataset(tokens * mask, mask, (tokens[:, 0] % 2).long())


def main():
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = BertConfig(vocab_size=99, hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96)
    model = BertForSequenceClassification(config).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = get_linear_schedule_with_warmup(optimizer, 2, 10)
    scaler = torch.cuda.amp.GradScaler(init_scale=1024.0)
    loader = DataLoader(sentences(32, 12, config.vocab_size), batch_size=8, shuffle=True, pin_memory=True)
    model.train()
    for tokens, mask, labels in loader:
        batch = {"input_ids": tokens, "attention_mask": mask, "labels": labels}
        batch = {name: each.to(device, non_blocking=True) for name, each in batch.items()}
        with torch.cuda.amp.autocast(dtype=torch.float16):
            loss = model(**batch).loss
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        print("loss", loss.item())


if __name__ == "__main__":
    main()
