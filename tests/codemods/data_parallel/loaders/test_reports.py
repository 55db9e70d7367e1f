"""Reports of loaders, and of values computed from them, that are left to a person."""

from textwrap import dedent

import pytest

from gpu2npu.codemods.program.entries import dataflow_of
from gpu2npu.codemods.program.files import TrainingProgram
from gpu2npu.codemods.program.loader_call import read_call
from gpu2npu.engine import ProjectContext

HEAD = "import torch\nimport torch.distributed as dist\nfrom torch.utils.data import DataLoader, DistributedSampler\n"
LOOP = """
for epoch in range(3):
    for x, y in train_loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
"""


# What is left as it is, and the words that the finding must have.
LEFT = {
    "a sampler": (
        "train_loader = DataLoader(ds, 64, sampler=Weighted(w))",
        "The program has a sampler of its own, Weighted(w)",
    ),
    "a sampler that draws each sample once": (
        "s = torch.utils.data.RandomSampler(ds)\ntrain_loader = DataLoader(ds, 64, sampler=s)",
        "write DistributedSampler(ds) in place of RandomSampler",
    ),
    "a batch sampler": ("train_loader = DataLoader(ds, batch_sampler=Buckets(ds))", "A batch sampler decides"),
    "an iterable dataset": (
        "class Lines(torch.utils.data.IterableDataset): pass\ntrain_loader = DataLoader(Lines(), batch_size=64)",
        "An iterable dataset has no indices",
    ),
    "a dataset that is tested": (
        "if isinstance(ds, torch.utils.data.IterableDataset):\n    train_loader = DataLoader(ds, batch_size=64)",
        "An iterable dataset has no indices",
    ),
    "a dataset that is tested by a name": (
        "big = isinstance(ds, torch.utils.data.IterableDataset)\nif big:\n    train_loader = DataLoader(ds, 64)",
        "An iterable dataset has no indices",
    ),
    "a dataset that is tested before": (
        "def make(data):\n    if not isinstance(data, torch.utils.data.IterableDataset):\n        return None\n"
        "    return DataLoader(data, batch_size=64)\ntrain_loader = make(ds)",
        "An iterable dataset has no indices",
    ),
    "a dataset that is tested for an option": (
        "def make(data):\n    plain = not isinstance(data, torch.utils.data.IterableDataset)\n"
        "    return DataLoader(data, 64, shuffle=plain)\n"
        "train_loader = make(ds)",
        "An iterable dataset has no indices",
    ),
    "a dataset without a length": (
        "def make(data):\n    if hasattr(data, '__len__'):\n        return None\n    return DataLoader(data, 64)\n"
        "train_loader = make(ds)",
        "An iterable dataset has no indices",
    ),
    "a batch of one": ("train_loader = DataLoader(ds, shuffle=True)", "A batch of one sample cannot be shared"),
    "unknown keywords": (
        "train_loader = DataLoader(ds, **options())",
        "The contents of the keyword dictionary are not known",
    ),
    "keywords of two loaders": (
        "kw = dict(batch_size=64)\ntrain_loader = DataLoader(ds, **kw)\nother = DataLoader(ds, **kw)",
        "or other loaders get it too",
    ),
    "starred arguments": ("train_loader = DataLoader(*parts)", "what each argument of this DataLoader is"),
    "a condition": (
        "train_loader = DataLoader(Big(), batch_size=64) if big else DataLoader(Small(), batch_size=64)",
        "give it a name in a line before",
    ),
    "by hand": ("train_loader = [data[i:i + 64] for i in range(0, 640, 64)]", "No DataLoader of the project"),
    "a library": ("train_loader = library.loader(64)", "No DataLoader of the project"),
}


@pytest.mark.parametrize("form", LEFT)
def test_what_cannot_be_shared_out_is_left_and_reported(form, shard_one):
    source, words = LEFT[form]
    after, messages = shard_one(source + "\n" + LOOP)
    assert after == source + "\n" + LOOP
    assert messages
    assert all(words in message and "in the time of one card" in message for message in messages)


def test_a_loop_that_takes_batches_from_an_object_of_the_program_is_reported(shard_one):
    own = LOOP.replace("for x, y in train_loader:", "while True:\n        x, y = batches.take()")
    assert "while True" in own
    after, (message,) = shard_one("batches = Balanced()\n" + own)
    assert after == "batches = Balanced()\n" + own
    assert message.startswith("No DataLoader of the project is known to be behind while True: ")


def test_a_loader_made_when_a_module_is_imported_is_reported(shard):
    files = {
        "train.py": "from data import train_loader\n" + LOOP,
        "data.py": HEAD + "train_loader = DataLoader(ds, batch_size=64, shuffle=True)\n",
    }
    after, findings = shard(files)
    assert after == {path: dedent(text) for path, text in files.items()}
    (finding,) = findings["data.py"]
    assert finding.message.startswith("This runs when the file is imported, before there are ranks")


