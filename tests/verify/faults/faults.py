"""The faults that `gpu2npu verify` has to find: each is put alone into the migrated copy, or into a NumPy kernel."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Subject:
    """A project that faults are put into: a folder of the repository, and what trains it.

    `reduced` are the families of operators for which the NPU takes HF32, and `environment` variables of all its runs.
    The original is `original_ranks` processes, and the copy `ranks`; "{rank}" in the command is the number of one. Each
    has as many cards as the copy has processes, unless `cards` says otherwise. It is compared for `steps` steps.
    `package` is one that it imports and that may be missing.
    """

    project: str
    command: tuple[str, ...]
    reduced: tuple[str, ...] = ("conv",)
    environment: dict[str, str] = field(default_factory=dict)
    original_ranks: int = 1
    ranks: int = 1
    cards: int = 0
    steps: int = 4
    package: str = "torch"


MNIST = "fixtures/mnist_cnn"
MNIST_COMMAND = ("train.py", "--train-size", "160", "--dropout", "0.2")
GPT_COMMAND = ("train.py", "--dropout=0.1", "--grad_accumulation=2", "--grad_clip=0.5", "--eval_interval=2")
LIBRARIES = "tests/verify/faults/projects/libraries"
SUBJECTS = {
    "mnist": Subject(MNIST, MNIST_COMMAND, ("conv",)),
    "exact": Subject(MNIST, MNIST_COMMAND, (), {"GPU2NPU_CONV_HF32": "0"}),  # for faults that HF32 would hide
    "gpt": Subject("fixtures/char_gpt", GPT_COMMAND, ("conv", "matmul")),  # automatic mixed precision in float16
    "gan": Subject("fixtures/gan", ("main.py",), ("conv",)),
    "tagger": Subject("tests/verify/faults/projects/tagger", ("train.py",), ("conv",)),
    "averaged": Subject("tests/verify/faults/projects/averaged", ("train.py",), ("conv",)),
    "normalized": Subject("tests/verify/faults/projects/normalized", ("train.py",), ("conv",)),
    "bert": Subject(LIBRARIES, ("bert.py",), package="transformers"),
    "llama": Subject(LIBRARIES, ("llama.py",), steps=3, package="transformers"),
    "vit": Subject(LIBRARIES, ("vit.py",), package="transformers"),
    "convnext": Subject(LIBRARIES, ("convnext.py",), steps=3, package="timm"),
    "unet": Subject(LIBRARIES, ("unet.py",), steps=3, package="diffusers"),
}


ANY = "*"


@dataclass(frozen=True)
class Fault:
    """One fault, and where it is to be found.

    `edits` are a file of the copy, a text in it and what takes its place. `kernel` is the body of a Python function of
    `right`, the kernel that is replaced, `args` and `kwargs`, for the operator `operator`. `step` counts from 1; `module`
    is None for a fault of the training loop, and ANY for one that changes what happens to all modules alike, which rounding
    may hide in some; `cause` are the words of the verdict.
    """

    name: str
    subject: str
    step: int
    module: str | None
    cause: str
    edits: tuple[tuple[str, str, str], ...] = ()
    operator: str = ""
    kernel: str = ""


def edited(name: str, subject: str, step: int, module: str | None, cause: str, file: str, old: str, new: str) -> Fault:
    """A fault in the copy."""
    return Fault(name, subject, step, module, cause, edits=((file, old, new),))


def in_model(name: str, module: str | None, cause: str, old: str, new: str, subject: str = "mnist") -> Fault:
    """A fault in model.py, to be found at the first step."""
    return edited(name, subject, 1, module, cause, "model.py", old, new)


def in_training(
    name: str, step: int, module: str | None, cause: str, old: str, new: str, subject: str = "mnist"
) -> Fault:
    """A fault in train.py."""
    return edited(name, subject, step, module, cause, "train.py", old, new)


def in_kernel(
    name: str, module: str | None, cause: str, operator: str, kernel: str, subject: str = "mnist", step: int = 1
) -> Fault:
    """A fault in a NumPy kernel."""
    return Fault(name, subject, step, module, cause, operator=operator, kernel=kernel)


def in_gpt(name: str, step: int, module: str | None, cause: str, file: str, old: str, new: str) -> Fault:
    """A fault in the GPT's package."""
    return edited(
        name,
        "gpt",
        step,
        module if module in (None, ANY) else f"GPT.transformer.{module}",
        cause,
        f"chargpt/{file}.py",
        old,
        new,
    )


