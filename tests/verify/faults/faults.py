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


OPERATOR, OPTIMIZER = "operator computed otherwise", "optimizer computed otherwise"
DRAW, LOSS, KEPT, RATE = (
    "different random draw",
    "loss computed otherwise",
    "gradients not zeroed",
    "other learning rate",
)

FAULTS = (
    edited("zero_grad lost", "mnist", 2, "Net.conv1", KEPT, "train.py", "optimizer.zero_grad()", "pass"),
    edited("another seed", "mnist", 1, None, DRAW, "train.py", "manual_seed(args.seed)", "manual_seed(args.seed + 1)"),
    edited(
        "eval() in training", "mnist", 1, "Net", "training and evaluation mode", "train.py", "model.train()", "model.eval()"
    ),
    edited("shuffle lost", "mnist", 1, None, DRAW, "train.py", "'shuffle': True", "'shuffle': False"),
    edited("momentum lost", "mnist", 2, "Net.conv1", OPTIMIZER, "train.py", "momentum=0.9", "momentum=0.0"),
    edited("another learning rate", "mnist", 1, None, RATE, "train.py", "lr=args.lr", "lr=args.lr * 1.1"),
    edited(
        "loss summed", "mnist", 1, None, "loss averaged otherwise", "train.py", "F.nll_loss(output, target)\n",
        "F.nll_loss(output, target, reduction='sum')\n",
    ),
    edited(
        "labels shifted", "mnist", 1, None, LOSS, "train.py", "F.nll_loss(output, target)\n",
        "F.nll_loss(output, (target + 1) % 10)\n",
    ),
    edited("average for maximum", "mnist", 1, "Net.conv2", OPERATOR, "model.py", "F.max_pool2d(F.relu(self.bn1", "F.avg_pool2d(F.relu(self.bn1"),
)  # fmt: skip
