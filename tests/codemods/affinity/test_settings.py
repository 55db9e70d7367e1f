"""Settings that are left where something of the program may depend on the difference."""

import pytest

from gpu2npu.codemods.affinity.codemod import fixed
from gpu2npu.codemods.program.files import TrainingProgram
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


LOOP = """import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset
from batches import collate
{}
loader = DataLoader({}, pin_memory=True)
for x, y in loader:
    x = x.to(("npu"))
"""
PICTURES = """
from torchvision import datasets, transforms
transform = transforms.Compose([transforms.Resize(9), transforms.ToTensor(), transforms.Normalize(0.1, 0.3)])
"""
ITEMS = """
class Items(Dataset):
    def __init__(self):
        self.x = torch.randn(8, 2)

    def __getitem__(self, index):
        return {}
"""


@pytest.mark.parametrize(
    ("items", "loader", "is_left"),
    [
        ("", "TensorDataset(torch.ones(2), torch.ones(2)), 2", False),
        ("items = TensorDataset(torch.ones(2), torch.ones(2))", "dataset=items", False),
        ("", "TensorDataset(torch.ones(2), torch.ones(2)), 2, collate_fn=collate", True),
        ("", "TensorDataset(torch.ones(2), torch.ones(2)), 2, False, None, None, 0, collate", True),
        ("", "TensorDataset(torch.ones(2), torch.ones(2)), **options", True),
        ("from elsewhere import items", "items, 2", True),
        (ITEMS.format("self.x[index], int(index)"), "Items(), 2", False),
        (ITEMS.format("torch.tensor(index), (1, torch.ones(3))"), "Items(), 2", False),
        (ITEMS.format("collate(index), 1"), "Items(), 2", True),
        (ITEMS.format("{'x': torch.ones(2)}, 1"), "Items(), 2", True),
        (ITEMS.replace("__getitem__", "__iter__").format("self.x"), "Items(), 2", True),
        (ITEMS.replace("(Dataset)", "(collate)").format("self.x"), "Items(), 2", True),
        (PICTURES, "datasets.MNIST('.', transform=transform), 2", False),
        (PICTURES, "datasets.CIFAR10(root='.', train=True, transform=transforms.ToTensor()), 2", False),
        (PICTURES, "datasets.ImageFolder('.', transforms.ToTensor()), 2", True),
        (PICTURES, "datasets.MNIST('.', transform=transform, target_transform=collate), 2", True),
        (PICTURES, "datasets.MNIST('.', transform=collate(transform)), 2", True),
        (PICTURES, "datasets.MNIST('.', transform=transform, **options), 2", True),
        (PICTURES, "datasets.MNIST('.'), 2", True),
        (PICTURES, "datasets.STL10('.', transform=transform), 2", True),
        (
            PICTURES.replace("Normalize(0.1, 0.3)", "Lambda(collate)"),
            "datasets.MNIST('.', transform=transform), 2",
            True,
        ),
        (PICTURES.replace("ToTensor()", "Resize(8)"), "datasets.MNIST('.', transform=transform), 2", True),
    ],
)
def test_a_batch_may_have_its_own_way_to_be_copied(items: str, loader: str, is_left: bool) -> None:
    source = LOOP.format(items, loader)
    after = source.replace('to(("npu"))', 'to(("npu"), non_blocking=True)')
    assert fix(source, "copy-waits") == (None if is_left else after)
