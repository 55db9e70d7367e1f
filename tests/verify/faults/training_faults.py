"""Trainings of today's kinds, and faults in what surrounds a model: optimizers, schedules, averages, scales, data."""

from __future__ import annotations

from faults import ANY, Fault, Subject, edited

PROJECT = "tests/verify/faults/projects/trainings"
# Without gnn.py: the NPU has no product of a sparse matrix (docs/emulator.md), so there is nothing to compare.
TRAININGS = {
    "byol": 4, "contrast": 4, "ctc": 4, "detector": 4, "diffusion": 4, "dqn": 4, "experts": 4, "flow": 4, "generation": 4,
    "lora": 4, "maml": 4, "nerf": 4, "ppo": 4, "sac": 6, "segmentation": 4, "sounds": 4, "swa": 4, "translation": 4,
    "vae": 4, "wgan": 6,
}  # fmt: skip
SUBJECTS = {f"training {name}": Subject(PROJECT, (f"{name}.py",), steps=steps) for name, steps in TRAININGS.items()}


def in_training(name: str, training: str, step: int, module: str | None, cause: str, old: str, new: str) -> Fault:
    """A fault in the file of a training."""
    return edited(name, f"training {training}", step, module, cause, f"{training}.py", old, new)


OPTIMIZER, RATE, SCALE = "optimizer computed otherwise", "other learning rate", "other loss scale"
FACTOR, STATE, DRAW = "gradients scaled otherwise", "weights kept otherwise", "different random draw"
OPERATOR, DATA, ORDER = "operator computed otherwise", "other data", "other data order"

FAULTS = (
    # Optimizers.
    in_training("alpha of RMSprop", "segmentation", 1, None, OPTIMIZER, "alpha=0.99", "alpha=0.98"),
    in_training("alpha of centered RMSprop", "dqn", 1, None, OPTIMIZER, "alpha=0.95", "alpha=0.9"),
    in_training("second moment of Adam", "translation", 1, None, OPTIMIZER, "(0.9, 0.98)", "(0.9, 0.999)"),
    in_training("eps of Adam", "vae", 1, None, OPTIMIZER, "eps=1e-8", "eps=1e-2"),
    in_training("weight decay in the gradient", "lora", 1, None, OPTIMIZER, "AdamW(", "Adam("),
    in_training("NAdam without Nesterov", "nerf", 1, None, OPTIMIZER, "NAdam(", "Adam("),
    in_training("plain momentum", "ctc", 1, None, OPTIMIZER, ", nesterov=True", ""),
    in_training("second moment under autocast", "experts", 1, None, OPTIMIZER, "lr=1e-3,", "lr=1e-3, betas=(0.9, 0.95),"),
    in_training("small weight decay lost", "byol", 1, None, OPTIMIZER, ", weight_decay=1e-4", ""),
    in_training("second moment of a generator", "wgan", 3, None, OPTIMIZER, "(generator.parameters(), lr=2e-4, betas=(0.5, 0.9))", "(generator.parameters(), lr=2e-4, betas=(0.5, 0.99))"),
    in_training("decay that the code ignores", "sounds", 1, ANY, OPTIMIZER, 'each.grad + group["weight_decay"] * each', "each.grad"),
    # Schedulers.
    in_training("half the period of a cosine", "vae", 2, None, RATE, "T_max=8", "T_max=4"),
    in_training("longer rise of one cycle", "contrast", 2, None, RATE, "pct_start=0.5", "pct_start=0.75"),
    in_training("schedule forgotten", "flow", 3, None, RATE, "scheduler.step()", "pass"),
    in_training("shorter warm-up", "translation", 1, None, RATE, "40 **", "30 **"),
    # Averaged weights.
    in_training("faster average", "diffusion", 2, ANY, STATE, "1 - 0.99", "1 - 0.9"),
    in_training("teacher follows a step late", "byol", 1, ANY, STATE, "        optimizer.step()\n        follow(teacher, student)", "        follow(teacher, student)\n        optimizer.step()"),
    in_training("target network not moved", "dqn", 2, ANY, STATE, "0.1 * new.data + 0.9 * own.data", "own.data"),
    in_training("faster average in a dictionary", "sounds", 2, ANY, STATE, "decay=0.98", "decay=0.95"),
    # Loss scales and clipping.
    in_training("scale renewed a step late", "diffusion", 3, None, SCALE, "growth_interval=2", "growth_interval=3"),
    in_training("clipped while scaled", "diffusion", 1, None, FACTOR, "scaler.unscale_(optimizer)", "pass"),
    in_training("clipped to half", "generation", 1, None, FACTOR, "clip_grad_norm_(model.parameters(), 1.0)", "clip_grad_norm_(model.parameters(), 0.5)"),
    in_training("values clipped, not the norm", "translation", 1, None, FACTOR, "clip_grad_norm_(model.parameters(), 0.7)", "clip_grad_value_(model.parameters(), 0.01)"),
    in_training("clipped at each backward pass", "sounds", 1, None, FACTOR, "            count += 1\n", "            nn.utils.clip_grad_norm_(model.parameters(), 0.1)\n            count += 1\n"),
    in_training("clipped after the step", "sounds", 1, None, FACTOR, "                nn.utils.clip_grad_norm_(model.parameters(), 0.1)\n                optimizer.step()", "                optimizer.step()\n                nn.utils.clip_grad_norm_(model.parameters(), 0.1)"),
    # Samplers and the order of data.
    in_training("batches in their order", "ppo", 1, None, DRAW, "torch.randperm(len(states), device=device)", "torch.arange(len(states), device=device)"),
    in_training("generator of the loader lost", "contrast", 1, None, DRAW, ", generator=torch.Generator().manual_seed(7))", ")"),
    in_training("drawn without weights", "segmentation", 1, "Segmenter", DATA, "torch.rand(64, generator=generator), 64", "torch.rand(64, generator=generator) ** 0, 64"),
    in_training("shortest sample first", "ctc", 1, "Recogniser", ORDER, "key=lambda each: -len(each[0])", "key=lambda each: (-len(each[0]), each[0][0, 0].item())"),
    in_training("batches backwards", "generation", 1, "Llama", ORDER, "for batch in text:", "for batch in text.flip(0):"),
    in_training("replay of the newest", "dqn", 1, "QNetwork#1", DATA, "random.sample(memory, 32)", "random.sample(list(memory)[-33:], 32)"),
    # Where dropout is.
    in_training("dropout before the norm", "translation", 1, "Translator", OPERATOR, "self.dropout(self.norm(self.embed(words) + self.places(places)))", "self.norm(self.dropout(self.embed(words) + self.places(places)))"),
    in_training("dropout after the matrix", "lora", 1, "Encoder.layers.0.linear1", OPERATOR, "F.linear(F.linear(self.dropout(x), self.a), self.b)", "F.linear(self.dropout(F.linear(x, self.a)), self.b)"),
    in_training("dropout of elements, not channels", "segmentation", 1, "Segmenter.dropout", DRAW, "nn.Dropout2d(0.2)", "nn.Dropout(0.2)"),
)  # fmt: skip
