"""peft: low-rank adapters of a random Llama, trained, stored, loaded and merged on the emulated NPU."""

import copy

import peft
import pytest
import torch
import transformers
from torch.testing import assert_close


def base_model():
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=96,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    return transformers.AutoModelForCausalLM.from_config(config)


def tokens():
    return torch.randint(0, 96, (2, 12), generator=torch.Generator().manual_seed(1))


def adapted(**kwargs):
    settings = peft.LoraConfig(r=4, lora_alpha=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM", **kwargs)
    return peft.get_peft_model(base_model(), settings)


def train(model, ids, steps=5):
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    losses = []
    for _ in range(steps):
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@pytest.fixture
def trained():
    model = adapted().to("npu")
    train(model, tokens().to("npu"))
    return model.eval()


@pytest.mark.parametrize("use_dora", [False, True], ids=["lora", "dora"])
def test_training_equals_the_cpu_and_leaves_the_base_model(use_dora):
    on_cpu = adapted(use_dora=use_dora)
    on_npu = copy.deepcopy(on_cpu).to("npu")
    expected, losses = train(on_cpu, tokens()), train(on_npu, tokens().to("npu"))
    assert losses[-1] < losses[0]
    assert losses == pytest.approx(expected, rel=1e-4)
    assert_close(
        dict(on_npu.named_parameters()), dict(on_cpu.named_parameters()), check_device=False, rtol=1e-3, atol=1e-4
    )
    assert_close(on_npu.unload().cpu().state_dict(), base_model().state_dict(), rtol=0, atol=0)


def test_merged_model_computes_what_the_adapted_did(trained):
    ids = tokens().to("npu")
    logits = trained(input_ids=ids).logits
    with trained.disable_adapter():
        plain = trained(input_ids=ids).logits
    merged = trained.merge_and_unload()
    assert not isinstance(merged, peft.PeftModel)
    assert not [name for name, _ in merged.named_modules() if "lora" in name]
    assert (logits - plain).abs().max() > 0.01
    assert_close(merged(input_ids=ids).logits, logits, rtol=1e-4, atol=1e-5)


def test_adapters_are_saved_and_loaded(trained, tmp_path):
    trained.save_pretrained(tmp_path)
    assert (tmp_path / "adapter_model.safetensors").is_file()
    loaded = peft.PeftModel.from_pretrained(base_model().to("npu"), tmp_path).eval()
    assert {p.device.type for p in loaded.parameters()} == {"npu"}
    assert_close(dict(loaded.named_parameters()), dict(trained.named_parameters()), rtol=0, atol=0)
    ids = tokens().to("npu")
    assert_close(loaded(input_ids=ids).logits, trained(input_ids=ids).logits, rtol=0, atol=0)
