"""Programs into which no fault is put, for one NPU and for two: no copy of theirs may be called diverged."""

from __future__ import annotations

import json
from pathlib import Path

from faults import Subject

FIXTURES = Path(__file__).parents[3] / "fixtures"
# The fixtures of many_cards.json, each one process on as many GPUs, and for how many NPUs their copies run.
MANY_CARDS = {
    "image_classifier": (1,),
    "language_model": (1,),
    "pix2pix": (1, 2),
    "segmentation": (1,),
    "trainer": (1,),
}
COMPILE = "--compile"
NUMBERS = {1: "one NPU", 2: "two NPUs"}


def of_many_cards() -> dict[str, Subject]:
    """Each of MANY_CARDS on its numbers of NPUs, by a name that says how many."""
    found = {}
    for fixture in json.loads((FIXTURES / "many_cards.json").read_text())["fixtures"]:
        command = tuple(word.format(out=".") for word in fixture["train"])
        for ranks in MANY_CARDS.get(fixture["name"], ()):
            name = f"{fixture['name']} on {NUMBERS[ranks]}"
            found[name] = Subject(f"fixtures/many_cards/{fixture['name']}", command, ranks=ranks)
    return found


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
    **of_a_language_model(),
}
