"""Hugging Face transformers: small random models on the emulated NPU do what they do on the CPU."""

import copy
import functools

import pytest
import torch
import transformers
from torch.testing import assert_close
from transformers.utils import is_torch_npu_available

TEXT = {"vocab_size": 96, "bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0}


def bert(**kwargs):
    config = transformers.BertConfig(
        vocab_size=96,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return transformers.AutoModelForSequenceClassification.from_config(config, **kwargs)


def gpt2(**kwargs):
    config = transformers.GPT2Config(
        n_embd=32, n_layer=2, n_head=4, n_positions=64, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **TEXT
    )
    return transformers.AutoModelForCausalLM.from_config(config, **kwargs)


def llama(**kwargs):
    config = transformers.LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        **TEXT,
    )
    return transformers.AutoModelForCausalLM.from_config(config, **kwargs)


def vit(**kwargs):
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8
    )
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    return transformers.AutoModelForImageClassification.from_config(config, **kwargs)


def whisper(**kwargs):
    """Whisper-tiny's four layers of six heads on both sides, narrow and with a short window of sound."""
    config = transformers.WhisperConfig(
        d_model=48,
        encoder_layers=4,
        decoder_layers=4,
        encoder_attention_heads=6,
        decoder_attention_heads=6,
        encoder_ffn_dim=96,
        decoder_ffn_dim=96,
        max_source_positions=50,
        max_target_positions=32,
        decoder_start_token_id=2,
        suppress_tokens=None,
        begin_suppress_tokens=None,
        **TEXT,
    )
    return transformers.AutoModelForSpeechSeq2Seq.from_config(config, **kwargs)


def tokens(*shape):
    return torch.randint(3, 96, shape)


def padded():
    """Sentences of 12 and 9 tokens."""
    mask = torch.ones(2, 12, dtype=torch.long)
    mask[1, 9:] = 0
    return {"input_ids": tokens(2, 12) * mask, "attention_mask": mask}


def sound():
    return {"input_features": torch.randn(2, 80, 100)}


def classified(inputs):
    return {**inputs, "labels": torch.tensor([0, 1])}


def continued(inputs):
    return {**inputs, "labels": inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)}


SAMPLES = {
    bert: lambda: classified(padded()),
    gpt2: lambda: continued(padded()),
    llama: lambda: continued(padded()),
    vit: lambda: classified({"pixel_values": torch.randn(2, 3, 32, 32)}),
    whisper: lambda: {**sound(), "labels": tokens(2, 10)},
}
PROMPTS = {gpt2: lambda: {"input_ids": tokens(2, 6)}, llama: lambda: {"input_ids": tokens(2, 6)}, whisper: sound}

each_model = pytest.mark.parametrize("make", SAMPLES, ids=lambda make: make.__name__)
each_generator = pytest.mark.parametrize("make", PROMPTS, ids=lambda make: make.__name__)


def to_npu(inputs):
    return {name: value.to("npu") for name, value in inputs.items()}


def test_transformers_finds_the_npu_by_itself():
    assert is_torch_npu_available(check_device=True)
    assert transformers.TrainingArguments(output_dir="unused").device.type == "npu"


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@each_model
def test_training_equals_the_cpu(make, attention, same_training):
    model = make(attn_implementation=attention)
    assert model.config._attn_implementation == attention
    same_training(model, SAMPLES[make]())


@each_generator
def test_greedy_generation_equals_the_cpu(make):
    model, prompt = make().eval(), PROMPTS[make]()
    settings = {"max_new_tokens": 8, "min_new_tokens": 8, "do_sample": False}
    expected = model.generate(**prompt, **settings)
    generated = model.to("npu").generate(**to_npu(prompt), **settings)
    assert generated.device.type == "npu"
    assert generated.tolist() == expected.tolist()


@pytest.mark.parametrize("settings", [{"num_beams": 3}, {"use_cache": False}], ids=["beams", "no cache"])
def test_other_greedy_searches_equal_the_cpu(settings):
    model, prompt = llama().eval(), PROMPTS[llama]()
    settings = {"max_new_tokens": 6, "do_sample": False, **settings}
    expected = model.generate(**prompt, **settings).tolist()
    assert model.to("npu").generate(**to_npu(prompt), **settings).tolist() == expected


@each_generator
def test_sampling_repeats_with_the_seed(make):
    model, prompt = make().eval().to("npu"), to_npu(PROMPTS[make]())

    def sample(seed):
        torch.npu.manual_seed(seed)
        return model.generate(**prompt, max_new_tokens=8, do_sample=True, top_k=20, top_p=0.9, temperature=1.5).tolist()

    assert sample(1) == sample(1)
    assert sample(1) != sample(2)


