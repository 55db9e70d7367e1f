"""The faults that `gpu2npu verify` has to find: each is put alone into the migrated copy, or into a NumPy kernel."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Subject:
    """A project that faults are put into: a folder of fixtures/, and what trains it."""

    project: str
    command: tuple[str, ...]


SUBJECTS = {
    "mnist": Subject("mnist_cnn", ("train.py", "--train-size", "160", "--dropout", "0.2")),
}


@dataclass(frozen=True)
class Fault:
    """One fault, and where it is to be found.

    `edits` are a file of the copy, a text in it and what takes its place. `kernel` is the body of a Python function of
    `right`, the kernel that is replaced, `args` and `kwargs`, for the operator `operator`. `step` counts from 1; `module`
    is None for a fault of the training loop, and `cause` the words of the verdict.
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


def in_model(name: str, module: str | None, cause: str, old: str, new: str) -> Fault:
    """A fault in the copy's model.py, to be found at the first step."""
    return edited(name, "mnist", 1, module, cause, "model.py", old, new)


def in_training(name: str, step: int, module: str | None, cause: str, old: str, new: str) -> Fault:
    """A fault in the copy's train.py."""
    return edited(name, "mnist", step, module, cause, "train.py", old, new)


OPERATOR, OPTIMIZER = "operator computed otherwise", "optimizer computed otherwise"
DRAW, KEPT, RATE = "different random draw", "gradients not zeroed", "other learning rate"
LOSS, LOSS_FACTOR = "loss computed otherwise", "loss averaged otherwise"
GRADIENT, FACTOR = "gradient computed otherwise", "gradients scaled otherwise"
MODE, DATA, BRANCH = "training and evaluation mode", "other data", "dropped branch"

LOSS_LINE, BACKWARD = "F.nll_loss(output, target)\n", "loss.backward()"
SGD = "optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)"

FAULTS = (
    # The training loop.
    in_training("zero_grad lost", 2, "Net.conv1", KEPT, "optimizer.zero_grad()", "pass"),
    in_training("zero_grad every other step", 2, "Net.conv1", KEPT, "optimizer.zero_grad()", "step % 2 or optimizer.zero_grad()"),
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
    in_training("batch reversed", 1, "Net", DATA, "output = model(data)", "output = model(data.flip(0))"),
    in_training("another data set", 1, None, DRAW, "args.train_size, seed=0", "args.train_size, seed=3"),
    in_training("half the batch", 1, "Net", "batch split otherwise", "'--batch-size', type=int, default=32", "'--batch-size', type=int, default=16"),
    # Optimizers and gradients.
    in_training("momentum lost", 2, "Net.fc1", OPTIMIZER, "momentum=0.9", "momentum=0.0"),
    in_training("Nesterov's momentum", 1, "Net.conv1", OPTIMIZER, "momentum=0.9", "momentum=0.9, nesterov=True"),
    in_training("more weight decay", 1, "Net.bn1", OPTIMIZER, "weight_decay=1e-4", "weight_decay=1e-1"),
    in_training("another optimizer", 1, None, OPTIMIZER, SGD, "optim.Adam(model.parameters(), lr=args.lr)"),
    in_training("a layer left out", 1, "Net.fc2", OPTIMIZER, "optim.SGD(model.parameters()", "optim.SGD(list(model.parameters())[:-2]"),
    in_training("another learning rate", 1, None, RATE, "lr=args.lr", "lr=args.lr * 1.1"),
    in_training("rate lowered in each step", 2, None, RATE, "step += 1", "step += 1; optimizer.param_groups[0]['lr'] *= 0.9"),
    in_training("gradients clipped", 1, None, FACTOR, BACKWARD, "loss.backward(); torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)"),
    in_training("gradients negated", 1, None, FACTOR, BACKWARD, "loss.backward(); [each.grad.neg_() for each in model.parameters()]"),
    in_training("one gradient zeroed", 1, "Net.fc1", GRADIENT, BACKWARD, "loss.backward(); model.fc1.weight.grad.zero_()"),
    in_training("frozen layer", 1, "Net.conv1", BRANCH, "    scheduler = ", "    model.conv1.requires_grad_(False)\n    scheduler = "),
    # The model.
    in_model("average for maximum", "Net.conv2", OPERATOR, "F.max_pool2d(F.relu(self.bn1", "F.avg_pool2d(F.relu(self.bn1"),
)  # fmt: skip
