"""The sampler gets the epoch in the loop that surrounds training, wherever that is."""

import ast
from textwrap import dedent

import pytest

from gpu2npu.codemods.data_parallel.loaders.sharding import shard_loaders
from gpu2npu.codemods.program.files import TrainingProgram
from gpu2npu.engine import ProjectContext
from gpu2npu.records import FileRewrite
from tests.codemods.edited import after_edits

MAKE = """\
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler
def make():
    return DataLoader(ds, batch_size=64, shuffle=True)
def step(batch):
    model(batch).backward()
    optimizer.step()
"""


def shard(files):
    """The files after the rewrite, and the messages of what was found."""
    files = {path: dedent(text) for path, text in files.items()} | {"data.py": MAKE}
    sources = {path: text.encode() for path, text in files.items()}
    rewrites = shard_loaders(TrainingProgram.of(sources, ProjectContext(files=frozenset(sources))), ["train.py"])
    after = {path: after_edits(text, rewrites.get(path, FileRewrite()).edits) for path, text in files.items()}
    for text in after.values():
        ast.parse(text)
    assert "DistributedSampler(ds)" in after["data.py"]
    found = [finding for rewrite in rewrites.values() for finding in rewrite.found]
    return after, [finding.message for finding in found]


FORMS = {
    "in the loop": """
        from data import make, step
        loader = make()
        for epoch in range(3):
            # one pass
            +loader.sampler.set_epoch(epoch)
            model.train()
            for batch in loader:
                step(batch)
        """,
    "in one line": """
        from data import make, step
        loader = make()
        def train():
            for batch in loader: step(batch)
        for i in range(3): +loader.sampler.set_epoch(i); train()
        """,
    "around phases": """
        from data import make, step
        loader = make()
        for epoch in trange(3):
            +loader.sampler.set_epoch(epoch)
            for half in [0, 1]:
                for batch in tqdm(loader):
                    step(batch)
        """,
    "a bar of its own": """
        from data import make, step
        loader = make()
        epochs = tqdm(range(3))
        for epoch in epochs:
            +loader.sampler.set_epoch(epoch)
            bar = tqdm(enumerate(loader))
            for i, batch in bar:
                step(batch)
        """,
    "where the function is called": """
        from data import make, step
        def train(args, loader, epoch):
            for batch in loader:
                step(batch)
        def main():
            first = make()
            for e in range(args.start, 10):
                +first.sampler.set_epoch(e)
                train(args, first, e)
        main()
        """,
    "two functions up": """
        from data import make, step
        def inner(batches):
            for batch in zip(batches, range(5)):
                step(batch)
        def outer(state, loader=None):
            inner(loader)
        loaders = {'train': make()}
        for epoch in range(3):
            +loaders['train'].sampler.set_epoch(epoch)
            outer(1, loader=loaders['train'])
        """,
    "a trainer": """
        from data import make, step
        class Trainer:
            def __init__(self):
                self.loader = make()
            def run_epoch(self):
                for batch in self.loader:
                    step(batch)
            def fit(self):
                for epoch in range(3):
                    +self.loader.sampler.set_epoch(epoch)
                    self.run_epoch()
        Trainer().fit()
        """,
    "a trainer used from outside": """
        from data import make, step
        class Trainer:
            def __init__(self, loader):
                self.loader = loader
            def run_epoch(self):
                for batch in self.loader:
                    step(batch)
        trainer = Trainer(make())
        for epoch in range(3):
            +trainer.loader.sampler.set_epoch(epoch)
            trainer.run_epoch()
        """,
    "a loader made in each epoch": """
        from data import make, step
        for epoch in range(3):
            loader = make()
            +loader.sampler.set_epoch(epoch)
            for batch in loader:
                step(batch)
        """,
    "a loader of the function": """
        from data import make, step
        def train(epoch):
            loader = make()
            +loader.sampler.set_epoch(epoch)
            for batch in loader:
                step(batch)
        for n in range(3):
            train(n)
        """,
    "an object around the loader": """
        from data import make, step
        class Data:
            def __init__(self):
                self.loader = make()
            def load(self):
                return self
            def __iter__(self):
                for i, batch in enumerate(self.loader):
                    if i < 10:
                        yield batch
        def create():
            data = Data()
            return data.load()
        dataset = create()
        for epoch in range(3):
            +dataset.loader.sampler.set_epoch(epoch)
            for i, batch in enumerate(dataset):
                step(batch)
        """,
    "next": """
        from data import make, step
        loader = make()
        for epoch in range(3):
            +loader.sampler.set_epoch(epoch)
            batches = iter(loader)
            for i in steps:
                step(next(batches))
        """,
    "an iterator of the trainer": """
        from data import make, step
        class Trainer:
            def __init__(self):
                self.loader = make()
                self.batches = iter(self.loader)
            def take(self):
                try:
                    return next(self.batches)
                except StopIteration:
                    self.batches = iter(self.loader)
                    return next(self.batches)
        class Long(Trainer):
            def run_epoch(self):
                for i in steps:
                    step(next(self.batches))
            def fit(self):
                for epoch in range(3):
                    +self.loader.sampler.set_epoch(epoch)
                    self.run_epoch()
        Long().fit()
        """,
    "an iterator that is used from outside": """
        from data import make, step
        class Data:
            def __init__(self):
                self.loader = make()
                self.batches = iter(self.loader)
        data = Data()
        for epoch in range(3):
            +data.loader.sampler.set_epoch(epoch)
            for i in steps:
                step(next(data.batches))
        """,
}