OPERATOR, OPTIMIZER = "operator computed otherwise", "optimizer computed otherwise"
DRAW, RETAINED, RATE = "different random draw", "gradients not zeroed", "other learning rate"
LOSS, LOSS_FACTOR = "loss computed otherwise", "loss averaged otherwise"
GRADIENT, FACTOR = "gradient computed otherwise", "gradients scaled otherwise"
MODE, DATA, ORDER = "training and evaluation mode", "other data", "other data order"
WEIGHTS = "other initial weights"
BRANCH, BUFFER, STATE = "dropped branch", "buffer kept otherwise", "weights kept otherwise"
PRECISION, SCALE = "other dtype", "other loss scale"
CHECKPOINT = "checkpoint written otherwise"

LOSS_LINE, BACKWARD = "F.nll_loss(output, target)\n", "loss.backward()"
SGD = "optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)"
CLIP = "nn.utils.clip_grad_norm_(model.parameters(), 0.5)"
FIRST, FC2 = "F.relu(self.bn1(self.conv1(x)))", "self.fc2 = nn.Linear(64, 10)"

FAULTS = (
    # The training loop.
    in_training("zero_grad lost", 2, None, RETAINED, "optimizer.zero_grad()", "pass"),
    in_training("zero_grad every other step", 2, None, RETAINED, "optimizer.zero_grad()", "step % 2 or optimizer.zero_grad()"),
    in_training("zero_grad after backward", 1, None, FACTOR, BACKWARD, "loss.backward(); optimizer.zero_grad(set_to_none=False)"),
    in_training("another seed", 1, None, DRAW, "manual_seed(args.seed)", "manual_seed(args.seed + 1)"),
    in_training("eval() in training", 1, "Net", MODE, "model.train()", "model.eval()"),
    in_training("loop ends after a batch", 2, None, DRAW, "if args.dry_run:", "if True:"),
    in_training("model called twice", 1, "Net", BRANCH, "output = model(data)\n        loss", "model(data); output = model(data)\n        loss"),
    # The loss.
    in_training("loss summed", 1, None, LOSS_FACTOR, LOSS_LINE, "F.nll_loss(output, target, reduction='sum')\n"),
    in_training("loss halved", 1, None, LOSS_FACTOR, LOSS_LINE, "F.nll_loss(output, target) / 2\n"),
    in_training("labels shifted", 1, None, LOSS, LOSS_LINE, "F.nll_loss(output, (target + 1) % 10)\n"),
    # Data.
    in_training("shuffle lost", 1, None, DRAW, "'shuffle': True", "'shuffle': False"),
    in_training("data scaled", 1, "Net", DATA, "output = model(data)", "output = model(data * 2)"),
    in_training("batch reversed", 1, "Net", ORDER, "output = model(data)", "output = model(data.flip(0))"),
    in_training("another data set", 1, None, DRAW, "args.train_size, seed=0", "args.train_size, seed=3"),
    in_training("half the batch", 1, "Net", "batch split otherwise", "'--batch-size', type=int, default=32", "'--batch-size', type=int, default=16"),
    # Optimizers and gradients.
    in_training("momentum lost", 1, None, OPTIMIZER, "momentum=0.9", "momentum=0.0"),
    in_training("Nesterov's momentum", 1, None, OPTIMIZER, "momentum=0.9", "momentum=0.9, nesterov=True"),
    in_training("more weight decay", 1, None, OPTIMIZER, "weight_decay=1e-4", "weight_decay=1e-1"),
    in_training("another optimizer", 1, None, OPTIMIZER, SGD, "optim.Adam(model.parameters(), lr=args.lr)"),
    in_training("a layer left out", 1, "Net.fc2", OPTIMIZER, "optim.SGD(model.parameters()", "optim.SGD(list(model.parameters())[:-2]"),
    in_training("another learning rate", 1, None, RATE, "lr=args.lr", "lr=args.lr * 1.1"),
    in_training("rate lowered in each step", 2, None, RATE, "step += 1", "step += 1; optimizer.param_groups[0]['lr'] *= 0.9"),
    in_training("gradients clipped", 1, None, FACTOR, BACKWARD, "loss.backward(); torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)"),
    in_training("gradients negated", 1, None, FACTOR, BACKWARD, "loss.backward(); [each.grad.neg_() for each in model.parameters()]"),
    in_training("gradients halved late", 4, None, FACTOR, BACKWARD, "loss.backward(); [each.grad.mul_(0.5) for each in model.parameters() if batch_idx == 3]"),
    in_training("one gradient zeroed", 1, "Net.fc1", GRADIENT, BACKWARD, "loss.backward(); model.fc1.weight.grad.zero_()"),
    in_training("frozen layer", 1, "Net.conv1", BRANCH, "    scheduler = ", "    model.conv1.requires_grad_(False)\n    scheduler = "),
    in_training("batch norm in evaluation", 1, "Net.bn1", OPERATOR, "model.train()", "model.train(); model.bn1.eval()"),
    # The model.
    in_model("average for maximum", "Net", OPERATOR, f"F.max_pool2d({FIRST}", f"F.avg_pool2d({FIRST}"),
    in_model("leaky relu", "Net", OPERATOR, FIRST, "F.leaky_relu(self.bn1(self.conv1(x)))", "exact"),
    in_model("gelu for relu", "Net", OPERATOR, "F.relu(self.fc1(x))", "F.gelu(self.fc1(x))"),
    in_model("flattened another way", "Net", OPERATOR, "torch.flatten(x, 1)", "torch.flatten(x.transpose(2, 3), 1)"),
    in_model("softmax over the batch", "Net", OPERATOR, "dim=1", "dim=0"),
    in_model("softmax without its logarithm", "Net", OPERATOR, "F.log_softmax", "F.softmax"),
    in_model("dropout forgotten", "Net.dropout", BRANCH, "self.dropout(F.relu(self.fc1(x)))", "F.relu(self.fc1(x))"),
    in_model("less dropout", "Net.dropout", OPERATOR, "nn.Dropout(dropout)", "nn.Dropout(dropout / 2)"),
    in_model("float16 before dropout", "Net", PRECISION, "self.dropout(F.relu(self.fc1(x)))", "self.dropout(F.relu(self.fc1(x)).half()).float()"),
    in_model("another eps", "Net.bn1", OPERATOR, "nn.BatchNorm2d(width)", "nn.BatchNorm2d(width, eps=0.1)"),
    in_model("running statistics faster", "Net.bn1", BUFFER, "nn.BatchNorm2d(width)", "nn.BatchNorm2d(width, momentum=0.3)"),
    in_model("no running statistics", "Net.bn1", BRANCH, "nn.BatchNorm2d(width)", "nn.BatchNorm2d(width, track_running_stats=False)"),
    in_model("weights scaled", "Net.fc2", WEIGHTS, FC2, f"{FC2}; self.fc2.weight.data.mul_(2)"),
    in_model("bias zeroed", "Net.fc2", WEIGHTS, FC2, f"{FC2}; self.fc2.bias.data.zero_()"),
    in_model("detached", "Net.bn1", BRANCH, FIRST, f"{FIRST}.detach()"),
    # Kernels.
    in_kernel("linear layers scaled", "Net.fc1", OPERATOR, "linear", "return right(*args, **kwargs) * np.float32(1.01)", "exact"),
    in_kernel("relu scaled", "Net", OPERATOR, "relu", "return right(*args, **kwargs) * np.float32(1.02)"),
    in_kernel("softmax shifted", "Net", OPERATOR, "_log_softmax", "return right(*args, **kwargs) + np.float32(0.01)", "exact"),
    in_kernel("gradient of relu", "Net", GRADIENT, "threshold_backward", "return right(*args, **kwargs) * np.float32(0.9)"),
    in_kernel("sign of the gradient of pooling", "Net", GRADIENT, "max_pool2d_with_indices_backward", "return -right(*args, **kwargs)"),
    in_kernel("loss of a batch doubled", None, LOSS_FACTOR, "nll_loss_forward", "loss, weight = right(*args, **kwargs); return loss * np.float32(2), weight"),
    in_kernel("gradient of the loss", None, GRADIENT, "nll_loss_backward", "return right(*args, **kwargs) * np.float32(2)"),
    # A GPT in float16 with a loss scale, gradients of two batches summed and clipped.
    in_gpt("clipped before unscaled", 1, None, FACTOR, "trainer", "self.scaler.unscale_(self.optimizer)", "pass"),
    in_gpt("not clipped", 1, None, FACTOR, "trainer", "config.grad_clip != 0.0", "False"),
    in_gpt("another loss scale", 1, None, SCALE, "trainer", "GradScaler(", "GradScaler(init_scale=1024.0, "),
    in_gpt("no loss scale", 1, None, SCALE, "trainer", "self.use_amp and config.dtype", "False and config.dtype"),
    in_gpt("bfloat16 for float16", 1, "h.0.attn.c_attn", PRECISION, "trainer", '"float16": torch.float16', '"float16": torch.bfloat16'),
    in_gpt("float32 throughout", 1, "h.0.attn.c_attn", PRECISION, "trainer", "enabled=self.use_amp, dtype", "enabled=False, dtype"),
    in_gpt("loss not averaged over batches", 1, None, LOSS_FACTOR, "trainer", "loss / config.grad_accumulation", "loss"),
    in_gpt("no dropout in attention", 1, "h.0.attn", DRAW, "model", "self.dropout if self.training", "0.0 if self.training"),
    in_gpt("attention sees what comes", 1, "h.0.attn", OPERATOR, "model", "is_causal=True)", "is_causal=False)"),
    in_gpt("queries for keys", 1, "h.0.attn", OPERATOR, "model", "q, k, v =", "v, k, q ="),
    in_gpt("another eps of layer norm", 1, "h.0.ln_1", OPERATOR, "model", "1e-5", "1e-2"),
    in_gpt("residual lost", 1, "h.0", OPERATOR, "model", "x = x + self.attn(self.ln_1(x))", "x = self.attn(self.ln_1(x)).float()"),
    in_gpt("zero_grad lost with a loss scale", 2, None, RETAINED, "trainer", "self.optimizer.zero_grad(set_to_none=True)", "pass"),
    in_gpt("weights not tied", 1, "wte", WEIGHTS, "trainer", "self.model.tie_weights()", "pass"),
    in_gpt("warm-up one step ahead", 1, None, RATE, "trainer", "(it + 1)", "(it + 2)"),
    in_gpt("other momentum", 1, None, OPTIMIZER, "trainer", "(config.beta1, config.beta2)", "(0.1, config.beta2)"),
    edited("evaluated as in training", "gpt", 3, "GPT", MODE, "chargpt/trainer.py", "self.model.eval()", "pass"),
    edited("positions in another dtype", "gpt", 1, "GPT", PRECISION, "chargpt/model.py", "dtype=torch.long, device", "dtype=torch.int32, device"),
    in_kernel("gelu scaled", "GPT.transformer.h.0.mlp.gelu", OPERATOR, "gelu", "return right(*args, **kwargs) * 1.05", "gpt"),
    in_kernel("gradient of layer norm", "GPT.transformer.ln_f", GRADIENT, "native_layer_norm_backward", "one, *others = right(*args, **kwargs); return one * np.float32(1.5), *others", "gpt"),
    in_kernel("gradient of embeddings", "GPT.transformer.wte", GRADIENT, "embedding_dense_backward", "return right(*args, **kwargs) * np.float32(0.5)", "gpt"),
    # A GAN: two networks, two optimizers; the discriminator makes the odd steps.
    edited("labels of the other class", "gan", 1, "BCELoss", DATA, "main.py", "criterion(output, fake_label)", "criterion(output, valid)"),
    edited("discriminator's gradients kept", "gan", 3, None, RETAINED, "main.py", "netD.zero_grad()", "pass"),
    edited("optimizer of the other network", "gan", 2, "Discriminator.main.0", OPTIMIZER, "main.py", "torch.optim.Adam(netG.", "torch.optim.Adam(netD."),
    edited("another learning rate of one", "gan", 2, None, RATE, "main.py", "netG.parameters(), lr=cfg['lr']", "netG.parameters(), lr=cfg['lr'] * 2"),
    edited("generator in evaluation", "gan", 1, "Generator", MODE, "main.py", "netG.npu()", "netG.npu().eval()"),
    edited("louder noise", "gan", 1, "Generator", DATA, "main.py", "fake = netG(noise)", "fake = netG(noise * 2)"),
    edited("steeper slope", "gan", 1, "Discriminator.main.1", OPERATOR, "networks.py", "nn.LeakyReLU(0.2", "nn.LeakyReLU(0.3"),
    edited("faster running statistics", "gan", 1, "Discriminator.main.3", BUFFER, "networks.py", "BatchNorm2d(ndf * 2)", "BatchNorm2d(ndf * 2, momentum=0.5)"),
    edited("weights drawn wider", "gan", 1, "Discriminator.main.0", WEIGHTS, "networks.py", "m.weight, 0.0, 0.02", "m.weight, 0.0, 0.03"),
    in_kernel("gradient of leaky relu", "Discriminator.main.4", GRADIENT, "leaky_relu_backward", "return -right(*args, **kwargs)", "gan"),
    in_kernel("cross entropy halved", "BCELoss", OPERATOR, "binary_cross_entropy", "return right(*args, **kwargs) / np.float32(2)", "gan"),
    # An LSTM that hands its state on, with a data set in a file.
    edited("another text", "tagger", 1, "Tagger", DATA, "text.txt", "the lamp was lit", "the lamb was lit"),
    in_training("state forgotten", 2, "Tagger", BRANCH, "model(data, state)", "model(data, None)", "tagger"),
    in_training("padding counts", 4, "CrossEntropyLoss", DATA, "= -100", "= 0", "tagger"),
    in_training("weights of classes lost", 1, "CrossEntropyLoss", BRANCH, "weight=torch.tensor([1.0, 4.0]).npu()", "", "tagger"),
    in_training("clipped before backward", 1, None, FACTOR, "loss.backward()\n            nn.utils.clip_grad_norm_(model.parameters(), 0.1)", "nn.utils.clip_grad_norm_(model.parameters(), 0.1)\n            loss.backward()", "tagger"),
    in_training("rate not lowered", 2, None, RATE, "            scheduler.step()\n", "", "tagger"),
    in_training("Adam for AdamW", 1, None, OPTIMIZER, "optim.AdamW(model.parameters(), lr=0.01", "optim.Adam(model.parameters(), lr=0.01, weight_decay=0.01", "tagger"),
    in_model("gate not open", "Tagger.lstm", WEIGHTS, "width : 2 * width", ": width", "tagger"),
    in_model("time reversed", "Tagger", OPERATOR, "self.norm(hidden)", "self.norm(hidden.flip(1))", "tagger"),
    in_model("padding is trained", "Tagger.embedding", WEIGHTS, ", padding_idx=0", "", "tagger"),
    in_kernel("cells of the LSTM", "Tagger.lstm", OPERATOR, "npu::npu_lstm", "hidden, *others = right(*args, **kwargs); return hidden * np.float32(0.97), *others", "tagger"),
    # Residual blocks with batch norm, and a moving average of the weights that is evaluated in each step.
    in_training("average follows faster", 2, "ResNet#1.stem", STATE, "DECAY = 0.9", "DECAY = 0.8", "averaged"),
    in_training("average stands still later", 4, "ResNet#1.stem", STATE, "average.update(model)\n", "step < 2 and average.update(model)\n", "averaged"),
    in_training("buffers not averaged", 2, "ResNet#1.blocks.0.bn", STATE, "own.copy_(new)", "pass", "averaged"),
    in_training("average in training mode", 2, "ResNet#1", MODE, "copy.deepcopy(model).eval()", "copy.deepcopy(model).train()", "averaged"),
    in_training("weights halved as they are loaded", 1, "ResNet.stem", WEIGHTS, "torch.load(PATH)", "{name: each / 2 for name, each in torch.load(PATH).items()}", "averaged"),
    in_training("groups share a rate", 1, None, RATE, ', "lr": 0.02', "", "averaged"),
    in_training("bias is decayed", 1, None, OPTIMIZER, '"weight_decay": 0.0', '"weight_decay": 1.0', "averaged"),
    in_training("optimizer not in the checkpoint", 2, None, CHECKPOINT, '"optimizer": optimizer.state_dict(), ', "", "averaged"),
    in_training("average saved as the model", 2, None, CHECKPOINT, '"model": model.state_dict()', '"model": average.model.state_dict()', "averaged"),
    in_training("checkpoint in half precision", 2, None, CHECKPOINT, '"average": average.model.state_dict()', '"average": copy.deepcopy(average.model).half().state_dict()', "averaged"),
    in_training("checkpoint every step", 1, None, CHECKPOINT, "if step % 2", "if step >= 0", "averaged"),
    # The gradient of a bias before a batch norm is nothing but rounding.
    in_training("clipping lost", 1, None, FACTOR, CLIP, "pass", "normalized"),
    in_training("gradients halved", 1, None, FACTOR, CLIP, CLIP + "; [each.grad.mul_(0.5) for each in model.parameters()]", "normalized"),
    in_training("gradients doubled", 1, None, FACTOR, CLIP, CLIP + "; [each.grad.mul_(2) for each in model.parameters()]", "normalized"),
    # The loss is nearly the same before anything is learnt.
    in_training("labels not smoothed", 1, None, LOSS, ", label_smoothing=0.1", "", "averaged"),
    in_model("skipped connection", "ResNet.blocks.0", OPERATOR, "x + self.bn", "self.bn", "averaged"),
    in_model("mean over one axis", "ResNet", OPERATOR, "mean((2, 3))", "mean(2).amax(2)", "averaged"),
    in_kernel("gradient of batch norm", "ResNet.blocks.1.bn", GRADIENT, "native_batch_norm_backward", "one, *others = right(*args, **kwargs); return -one, *others", "averaged"),
)  # fmt: skip
