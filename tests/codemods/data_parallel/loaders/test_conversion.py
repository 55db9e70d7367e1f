"""Training loaders are shared out, evaluation loaders stay whole, and what is left is reported."""

import ast
from textwrap import dedent

import pytest

from gpu2npu.codemods.data_parallel.loaders.conversion import shard_loaders
from gpu2npu.codemods.program import Program
from gpu2npu.engine import ProjectContext
from gpu2npu.python.text.edits import Edited
from gpu2npu.records import FileRewrite

HEAD = "import torch\nimport torch.distributed as dist\nfrom torch.utils.data import DataLoader, DistributedSampler\n"
LOOP = """
for epoch in range(3):
    for x, y in train_loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
"""
TOLD = LOOP.replace("range(3):\n", "range(3):\n    train_loader.sampler.set_epoch(epoch)\n")


def shard(files, entries=("train.py",)):
    """The files after the rewrite, and what was found, by path; the result parses, and stays under a second rewrite."""
    files = {path: dedent(text) for path, text in files.items()}
    rewrites = rewrites_of(files, entries)
    after = {path: Edited(text, rewrites.get(path, FileRewrite()).edits).text for path, text in files.items()}
    for text in after.values():
        ast.parse(text)
    assert not any(rewrite.edits for rewrite in rewrites_of(after, entries).values())
    return after, {path: rewrite.found for path, rewrite in rewrites.items() if rewrite.found}


def rewrites_of(files, entries):
    sources = {path: text.encode() for path, text in files.items()}
    return shard_loaders(Program.of(sources, ProjectContext(files=frozenset(sources))), entries)


def shard_one(before):
    after, findings = shard({"train.py": HEAD + before})
    assert after["train.py"].startswith(HEAD)
    return after["train.py"][len(HEAD) :], [finding.message for finding in findings.get("train.py", ())]