@pytest.mark.parametrize("form", FORMS)
def test_the_sampler_gets_the_epoch(form):
    marked = dedent(FORMS[form])
    before = "".join(line for line in marked.splitlines(True) if not line.lstrip().startswith("+"))
    before = before.replace("+loader.sampler.set_epoch(i); ", "")
    expected = marked.replace("+", "")
    lines = expected.splitlines(True)
    for index, line in enumerate(lines[1:], 1):  # above the comments of what was first
        if "set_epoch" in line and lines[index - 1].lstrip().startswith("#"):
            lines[index - 1 : index + 1] = [line, lines[index - 1]]
    after, messages = shard({"train.py": before})
    assert after["train.py"] == "".join(lines)
    assert messages == []


UNTOLD = {
    "while": (
        "from data import make, step\nloader = make()\nwhile True:\n    for batch in loader:\n        step(batch)\n"
    ),
    "one pass": "from data import make, step\nloader = make()\nfor batch in loader:\n    step(batch)\n",
    "a stream": (
        "from data import make, step\ndef stream(batches):\n    while True:\n        for batch in batches:\n"
        "            yield batch\nloader = make()\nfor batch in stream(loader):\n    step(batch)\n"
    ),
    "an iterator of another function": (
        "from data import make, step\nbatches = iter(make())\ndef train():\n    for i in steps:\n"
        "        step(next(batches))\nfor epoch in range(3):\n    train()\n"
    ),
}

_TRAINER = """
class Base:
    def __init__(self):
        {}
    def run(self):
        for epoch in range(3):
            self.train()
    def train(self):
        pass
class Trainer(Base):
    def __init__(self):
        super().__init__()
        self.more = make()
    def train(self):
        for batch in self.more:
            step(batch)
Trainer().run()
"""


def test_the_loop_of_a_base_class_gets_no_attribute_of_a_class_below():
    source = "from data import make, step" + _TRAINER.format("pass")
    after, (message,) = shard({"train.py": source})
    assert after["train.py"] == source
    assert "self.more.sampler.set_epoch(n)" in message
    source = "from data import make, step" + _TRAINER.format("self.more = None")
    after, messages = shard({"train.py": source})
    assert messages == []
    assert "range(3):\n            self.more.sampler.set_epoch(epoch)" in after["train.py"]


@pytest.mark.parametrize("form", UNTOLD)
def test_where_no_epoch_is_known_the_steps_are_reported(form):
    after, (message,) = shard({"train.py": UNTOLD[form]})
    assert after["train.py"] == UNTOLD[form]
    assert "sampler.set_epoch(n)" in message
    assert "count the passes over the loader from 0" in message


def test_a_loader_of_a_module_gets_the_epoch_in_that_module():
    files = {
        "train.py": "from engine import train\nfor epoch in range(3):\n    train(epoch)\n",
        "engine.py": """
            from data import make, step
            def train(epoch, rate=1):
                loader = get()
                for batch in loader:
                    step(batch)
            def get():
                return make()
            """,
    }
    after, messages = shard(files)
    assert after["train.py"] == files["train.py"]
    assert "    loader = get()\n    loader.sampler.set_epoch(epoch)\n    for batch" in after["engine.py"]
    assert messages == []