def test_arguments_behind_a_starred_one_are_not_counted(shard_one):
    before = "train_loader = DataLoader(*given, DistributedSampler(ds))\n" + LOOP
    assert shard_one(before) == (before, [])
    sources = {"train.py": f"{HEAD}DataLoader(ds, *given, True, pin_memory=True)\n".encode()}
    flow = dataflow_of(TrainingProgram.of(sources, ProjectContext(files=frozenset(sources))), ("train.py",), b"")
    (call,) = (read_call(flow, place) for place in flow.calls)
    assert (list(call.given), call.positional) == (["dataset", "pin_memory"], -1)


def test_a_batch_that_ranks_cannot_share_evenly_is_reported(shard_one):
    _, (message,) = shard_one("train_loader = DataLoader(ds, batch_size=100, shuffle=True)\n" + LOOP)
    assert "divides 100" in message
    assert "96 with 8 ranks" in message


def test_averages_over_the_whole_dataset_are_reported(shard_one):
    before = """
    data = {x: read(x) for x in ["train", "val"]}
    loaders = {x: DataLoader(data[x], batch_size=64, shuffle=True) for x in ["train", "val"]}
    sizes = {x: len(data[x]) for x in ["train", "val"]}
    steps = sizes["train"] / 64
    for epoch in range(3):
        for phase in ["train", "val"]:
            total = 0
            for x, y in tqdm(loaders[phase]):
                loss = criterion(model(x), y)
                if phase == "train":
                    loss.backward()
                    optimizer.step()
                total += loss.item() * len(x)
            print(total / sizes[phase], total / len(loaders[phase]))
    """
    _, messages = shard_one(dedent(before))
    share_messages = [message for message in messages if "sees its share" in message]
    assert [message.partition(" divide by ")[2] for message in share_messages] == [
        "len(loaders[phase].sampler) in place of sizes[phase]."
    ]


def test_tensors_of_the_size_of_a_batch_are_reported(shard_one):
    before = """
    def make(size):
        return DataLoader(ds, batch_size=size, shuffle=True)
    train_loader = make(args.batch)
    real = torch.ones(args.batch, 1)
    hidden = rnn.init_hidden(args.batch)
    log(args.batch)
    noise = torch.randn((args.batch, 8))
    other = torch.randn(size, 8)
    """
    _, messages = shard_one(dedent(before) + LOOP)
    assert [message.partition(";")[0] for message in messages] == ["args.batch is the batch of all ranks"] * 3


def test_a_size_that_a_loss_is_given_is_followed_into_it(shard_one):
    before = """
    class Loss(torch.nn.Module):
        def __init__(self, classes, batch):
            self.grid = torch.arange(8).repeat(batch, classes)
    train_loader = DataLoader(ds, batch_size=args.batch // args.parts, shuffle=True)
    criterion = Loss(80, args.batch // args.parts)
    """
    _, messages = shard_one(dedent(before) + LOOP)
    assert [message.partition(";")[0] for message in messages] == ["batch is the batch of all ranks"]


def test_a_random_split_without_a_seed_is_reported(shard_one):
    before = "first, second = torch.utils.data.random_split(ds, [90, 10])\n"
    before += "train_loader = DataLoader(first, batch_size=64, shuffle=True)\n" + LOOP
    _, messages = shard_one(before)
    assert [message.partition(",")[0] for message in messages] == ["Each rank splits the data in another way"]
    assert shard_one("torch.manual_seed(1)\n" + before)[1] == []
    assert shard_one(before.replace("10])", "10], generator=g)"))[1] == []


@pytest.mark.parametrize(
    ("given", "reported"), [("download=True", True), ("download=False", False), ("train=True", False)]
)
def test_a_dataset_that_every_rank_downloads_is_reported(given, reported, shard_one):
    before = f"from torchvision import datasets\nds = datasets.MNIST('data', {given})\n"
    _, messages = shard_one(before + "train_loader = DataLoader(ds, batch_size=64, shuffle=True)\n" + LOOP)
    assert [message.partition(",")[0] for message in messages] == ["Every rank downloads into this folder"] * reported


def test_evaluation_on_the_training_loader_is_reported(shard_one):
    _, messages = shard_one(
        "train_loader = DataLoader(ds, batch_size=64, shuffle=True)\n"
        + LOOP
        + "\nfor x, y in train_loader:\n    count(x)\n"
    )
    assert [message.partition(",")[0] for message in messages] == ["train_loader may be the training loader"]


def test_a_comprehension_over_the_training_loader_is_reported(shard_one):
    _, messages = shard_one(
        "train_loader = DataLoader(ds, batch_size=8, shuffle=True)\n"
        + LOOP
        + "total = sum(criterion(model(x), y) for x, y in train_loader)\n"
    )
    assert len([message for message in messages if message.startswith("train_loader may be")]) == 1
