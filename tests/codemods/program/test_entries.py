"""Programs that load modules, and take classes from them, by names that they make up at run time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

LOADER = """import importlib
import os

modules = [importlib.import_module(f"models.{n[:-3]}") for n in os.listdir("models") if n.endswith("_model.py")]


def create(options):
    for module in modules:
        kind = getattr(module, options["kind"], None)
        if kind is not None:
            return kind(options)
"""
MODEL = """import torch
from torch.nn.parallel import DataParallel, DistributedDataParallel


class Model:
    def __init__(self, options):
        self.net = self.on_device(torch.nn.Linear(2, 2).cuda(), options)

    def on_device(self, net, options):
        if options["dist"]:
            net = DistributedDataParallel(net)
        elif options["gpus"] > 1:
            net = DataParallel(net)
        return net

    def step(self, x):
        self.net(x).sum().backward()
"""
TRAIN = """import torch
from models import create


def main(options):
    START
    model = create(options)
    for x in options["data"]:
        model.step(x)
        torch.save(model.net, "model.pt")


if __name__ == "__main__":
    main({"kind": "Model"})
"""
# A script of its own, in no folder of what is loaded by name.
CONVERT = 'import torch\n\nif __name__ == "__main__":\n    torch.save(torch.load("a.pt"), "b.pt")\n'
After = Callable[[Mapping[str, str]], Mapping[str, str]]


def project(start: str) -> dict[str, str]:
    return {
        "convert.py": CONVERT,
        "models/__init__.py": LOADER,
        "models/one_model.py": MODEL,
        "train.py": TRAIN.replace("START", start),
    }


def test_a_class_that_is_taken_by_name_is_run_by_the_program_that_makes_its_processes(after: After) -> None:
    assert not after(project('torch.distributed.init_process_group("nccl")'))  # its branch for DataParallel is dead


def test_a_class_that_is_taken_by_name_is_run_by_the_program_that_trains_it(after: After) -> None:
    written = after(project("torch.manual_seed(0)"))
    assert set(written) == {"models/one_model.py", "train.py"}  # a script that it does not load writes as before
    assert 'dist.init_process_group("hccl")' in written["train.py"]
    assert "if dist.get_rank() == 0:" in written["train.py"]
    assert "device_ids=[torch.npu.current_device()])" in written["models/one_model.py"]


FIT = """import importlib
import torch


def plug_in(options):
    for plugin in options["plugins"]:
        importlib.import_module(plugin)
    return getattr(torch, options["kind"])


def main(options):
    plug_in(options)(options["x"]).sum().backward()


if __name__ == "__main__":
    main({"plugins": [], "kind": "relu"})
"""
SCORE = """import torch


def main(net, rows):
    net = torch.nn.DataParallel(net)
    return [net(row) for row in rows]


if __name__ == "__main__":
    main(torch.nn.Linear(2, 2).cuda(), [])
"""


def test_a_module_that_is_imported_for_its_effect_alone_gives_the_program_nothing(after: After) -> None:
    written = after({"app/fit.py": FIT, "app/score.py": SCORE})
    assert set(written) == {"app/score.py"}  # fit.py, which trains, does not come to it
    assert "    net = net.npu()\n" in written["app/score.py"]


SHARED = """import torch
from torch.nn.parallel import DataParallel


def run(net, writer, x):
    writer.add_scalar("loss", net(x).sum())


def train(net, writer, x):
    net.train()
    loss = net(x).sum()
    loss.backward()
    writer.add_scalar("loss", loss)
"""
OPERATOR = """import torch
import native


class Scale(torch.autograd.Function):
    @staticmethod
    def backward(ctx, grad):
        return native.backward(grad, ctx.x)
"""
SINGLE = """import torch
from torch.nn.parallel import DataParallel, DistributedDataParallel
from core import train
import operators

if __name__ == "__main__":
    net = torch.nn.Linear(2, 2)
    if rank >= 0:
        torch.distributed.init_process_group("nccl")
        net = DistributedDataParallel(net.cuda())
    train(net, writer, x)
"""
OTHER = """import torch
from core import CALLED
import operators

if __name__ == "__main__":
    net = torch.nn.DataParallel(torch.nn.Linear(2, 2)).cuda()
    net.train(False)
    CALLED(net, writer, x)
"""


def several(called: str) -> dict[str, str]:
    return {
        "core.py": SHARED,
        "operators.py": OPERATOR,
        "other.py": OTHER.replace("CALLED", called),
        "train.py": SINGLE,
    }


def test_a_method_of_its_name_does_not_call_a_function_and_an_operator_trains_nothing(after: After) -> None:
    written = after(several("run"))  # net.train(False) does not call train of core.py
    assert set(written) == {"other.py"}
    assert "net = torch.nn.Linear(2, 2).cuda()" in written["other.py"]


def test_what_a_program_may_run_without_a_group_looks_for_one(after: After) -> None:
    written = after(several("train"))
    assert "dist.init_process_group" in written["other.py"]
    assert "if not dist.is_initialized() or dist.get_rank() == 0:" in written["core.py"]
