"""Training loaders are shared out, and evaluation loaders stay whole."""

from textwrap import dedent

import pytest

HEAD = "import torch\nimport torch.distributed as dist\nfrom torch.utils.data import DataLoader, DistributedSampler\n"
LOOP = """
for epoch in range(3):
    for x, y in train_loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
"""
LOOP_WITH_EPOCH = LOOP.replace("range(3):\n", "range(3):\n    train_loader.sampler.set_epoch(epoch)\n")


# What is before the training loop: before, after.
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
    "by an expression in parentheses": (
        "train_loader = DataLoader(ds, batch_size=64, shuffle=(s := True), drop_last=(d := a))\n",
        "train_sampler = DistributedSampler(ds, shuffle=(s := True), drop_last=(d := a))\n"
        "train_loader = DataLoader(ds, batch_size=64 // dist.get_world_size(), "
        "sampler=train_sampler, drop_last=(d := a))\n",
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
def test_a_training_loader_is_shared_out(form, shard_one):
    before, after = FORMS[form]
    assert shard_one(before + LOOP) == (after + LOOP_WITH_EPOCH, [])


def test_a_loader_that_is_not_shuffled_keeps_its_order(shard_one):
    before = "train_loader = DataLoader(ds, batch_size=64)\n"
    after = (
        "train_loader = DataLoader(ds, batch_size=64 // dist.get_world_size(), "
        "sampler=DistributedSampler(ds, shuffle=False))\n"
    )
    assert shard_one(before + LOOP) == (after + LOOP, [])


def test_imports_are_added(shard):
    after, _ = shard(
        {
            "train.py": "import torch\nfrom torch.utils.data import DataLoader\n"
            "train_loader = DataLoader(ds, batch_size=64, shuffle=True)\n" + LOOP
        }
    )
    assert after["train.py"].startswith(HEAD)


def test_evaluation_loaders_stay_whole(shard_one):
    source = """
    val_loader = DataLoader(val, batch_size=64, shuffle=True)
    with torch.no_grad():
        for x, y in val_loader:
            right += (model(x).argmax(1) == y).sum().item()
    """
    assert shard_one(dedent(source)) == (dedent(source), [])


def test_an_attack_on_the_test_set_trains_nothing(shard_one):
    source = """
    test_loader = DataLoader(ds, batch_size=64, shuffle=True)
    def attack():
        for x, y in test_loader:
            loss = criterion(model(x), y)
            loss.backward()
            x = x + eps * x.grad.sign()
    """
    assert shard_one(dedent(source)) == (dedent(source), [])


def test_loaders_are_found_across_functions_and_files(shard):
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


def test_a_function_that_makes_both_loaders_is_passed_which_is_for_training(shard_one):
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
    assert shard_one(dedent(before) + LOOP) == (dedent(after) + LOOP_WITH_EPOCH, [])


def test_one_loop_for_training_and_validation(shard_one):
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


def test_of_loaders_made_together_names_show_which_is_for_training(shard_one):
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


def test_the_steps_of_an_attack_are_no_training_loop(shard_one):
    source = """
    for i in range(10):
        loss = criterion(model(x), y)
        loss.backward()
        x = attack.step(x, x.grad)
    """
    assert shard_one(dedent(source)) == (dedent(source), [])


def test_averages_are_over_the_share_of_a_rank(shard_one):
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


@pytest.mark.parametrize(
    ("count", "is_share"),
    [
        ("len(loader.dataset) // size", False),
        ("int(math.ceil(len(loader.dataset) / float(size)))", False),
        ("len(loader.dataset) // loader.batch_size", True),
        ("total / len(loader.dataset)", True),
    ],
)
def test_steps_that_are_counted_by_the_batch_of_all_ranks(shard_one, count, is_share):
    before = f"""
    def train(loader, size):
        n = {count}
        for x, y in loader:
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        return n

    train_loader = DataLoader(first, batch_size=64, shuffle=True)
    for epoch in range(3):
        train(train_loader, 64)
    """
    after, _ = shard_one(dedent(before))
    assert ("len(loader.sampler)" in after, "len(loader.dataset)" in after) == (is_share, not is_share)


def test_steps_that_a_script_counts_outside_of_its_loop(shard_one):
    before = """
    train_loader = DataLoader(first, batch_size=64, shuffle=True)
    steps = len(train_loader.dataset) // train_loader.batch_size
    size = len(train_loader.dataset)
    for x, y in train_loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    """
    after, _ = shard_one(dedent(before))
    assert "steps = len(train_loader.sampler) // train_loader.batch_size" in after
    assert "size = len(train_loader.dataset)" in after


def test_a_method_of_the_program_called_step_trains(shard_one):
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


def test_a_comment_keeps_a_loader_as_it_is(shard_one):
    source = "train_loader = DataLoader(ds, batch_size=64, shuffle=True)  # gpu2npu: skip\n" + LOOP
    assert shard_one(source) == (source, [])


def test_a_program_for_several_ranks_stays(shard_one):
    source = (
        "sampler = DistributedSampler(ds) if many else None\ntrain_loader = DataLoader(ds, 8, sampler=sampler)\n" + LOOP
    )
    assert shard_one(source) == (source, [])


@pytest.mark.parametrize(
    "parts", ["x, y = (each.cuda() for each in next(batches))", "for each in next(batches): print(each)"]
)
def test_the_parts_of_a_batch_are_no_batches(parts, shard_one):
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


def test_a_loader_of_another_class_stays_whole(after):
    base = dedent("""\
        import torch
        from torch.utils.data import DataLoader


        class Trainer:
            def make(self, ds):
                self.batches = DataLoader(ds, batch_size=8, shuffle=True)
                self.model = torch.nn.DataParallel(torch.nn.Linear(2, 2))


        class Tester:
            def make(self, ds):
                loader = DataLoader(ds, batch_size=8)
                self.batches = loader
        """)
    train = dedent("""\
        from base import Trainer

        trainer = Trainer()
        trainer.make(ds)
        for x in trainer.batches:
            trainer.model(x).sum().backward()
            optimizer.step()
        """)
    test = "from base import Tester\n\ntester = Tester()\ntester.make(ds)\nfor x in tester.batches:\n    print(x)\n"
    changed = after({"base.py": base, "train.py": train, "test.py": test})
    assert "batch_size=8 // dist.get_world_size(), sampler=DistributedSampler(ds))" in changed["base.py"]
    assert "loader = DataLoader(ds, batch_size=8)\n" in changed["base.py"]
    assert changed.keys() == {"base.py", "train.py"}


STEPS = """
class Net(torch.nn.Module):
    def backward(self, loss):
        loss.backward()
        self.optimizer.step()
class Trainer:
    def __init__(self, config):
        self.net = Net().to(config.device)

    def train(self):
        train_loader = DataLoader(ds, batch_size=64, shuffle=True)
        for x in train_loader:
            self.net.backward(self.net(x))
Trainer(config).train()
"""
SCALED = """from timm.utils import NativeScaler
scale = NativeScaler()
train_loader = DataLoader(ds, batch_size=64, shuffle=True)
for x in train_loader:
    scale(net(x), optimizer, parameters=net.parameters())
"""


@pytest.mark.parametrize("source", [STEPS, SCALED], ids=["a module that was moved trains", "timm's scaler does"])
def test_what_trains_is_known_by_its_class(shard_one, source):
    shared = "DataLoader(ds, batch_size=64 // dist.get_world_size(), sampler=DistributedSampler(ds))"
    after, _ = shard_one(source)
    assert after == source.replace("DataLoader(ds, batch_size=64, shuffle=True)", shared)
    other = source.replace("timm.utils", "tools").replace("Net().to", "make().to").replace("class Net", "class Other")
    assert shard_one(other)[0] == other