# What stands before the training loop: before, after.
FORMS = {
    "shuffled": (
        "train_loader = DataLoader(ds, batch_size=args.batch, shuffle=True, num_workers=4)\n",
        "train_loader = DataLoader(ds, batch_size=args.batch // dist.get_world_size(), "
        "sampler=DistributedSampler(ds), num_workers=4)\n",
    ),
    "by an expression": (
        "train_loader = DataLoader(ds, batch_size=64, shuffle=not args.sorted)\n",
        "train_loader = DataLoader(ds, batch_size=64 // dist.get_world_size(), "
        "sampler=DistributedSampler(ds, shuffle=not args.sorted))\n",
    ),
    "by position": (
        "train_loader = DataLoader(self.ds, n, True, drop_last=args.drop)\n",
        "train_loader = DataLoader(self.ds, n // dist.get_world_size(), "
        "sampler=DistributedSampler(self.ds, drop_last=args.drop), drop_last=args.drop)\n",
    ),
    "a sum of sizes": (
        "train_loader = DataLoader(ds, batch_size=a + b, shuffle=True, sampler=None)\n",
        "train_loader = DataLoader(ds, batch_size=(a + b) // dist.get_world_size(), sampler=DistributedSampler(ds))\n",
    ),
    "before the batch size": (
        "train_loader = DataLoader(dataset=sets['train'], shuffle=True, batch_size=64)\n",
        "train_loader = DataLoader(dataset=sets['train'], sampler=DistributedSampler(sets['train']), "
        "batch_size=64 // dist.get_world_size())\n",
    ),
    "a dataset made in the call": (
        "train_loader = DataLoader(\n    Pictures('a',\n             transform),\n    batch_size=64,  # pictures\n"
        "    shuffle=True,\n)\n",
        "train_dataset = Pictures('a',\n             transform)\ntrain_loader = DataLoader(\n    train_dataset,\n"
        "    batch_size=64 // dist.get_world_size(),  # pictures\n    sampler=DistributedSampler(train_dataset),\n)\n",
    ),
    "a dataset over two lines": (
        "train_dataset = 0\ntrain_loader = DataLoader(first +\n    second, batch_size=64, shuffle=True)\n",
        "train_dataset = 0\ntrain_dataset_ = (first +\n    second)\ntrain_loader = DataLoader(train_dataset_, "
        "batch_size=64 // dist.get_world_size(), sampler=DistributedSampler(train_dataset_))\n",
    ),
    "a long line": (
        "train_loader = DataLoader(pictures, batch_size=args.batch_size, shuffle=True, num_workers=args.workers)\n",
        "train_sampler = DistributedSampler(pictures)\n"
        "train_loader = DataLoader(pictures, batch_size=args.batch_size // dist.get_world_size(), "
        "sampler=train_sampler, num_workers=args.workers)\n",
    ),
    "keywords that hold the batch size": (
        "kw = {'batch_size': args.batch}\nkw.update({'shuffle': True})\ntrain_loader = DataLoader(ds, **kw)\n",
        "kw = {'batch_size': args.batch}\nkw.update({'shuffle': True})\nkw['batch_size'] //= dist.get_world_size()\n"
        "train_loader = DataLoader(ds, sampler=DistributedSampler(ds, shuffle=kw.pop('shuffle', False)), **kw)\n",
    ),
    "keywords that hold neither": (
        "kw = {'num_workers': 1} if cuda else {}\n"
        "train_loader = DataLoader(ds, batch_size=64, shuffle=True, **kw)\nother = DataLoader(ds, **kw)\n",
        "kw = {'num_workers': 1} if cuda else {}\n"
        "train_loader = DataLoader(ds, batch_size=64 // dist.get_world_size(), "
        "sampler=DistributedSampler(ds), **kw)\nother = DataLoader(ds, **kw)\n",
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_training_loader_is_shared_out(form):
    before, after = FORMS[form]
    assert shard_one(before + LOOP) == (after + TOLD, [])


def test_a_loader_that_is_not_shuffled_keeps_its_order():
    before = "train_loader = DataLoader(ds, batch_size=64)\n"
    after = (
        "train_loader = DataLoader(ds, batch_size=64 // dist.get_world_size(), "
        "sampler=DistributedSampler(ds, shuffle=False))\n"
    )
    assert shard_one(before + LOOP) == (after + LOOP, [])


def test_imports_are_added():
    after, _ = shard(
        {
            "train.py": "import torch\nfrom torch.utils.data import DataLoader\n"
            "train_loader = DataLoader(ds, batch_size=64, shuffle=True)\n" + LOOP
        }
    )
    assert after["train.py"].startswith(HEAD)


def test_evaluation_loaders_stay_whole():
    source = """
    val_loader = DataLoader(val, batch_size=64, shuffle=True)
    with torch.no_grad():
        for x, y in val_loader:
            right += (model(x).argmax(1) == y).sum().item()
    """
    assert shard_one(dedent(source)) == (dedent(source), [])


def test_an_attack_on_the_test_set_trains_nothing():
    source = """
    test_loader = DataLoader(ds, batch_size=64, shuffle=True)
    def attack():
        for x, y in test_loader:
            loss = criterion(model(x), y)
            loss.backward()
            x = x + eps * x.grad.sign()
    """
    assert shard_one(dedent(source)) == (dedent(source), [])


def test_loaders_are_found_across_functions_and_files():
    files = {
        "train.py": """
            from data import get_loaders
            from engine import fit

            def main():
                train, val = get_loaders(64)
                for epoch in range(9):
                    fit(model, train, optimizer)
                    check(model, val)

            main()
            """,
        "engine.py": """
            from tqdm import tqdm

            def fit(model, loader, optimizer):
                for i, batch in enumerate(tqdm(loader)):
                    update(model, batch)
                    optimizer.step()

            def update(model, batch):
                model(batch).backward()
            """,
        "data.py": """
            import torch
            from torch.utils import data

            def get_loaders(size):
                train = data.DataLoader(first, size, shuffle=True)
                val = data.DataLoader(second, size)
                return train, val
            """,
        "unrelated.py": "import torch\nx = torch.utils.data.DataLoader(ds, batch_size=3, shuffle=True)\n",
    }
    after, findings = shard(files)
    assert findings == {}
    assert (
        "    train = data.DataLoader(first, size // dist.get_world_size(), sampler=data.DistributedSampler(first))\n"
        in after["data.py"]
    )
    assert "    val = data.DataLoader(second, size)\n" in after["data.py"]
    assert "for epoch in range(9):\n        train.sampler.set_epoch(epoch)\n        fit(" in after["train.py"]
    assert after["engine.py"] == dedent(files["engine.py"])
    assert after["unrelated.py"] == files["unrelated.py"]


def test_a_function_that_makes_both_loaders_is_told_which_is_for_training():
    before = """
    def make(ds, shuffle):
        return DataLoader(ds, batch_size=64, shuffle=shuffle)
    train_loader = make(first, args.shuffle)
    val_loader = make(second, False)
    """
    after = """
    def make(ds, shuffle, distributed=False):
        train_sampler = DistributedSampler(ds, shuffle=shuffle) if distributed else None
        return DataLoader(ds, batch_size=64 // (dist.get_world_size() if distributed else 1), sampler=train_sampler, """
    after += """shuffle=shuffle and not distributed)
    train_loader = make(first, args.shuffle, distributed=True)
    val_loader = make(second, False)
    """
    assert shard_one(dedent(before) + LOOP) == (dedent(after) + TOLD, [])


def test_a_dictionary_of_loaders_by_phase():
    before = """
    loaders = {x: DataLoader(sets[x], batch_size=4, shuffle=True) for x in ['train', 'val']}
    for epoch in range(3):
        for phase in ['train', 'val']:
            for x, y in loaders[phase]:
                loss = criterion(model(x), y)
                if phase == 'train':
                    loss.backward()
                    optimizer.step()
    """
    after, messages = shard_one(dedent(before))
    assert (
        "DataLoader(sets[x], batch_size=4 // (dist.get_world_size() if x == 'train' else 1), "
        "sampler=DistributedSampler(sets[x]) if x == 'train' else None, shuffle=x != 'train') for x in" in after
    )
    assert "for epoch in range(3):\n    loaders['train'].sampler.set_epoch(epoch)\n    for phase" in after
    assert [message.partition(":")[0] for message in messages] == ["Choose a number of ranks that divides 4"]


def test_one_loop_for_training_and_validation():
    before = """
    def run(loader, train):
        for x, y in loader:
            loss = criterion(model(x), y)
            if train:
                loss.backward()
                optimizer.step()

    first = DataLoader(a, batch_size=64, shuffle=True)
    second = DataLoader(b, batch_size=64, shuffle=False)
    for epoch in range(3):
        run(first, True)
        run(second, False)
    """
    after, messages = shard_one(dedent(before))
    assert messages == []
    assert "first = DataLoader(a, batch_size=64 // dist.get_world_size(), sampler=DistributedSampler(a))\n" in after
    assert "second = DataLoader(b, batch_size=64, shuffle=False)\n" in after
    assert after.count("set_epoch") == 1


def test_of_loaders_made_together_names_tell_which_is_for_training():
    before = """
    def make(shuffle_train, shuffle_val):
        train = DataLoader(a, batch_size=64, shuffle=shuffle_train)
        test = DataLoader(b, batch_size=64, shuffle=shuffle_val)
        return train, test

    def run(loader, phase):
        for x, y in loader:
            loss = criterion(model(x), y)
            if phase == 'train':
                loss.backward()
                optimizer.step()

    train_loader, val_loader = make(True, False)
    for epoch in range(3):
        run(train_loader, 'train')
        run(val_loader, 'val')
    """
    after, messages = shard_one(dedent(before))
    assert messages == []
    assert "    train = DataLoader(a, batch_size=64 // dist.get_world_size(), sampler=" in after
    assert "    test = DataLoader(b, batch_size=64, shuffle=shuffle_val)\n" in after
    assert after.count("set_epoch") == 1


def test_the_steps_of_an_attack_are_no_training_loop():
    source = """
    for i in range(10):
        loss = criterion(model(x), y)
        loss.backward()
        x = attack.step(x, x.grad)
    """
    assert shard_one(dedent(source)) == (dedent(source), [])


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
    "a batch of one": ("train_loader = DataLoader(ds, shuffle=True)", "A batch of one sample cannot be shared"),
    "unknown keywords": (
        "train_loader = DataLoader(ds, **options())",
        "What the keyword dictionary holds cannot be told",
    ),
    "keywords of two loaders": (
        "kw = dict(batch_size=64)\ntrain_loader = DataLoader(ds, **kw)\nother = DataLoader(ds, **kw)",
        "or other loaders get it too",
    ),
    "starred arguments": ("train_loader = DataLoader(*parts)", "cannot be told apart"),
    "a condition": (
        "train_loader = DataLoader(Big(), batch_size=64) if big else DataLoader(Small(), batch_size=64)",
        "give it a name in a line before",
    ),
    "by hand": ("train_loader = [data[i:i + 64] for i in range(0, 640, 64)]", "No DataLoader of the project"),
    "a library": ("train_loader = library.loader(64)", "No DataLoader of the project"),
}


@pytest.mark.parametrize("form", LEFT)
def test_what_cannot_be_shared_out_is_left_and_reported(form):
    source, words = LEFT[form]
    after, messages = shard_one(source + "\n" + LOOP)
    assert after == source + "\n" + LOOP
    assert messages
    assert all(words in message and "in the time of one card" in message for message in messages)


def test_a_loader_made_when_a_module_is_imported_is_reported():
    files = {
        "train.py": "from data import train_loader\n" + LOOP,
        "data.py": HEAD + "train_loader = DataLoader(ds, batch_size=64, shuffle=True)\n",
    }
    after, findings = shard(files)
    assert after == {path: dedent(text) for path, text in files.items()}
    (finding,) = findings["data.py"]
    assert finding.message.startswith("This runs when the file is imported, before there are ranks")


def test_a_batch_that_ranks_cannot_share_evenly_is_reported():
    _, (message,) = shard_one("train_loader = DataLoader(ds, batch_size=100, shuffle=True)\n" + LOOP)
    assert "divides 100" in message
    assert "96 with 8 ranks" in message


def test_averages_are_over_the_share_of_a_rank():
    before = """
    def train(loader):
        for i, (x, y) in enumerate(loader):
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(x)
        return total / len(loader.dataset)

    def test(loader):
        for x, y in loader:
            right += count(model(x), y)
        return right / len(loader.dataset)

    train_loader = DataLoader(first, batch_size=64, shuffle=True)
    test_loader = DataLoader(second, batch_size=64)
    for epoch in range(3):
        train(train_loader)
        test(test_loader)
    """
    after, messages = shard_one(dedent(before))
    assert messages == []
    assert "return total / len(loader.sampler)" in after
    assert "return right / len(loader.dataset)" in after


def test_averages_over_the_whole_dataset_are_reported():
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
    told = [message for message in messages if "sees its share" in message]
    assert [message.partition(" divide by ")[2] for message in told] == [
        "len(loaders[phase].sampler) in place of sizes[phase]."
    ]


def test_a_method_of_the_program_called_step_trains():
    before = """
    class Trainer:
        def step(self, x, y):
            loss = criterion(self.model(x), y)
            loss.backward()
            self.optimizer.step()

        def fit(self, loader):
            for epoch in range(3):
                for x, y in loader:
                    self.step(x, y)

    Trainer().fit(DataLoader(data, batch_size=64, shuffle=True))
    """
    after, messages = shard_one(dedent(before))
    assert "sampler=DistributedSampler(data)" in after
    assert "loader.sampler.set_epoch(epoch)" in after
    assert messages == []


def test_tensors_of_the_size_of_a_batch_are_reported():
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


def test_a_random_split_without_a_seed_is_reported():
    before = "first, second = torch.utils.data.random_split(ds, [90, 10])\n"
    before += "train_loader = DataLoader(first, batch_size=64, shuffle=True)\n" + LOOP
    _, messages = shard_one(before)
    assert [message.partition(",")[0] for message in messages] == ["Each rank splits the data in another way"]
    assert shard_one("torch.manual_seed(1)\n" + before)[1] == []
    assert shard_one(before.replace("10])", "10], generator=g)"))[1] == []


@pytest.mark.parametrize(("given", "told"), [("download=True", True), ("download=False", False), ("train=True", False)])
def test_a_dataset_that_every_rank_downloads_is_reported(given, told):
    before = f"from torchvision import datasets\nds = datasets.MNIST('data', {given})\n"
    _, messages = shard_one(before + "train_loader = DataLoader(ds, batch_size=64, shuffle=True)\n" + LOOP)
    assert [message.partition(",")[0] for message in messages] == ["Every rank downloads into this folder"] * told


def test_evaluation_on_the_training_loader_is_reported():
    _, messages = shard_one(
        "train_loader = DataLoader(ds, batch_size=64, shuffle=True)\n"
        + LOOP
        + "\nfor x, y in train_loader:\n    count(x)\n"
    )
    assert [message.partition(",")[0] for message in messages] == ["train_loader may be the training loader"]


def test_a_comment_keeps_a_loader_as_it_is():
    source = "train_loader = DataLoader(ds, batch_size=64, shuffle=True)  # gpu2npu: skip\n" + LOOP
    assert shard_one(source) == (source, [])


def test_a_program_for_several_ranks_stays():
    source = (
        "sampler = DistributedSampler(ds) if many else None\ntrain_loader = DataLoader(ds, 8, sampler=sampler)\n" + LOOP
    )
    assert shard_one(source) == (source, [])


def test_a_comprehension_over_the_training_loader_is_reported():
    _, messages = shard_one(
        "train_loader = DataLoader(ds, batch_size=8, shuffle=True)\n"
        + LOOP
        + "total = sum(criterion(model(x), y) for x, y in train_loader)\n"
    )
    assert len([message for message in messages if message.startswith("train_loader may be")]) == 1


@pytest.mark.parametrize(
    "parts", ["x, y = (each.cuda() for each in next(batches))", "for each in next(batches): print(each)"]
)
def test_the_parts_of_a_batch_are_no_batches(parts):
    _, messages = shard_one(
        f"""
train_loader = DataLoader(ds, batch_size=8, shuffle=True)
batches = iter(train_loader)
for step in range(100):
    {parts}
    x, y = next(batches)
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""
    )
    assert not [message for message in messages if "may be the training loader" in message]
