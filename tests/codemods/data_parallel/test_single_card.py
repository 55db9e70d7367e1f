"""A script for one card becomes one for many: where its model is wrapped, and what is read from the model itself."""

import pytest

from gpu2npu.codemods import CodemodChoice, CodemodError, plan_codemods
from gpu2npu.engine import ProjectContext
from tests.codemods.edited import after_edits

HEAD = "import os\nimport torch\nimport torch.distributed as dist\nfrom torch import nn\n"
TAIL = "\n\nif __name__ == '__main__':\n    main()\n"
WRAP = "nn.parallel.DistributedDataParallel({}, device_ids=[torch.npu.current_device()])"


def after(body, target="net", **others):
    """The rewritten code between the imports and the guard."""
    source = HEAD + body + TAIL
    files = {"train.py": source} | {f"{name}.py": text for name, text in others.items()}
    sources = {path: text.encode() for path, text in files.items()}
    choice = CodemodChoice(main="train.py", target_model=target)
    rewrites = plan_codemods(sources, ProjectContext(files=frozenset(sources)), choice).rewrites
    texts = {
        path: after_edits(files[path], rewrites[path].edits) if path in rewrites else files[path] for path in files
    }
    return texts["train.py"].partition("from torch import nn\n")[2].partition("\n\nif __name__")[0], texts


@pytest.mark.parametrize(
    ("before", "wrap", "below"),
    [
        # Below the last statement that moves it, above the optimizer.
        ("    net = Net().cuda()\n", "net", "    o = SGD(net.parameters())\n"),
        ("    net = Net()\n    net.to(device)\n", "net", "    o = SGD(net.parameters())\n"),
        (
            "    net = Net()\n    if cuda:\n        net.cuda()\n",
            "net",
            "    o = SGD(net.parameters())\n    net.to('cpu')\n",
        ),
        ("    net, o = make()\n", "net.npu()", "    for x in data:\n        net(x).backward()\n"),
        ("    net = Net()\n", "net.npu()", "    o = SGD(net.parameters())\n"),
    ],
)
def test_where_the_model_is_wrapped(before, wrap, below):
    result, _ = after(f"\ndef main():\n{before}{below}")
    assert result == f"\ndef main():\n{before}    net = {WRAP.format(wrap)}\n{below}"


def test_a_model_that_is_an_attribute():
    body = """
class Trainer:
    def __init__(self, net):
        self.net = net.cuda()
        self.optimizer = SGD(self.net.parameters())

    def save(self):
        print(self.net.name, self.net.training)

def main():
    Trainer(net).save()
"""
    result, _ = after(body, target="self.net")
    wrapped = f"        self.net = net.cuda()\n        self.net = {WRAP.format('self.net')}\n"
    assert result == body.replace("        self.net = net.cuda()\n", wrapped).replace(
        "self.net.name", "self.net.module.name"
    )


def test_what_the_model_alone_has_is_taken_from_it_in_other_functions_and_files():
    body = """from other import Saver, report

def main():
    net = Net().cuda()
    o = SGD(net.parameters())
    print(net.state_dict(), net.depth)
    report(1, model=net)
    Saver(net).keep()
"""
    other = """def report(step, model):
    model.eval()
    print(model.metric(step), model(step))

def unrelated(model):
    print(model.metric(2))

class Saver:
    def __init__(self, model):
        self.model = model

    def keep(self):
        return self.model.state_dict()
"""
    result, texts = after(body, other=other)
    assert "print(net.module.state_dict(), net.module.depth)" in result
    assert texts["other.py"] == other.replace("model.metric(step)", "model.module.metric(step)").replace(
        "self.model.state_dict", "self.model.module.state_dict"
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("\ndef main():\n    other = 1\n", "'train.py' never assigns the target model 'net'"),
        ("\ndef main():\n    net = 1\n    dist.init_process_group('gloo')\n", r"\(train.py:8\)"),
    ],
)
def test_what_cannot_be_rewritten_is_reported(body, message):
    with pytest.raises(CodemodError, match=message):
        after(body)


ENGINE = """from base import Base


class Engine(Base):
    def __init__(self, net, data):
        self.core, self.data = net.cuda(), data

    @property
    def model(self):
        return self.core

    def run(self):
        copied = self.core
        copied.rate()
        self.model.rate()
"""
BASE = """class Base:
    def finish(self):
        return self.core.rate()


def plain(net):
    {plain}
"""
PLAIN = [
    "return net.module if hasattr(net, 'module') else net",
    "return getattr(net, 'module', net)",
    "return net.module if is_parallel(net) else net",
    "if is_parallel(net):\n        return net.module\n    return net",
    "if isinstance(net, (nn.DataParallel, DDP)):\n        net = net.module\n    return net",
    "if hasattr(net, 'module'):\n        return plain(net.module)\n    return net",
    "if not isinstance(net, DDP):\n        return net\n    return net.module",
    "return hasattr(net, 'module') and net.module or net",
]


@pytest.mark.parametrize("plain", PLAIN)
def test_a_class_of_another_file_that_has_the_model(plain):
    body = """from engine import Engine
from base import plain

def main():
    net = Net()
    engine = Engine(net, data)
    engine.run()
    print(engine.core.rate(), plain(net).rate())
"""
    result, texts = after(f"\n{body}", engine=ENGINE, base=BASE.format(plain=plain))
    assert "print(engine.core.module.rate(), plain(net).rate())" in result
    assert texts["engine.py"].count(".module.rate()") == 2
    assert "return self.core.module.rate()" in texts["base.py"]


@pytest.mark.parametrize(
    ("head", "use"),
    [
        ("def log(step, **parts):\n    print(parts['net'].rate())\n", "log(1, net=net)"),
        ("def ask(function, it):\n    return function(it)\n", "ask(lambda it: it.rate(), net)"),
        ("", "for each in [net]:\n        each.rate()"),
        ("from types import SimpleNamespace\n", "all = SimpleNamespace(net=net)\n    all.net.rate()"),
        ("from functools import partial\ndef ask(it, step):\n    it.rate()\n", "partial(ask, net)(1)"),
        ("class Box:\n    pass\n", "box = Box()\n    setattr(box, 'net', net)\n    getattr(box, 'net').rate()"),
        ("", "if (other := net) is not None:\n        other.rate()"),
        ("", "parts = {'net': net}\n    parts['net'].rate()"),
    ],
)
def test_a_model_that_is_handed_on_by_what_holds_it(head, use):
    body = f"{head}\ndef main():\n    net, o = make()\n    o.step()\n    {use}\n"
    result, _ = after(body)
    assert result.count(".module.rate()") == 1
