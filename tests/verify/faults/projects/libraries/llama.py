"""Train a small Llama from random weights in bfloat16, with gradients of two batches: python llama.py"""
import vision  # before what imports torchvision
import torch
from transformers import LlamaConfig, LlamaForCausalLM


def main():
    torch.manual_seed(2)
    torch.cuda.set_device(0)
    config = LlamaConfig(vocab_size=64, hidden_size=48, intermediate_size=96, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, attention_dropout=0.1)
    model = LlamaForCausalLM(config).cuda()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, fused=torch.cuda.is_available())
    model.train()
    for step in range(3):
        optimizer.zero_grad()
        for _ in range(2):
            tokens = torch.randint(0, config.vocab_size, (4, 16), device="cuda")
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss / 2
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print("step", step, "loss", loss.item())


if __name__ == "__main__":
    main()