@each_model
def test_bfloat16_autocast(make):
    model, inputs = make(), SAMPLES[make]()
    expected = model(**inputs)
    model = copy.deepcopy(model).to("npu")
    with torch.autocast("npu", dtype=torch.bfloat16):
        output = model(**to_npu(inputs))
    assert output.logits.dtype is torch.bfloat16
    assert_close(output.loss, expected.loss, rtol=0.02, atol=0.02, check_device=False, check_dtype=False)
    output.loss.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert {gradient.dtype for gradient in gradients} == {torch.float32}
    assert all(torch.isfinite(gradient).all() for gradient in gradients)


def test_flash_attention_takes_torch_npus_fused_operator():
    """transformers' own NPU path (integrations/npu_flash_attention.py) calls `torch_npu.npu_fusion_attention`."""
    model, inputs = llama(), SAMPLES[llama]()
    expected = model(**inputs)
    expected.loss.backward()
    fused = copy.deepcopy(model).to("npu", torch.bfloat16)
    fused.zero_grad()
    fused.set_attn_implementation("flash_attention_2")
    output = fused(**to_npu(inputs))
    output.loss.backward()
    assert_close(output.loss, expected.loss, rtol=0.02, atol=0.02, check_device=False, check_dtype=False)
    actual = fused.model.layers[0].self_attn.q_proj.weight.grad.float().cpu().flatten()
    wanted = model.model.layers[0].self_attn.q_proj.weight.grad.flatten()
    assert torch.cosine_similarity(actual, wanted, dim=0) > 0.98


class Sentences(torch.utils.data.Dataset):
    def __init__(self):
        self.ids = tokens(12, 10)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        return {"input_ids": self.ids[index], "labels": self.ids[index]}


def test_trainer_picks_the_npu_and_trains_as_on_the_cpu(tmp_path):
    model, sentences = gpt2(), Sentences()

    def train(**settings):
        arguments = transformers.TrainingArguments(
            output_dir=tmp_path / str(len(settings)),
            max_steps=3,
            per_device_train_batch_size=2,
            logging_steps=1,
            report_to=[],
            save_steps=3,
            disable_tqdm=True,
            **settings,
        )
        trainer = transformers.Trainer(copy.deepcopy(model), arguments, train_dataset=sentences)
        trainer.train()
        return trainer, [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]

    on_cpu, expected = train(use_cpu=True)
    on_npu, losses = train()
    assert on_cpu.model.device.type == "cpu"
    assert on_npu.model.device.type == "npu"
    assert len(losses) == 3
    assert losses == pytest.approx(expected, rel=1e-4)
    assert_close(on_npu.model.state_dict(), on_cpu.model.state_dict(), check_device=False, rtol=1e-3, atol=1e-5)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(on_npu.args.output_dir + "/checkpoint-3").to("npu")
    assert_close(loaded.state_dict(), on_npu.model.state_dict())


def test_the_fused_optimizer_of_torch_npu(tmp_path):
    """`optim="adamw_torch_npu_fused"` is `torch_npu.optim.NpuFusedAdamW`, whose gradients have to stay where they are.

    `Trainer` sets them to None through `model.zero_grad()`. By its Python code, torch_npu 2.13 would go on with those
    of the first step; here that is an error. With a model that fills them with zeros it is AdamW.
    """
    model, sentences = gpt2(), Sentences()

    def train(optim, filling):
        arguments = transformers.TrainingArguments(
            output_dir=tmp_path / optim, max_steps=4, per_device_train_batch_size=2, logging_steps=1, report_to=[],
            save_strategy="no", disable_tqdm=True, optim=optim, weight_decay=0.1, max_grad_norm=0.0,
        )  # fmt: skip
        own = copy.deepcopy(model)
        if filling:
            own.zero_grad = functools.partial(own.zero_grad, set_to_none=False)
        trainer = transformers.Trainer(own, arguments, train_dataset=sentences)
        trainer.train()
        optimizer = trainer.optimizer
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        return type(getattr(optimizer, "optimizer", optimizer)).__name__, losses

    plain, expected = train("adamw_torch", False)
    fused, losses = train("adamw_torch_npu_fused", True)
    assert (plain, fused) == ("AdamW", "NpuFusedAdamW")
    assert losses == pytest.approx(expected, rel=1e-4)
    with pytest.raises(RuntimeError, match="a gradient left the combined memory"):
        train("adamw_torch_npu_fused", False)
