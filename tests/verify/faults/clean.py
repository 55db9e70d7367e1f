"""Programs into which no fault is put, for one NPU and for two: no copy of theirs may be called diverged."""

from __future__ import annotations

import json
from pathlib import Path

from faults import Subject

FIXTURES = Path(__file__).parents[3] / "fixtures"
COMPILE = "--compile"
NUMBERS = {1: "one NPU", 2: "two NPUs"}
STAYS_ONE_PROCESS = "spawn"  # unless its command says otherwise: test_command_lines.py starts it so
# Programs of a file each: those whose copies are a process for each NPU, and those whose copies are one process.
SEVERAL = {
    "data_parallel": ("accumulation", "distillation", "ema", "gan", "own_names", "perceptual", "spawn"),
    "trainings": ("byol", "detector", "diffusion", "knowledge", "language_model", "translation", "unet", "wgan"),
}
SINGLE = {
    "affinity": ("detector", "llama", "vit"),
    "data_parallel": ("features", "generator_forward", "inner_backward"),
    "trainings": ("actor_critic", "dqn", "graph"),
}
# The programs that cannot be compared, on so many GPUs, and the words with which verify says so.
_NO_STEP = "made no optimizer step: there is nothing to compare"
REFUSED = {
    ("data_parallel", "evaluate", 1): _NO_STEP,
    ("data_parallel", "extract", 2): _NO_STEP,
    ("data_parallel", "inference", 1): _NO_STEP,
    ("trainings", "features", 1): _NO_STEP,
    # DataParallel gathers a scalar of each card, so the original fails on several GPUs.
    ("data_parallel", "perceptual", 2): "grad can be implicitly created only for scalar outputs",
}


def of_many_cards() -> dict[str, Subject]:
    """Each fixture of many_cards.json, one process on as many GPUs as its copy has NPUs: on one and on two."""
    found = {}
    for fixture in json.loads((FIXTURES / "many_cards.json").read_text())["fixtures"]:
        command = tuple(word.format(out=".") for word in fixture["train"])
        for ranks in (1,) if "distributed" in fixture else (1, 2):
            name = f"{fixture['name']} on {NUMBERS[ranks]}"
            found[name] = Subject(f"fixtures/many_cards/{fixture['name']}", command, ranks=ranks)
    return found


def of_single_files() -> dict[str, Subject]:
    """Each program of SEVERAL on one NPU and on two, and each of SINGLE on one."""
    chosen = [(SEVERAL, cards) for cards in NUMBERS] + [(SINGLE, 1)]
    return {
        f"{folder}/{program} on {NUMBERS[cards]}": Subject(
            f"fixtures/{folder}", (f"{program}.py",), ranks=1 if program == STAYS_ONE_PROCESS else cards, cards=cards
        )
        for programs, cards in chosen
        for folder, names in programs.items()
        for program in names
        if (folder, program, cards) not in REFUSED
    }


def of_a_language_model() -> dict[str, Subject]:
    """A GPT as nanoGPT trains it: mixed precision and torch.compile off and on."""
    project = "tests/verify/faults/projects/nanogpt"
    return {
        " ".join(("nanogpt", *chosen)): Subject(project, ("train.py", *chosen), ("conv", "matmul"))
        for chosen in ((), ("--amp",), (COMPILE,), ("--amp", COMPILE))
    }


DDP = ("main.py", "-j", "0", "--seed", "3", "--gpu", "0", "--train-size", "64")
SUBJECTS = {
    "ddp on one NPU": Subject("fixtures/ddp_imagenet", DDP),
    "mixed_package": Subject("fixtures/mixed_package", ("-m", "mixed_package.train")),
    **of_many_cards(),
    **of_single_files(),
    **of_a_language_model(),
}
