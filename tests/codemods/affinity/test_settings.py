"""Settings that are left where something of the program may tell the difference."""

import pytest

from gpu2npu.codemods.affinity.codemod import fixed
from gpu2npu.codemods.program import TrainingProgram
from gpu2npu.engine.torch_library import TORCH


def fix(text: str, kind: str, **others: str) -> str | None:
    sources = {"train.py": text.encode()} | {f"{name}.py": other.encode() for name, other in others.items()}
    found = fixed(TrainingProgram(sources, TORCH, "2.7.1", False), [kind]).get("train.py")
    return found.decode() if found is not None else None


DDP = "from torch.nn.parallel import DistributedDataParallel as DDP\nmodel = DDP(net)\n"


@pytest.mark.parametrize(
    ("given", "after"),
    [
        ("(net)", "(net), gradient_as_bucket_view=True"),
        ("\n    (\n        net\n    )\n", "\n    (\n        net\n    ), gradient_as_bucket_view=True\n"),
        ("net, bucket_cap_mb=((25)),", "net, bucket_cap_mb=((25)), gradient_as_bucket_view=True,"),
        ("net  # why\n", "net, gradient_as_bucket_view=True  # why\n"),
    ],
)
def test_an_argument_is_added_behind_the_parentheses_of_the_last(given: str, after: str) -> None:
    assert fix(DDP.replace("net", given), "ddp-views") == DDP.replace("net", after)


@pytest.mark.parametrize(
    ("other", "is_left"),
    [
        ('getattr(p, "grad")', True),
        ('setattr(p, "grad", None)', True),
        ('operator.attrgetter("weight.grad")(m)', True),
        ('for name in ("data", "grad"): print(getattr(p, name))', True),
        ('getattr(p, "detach_")()', True),
        ('print("the grad of", p)', False),
        ('getattr(p, "data")', False),
    ],
)
def test_a_gradient_named_by_a_string_may_be_retained(other: str, is_left: bool) -> None:
    assert (fix(DDP, "ddp-views", other=other) is None) is is_left
