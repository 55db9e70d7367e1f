"""Tests of code that programs without a process group may call: a project's tests, and programs of others."""

import pytest

from gpu2npu.codemods.choice import CodemodChoice, Installation
from gpu2npu.codemods.program.entries import Entry, entry_of
from gpu2npu.codemods.program.files import TrainingProgram
from gpu2npu.codemods.program.group_condition import always_has_group
from gpu2npu.engine.torch_library import TORCH

TRAINER = """import torch
from torch import nn

class Trainer:
    def __init__(self, model, gpus):
        if len(gpus) > 1:
            model = nn.DataParallel(model, device_ids=gpus)
        self.model = model

    def fit(self, loader):
        for epoch in range(2):
            for x, y in loader:
                self.model(x).sum().backward()
                self.optimizer.step()
        torch.save(self.model.state_dict(), "model.pth")
"""
TRAIN = """from torch.utils.data import DataLoader
from trainer import Trainer

if __name__ == "__main__":
    Trainer(net, [0, 1]).fit(DataLoader(data, batch_size=8, shuffle=True))
"""
TEST = "from trainer import Trainer\n\ndef test_fit():\n    Trainer(net, []).fit(batches)\n"


def test_code_that_tests_call_checks_for_the_group_first(after):
    text = after({"trainer.py": TRAINER, "train.py": TRAIN, "test_trainer.py": TEST})["trainer.py"]
    assert "if (dist.get_world_size() if dist.is_initialized() else 1) > 1:" in text
    assert 'if isinstance(getattr(loader, "sampler", None), DistributedSampler):\n                loader.' in text
    assert "if not dist.is_initialized() or dist.get_rank() == 0:\n            torch.save(" in text


def test_code_that_only_programs_run_has_the_group(after):
    text = after({"trainer.py": TRAINER, "train.py": TRAIN})["trainer.py"]
    assert "is_initialized" not in text and "            loader.sampler.set_epoch(epoch)\n" in text


def test_a_wrap_without_a_condition_is_made_in_a_group(after):
    trainer = TRAINER.replace("        if len(gpus) > 1:\n    ", "")
    text = after({"trainer.py": trainer, "train.py": TRAIN, "test_trainer.py": TEST})["trainer.py"]
    assert "if dist.is_initialized() else" in text and "len(gpus)" not in text


@pytest.mark.parametrize(
    ("installed", "checks"),
    [
        (Installation(("lib",)), True),
        (Installation(("other",)), False),
        (Installation(commands=("lib/trainer.py",)), False),
    ],
)
def test_what_is_installed_checks_for_the_group_first(installed, checks, after):
    files = {"lib/__init__.py": "", "lib/trainer.py": TRAINER, "train.py": TRAIN.replace("trainer", "lib.trainer")}
    text = after(files, CodemodChoice(installed=installed))["lib/trainer.py"]
    assert ("is_initialized" in text) is checks


@pytest.mark.parametrize(("commands", "checks"), [((), False), (("lib/cli.py",), True)])
def test_a_script_in_a_package_is_a_program_unless_it_is_a_command(commands, checks, after):
    script = TRAINER + TRAIN.replace("from trainer import Trainer\n", "")
    files = {"lib/__init__.py": "", "lib/cli.py": script}
    text = after(files, CodemodChoice(installed=Installation(("lib",), commands)))["lib/cli.py"]
    assert "init_process_group" in text and ("is_initialized" in text) is checks


FITTING = """import torch
from torch import nn
from torch.utils.data import DataLoader

class Trainer:
    def __init__(self, model):
        self.model = nn.DataParallel(model)

    def fit(self, data):
        loader = DataLoader(data, batch_size=8, shuffle=True)
        for epoch in range(2):
            for x, y in loader:
                self.model(x).sum().backward()
                self.optimizer.step()
        torch.save(self.model.state_dict(), "model.pth")
"""


def test_a_trainer_that_no_program_of_the_project_runs_works_with_and_without_a_group(after, findings):
    text = after({"trainer.py": FITTING})["trainer.py"]
    assert "init_process_group" not in text and "nn.DataParallel" not in text
    assert "[torch.npu.current_device()]) if dist.is_initialized() else nn.Sequential(" in text
    assert "batch_size=8 // (dist.get_world_size() if dist.is_initialized() else 1)" in text
    assert "sampler=DistributedSampler(data) if dist.is_initialized() else None" in text
    assert "if not dist.is_initialized() or dist.get_rank() == 0:\n            torch.save(" in text
    ((_, line, message),) = findings({"trainer.py": FITTING})
    assert line == 7 and "No script of the project comes here" in message


LIBRARY = """import torch
from torch import nn

class Model:
    def train(self, net, batches):
        net = nn.DataParallel(net)
        for x in batches:
            net(x).mean().backward()
        return self.evaluate(net, batches)

    def evaluate(self, net, batches):
        net = nn.DataParallel(net)
        return [net(x) for x in batches]
"""


def test_a_function_of_a_library_that_only_evaluates_has_one_npu(after, findings):
    text = after({"model.py": LIBRARY})["model.py"]
    train, evaluate = text.split("    def evaluate")
    assert "if dist.is_initialized() else net.npu()" in train and "net = net.npu()\n" in evaluate
    assert "nothing is trained" in next(message for _, line, message in findings({"model.py": LIBRARY}) if line == 12)


def test_a_function_that_gives_the_model_away_may_be_for_training(after):
    library = "from torch import nn\n\ndef spread(net):\n    net = nn.DataParallel(net)\n    return net\n"
    files = {"spread.py": library, "steps.py": "def step(loss):\n    loss.backward()\n"}
    assert "if dist.is_initialized() else net.npu()" in after(files)["spread.py"]
    assert (
        "is_initialized" not in after({**files, "spread.py": library.replace("return net", "print(net)")})["spread.py"]
    )


MAKERS = {
    "lightning": "lightning.Fabric(accelerator='gpu')",
    "mmengine.dist": "mmengine.dist.init_dist('pytorch')",
    "timm.utils": "timm.utils.init_distributed_device(options)",
}


@pytest.mark.parametrize("module", MAKERS)
def test_a_library_that_makes_the_group_leaves_one_card_to_data_parallel(after, findings, module):
    code = f"import {module}\nfrom torch import nn\n\nif options.many:\n    {MAKERS[module]}\nelse:\n"
    code += "    net = nn.DataParallel(net)\nnet(x).sum().backward()\n"
    assert "    net = net.npu()\n" in after({"fit.py": code})["fit.py"]
    assert any("makes its processes itself (fit.py:5)" in message for _, _, message in findings({"fit.py": code}))


def test_a_model_that_a_library_gives_away_for_evaluation_has_one_npu(after):
    library = "from torch import nn\n\ndef judge(net, place):\n    net = nn.DataParallel(net).eval().to(place)\n"
    files = {"judge.py": library + "    return net\n", "steps.py": "def step(loss):\n    loss.backward()\n"}
    assert "    net = net.npu().eval().to(place)\n" in after(files)["judge.py"]


def test_a_class_of_accelerate_makes_the_group_itself(after, findings):
    engine = "from accelerate import Accelerator\nfrom torch import nn\n\nclass Engine(Accelerator):\n"
    engine += "    def prepare_model(self, model):\n        model = nn.DataParallel(model)\n        return model\n"
    files = {"engine.py": engine, "steps.py": "def step(loss):\n    loss.backward()\n"}
    assert "        model = model.npu()\n" in after(files)["engine.py"]
    assert "makes its processes itself (engine.py:4)" in next(message for _, line, message in findings(files))


def test_the_test_of_a_wrap_is_no_library(after):
    test = "from torch import nn\n\ndef test_wrap():\n    net = nn.DataParallel(net)\n    net(x).sum().backward()\n"
    assert after({"test_wrap.py": test}) == {}


@pytest.mark.parametrize("card", ["gpu", "place"])
@pytest.mark.parametrize(("script", "stays"), [("", True), ("\nif __name__ == '__main__':\n    put(net, 0)\n", False)])
def test_the_card_that_a_library_is_given_stays(script, stays, card, after):
    library = (
        f"import torch\nfrom torch import nn\n\ndef put(net, {card}):\n    torch.cuda.set_device({card})\n"
        "    net = nn.DataParallel(net)\n    net(batch).mean().backward()\n"
    )
    text = after({"library.py": library + script})["library.py"]
    assert (f"set_device({card})" in text) is stays and "DistributedDataParallel" in text


def test_a_function_that_no_program_calls_checks_for_the_group_first(after):
    unused = "\ndef info(model):\n    torch.save(model.state_dict(), 'info.pth')\n"
    text = after({"trainer.py": TRAINER + unused, "train.py": TRAIN})["trainer.py"]
    assert "    if not dist.is_initialized() or dist.get_rank() == 0:\n        torch.save(model.state" in text
    assert text.count("is_initialized") == 1


BRAIN = """from torch.nn import DataParallel as DP

class Brain:
    def wrap(self):
        for name, module in self.modules.items():
            module = DP(module)
            self.modules[name] = module

    def fit(self, batch):
        self.compute_objectives(batch).backward()
"""
SAVE = "\n    def save(self, name):\n        return self.modules[name].module.state_dict()\n"
GUARDED = SAVE.replace("return", "if hasattr(self.modules[name], 'module'):\n            return")
LOSES = "which has none on one NPU without a process group"


@pytest.mark.parametrize("stored", ["self.modules[name] = module", "self.modules.add_module(name, module)"])
def test_a_model_that_a_library_stores_out_of_sight_stays_with_a_finding(stored, after, findings):
    files = {"brain.py": BRAIN.replace("self.modules[name] = module", stored) + SAVE}
    ((_, line, message),) = findings(files)
    assert after(files) == {} and line == 6 and "no script that comes here was found" in message


def test_such_a_model_stays_where_a_subclass_in_another_file_reads_its_module(after, findings):
    untrained = BRAIN.replace(".backward()", "")
    files = {"brain.py": untrained, "recipe.py": f"from brain import Brain\n\nclass Recipe(Brain):{SAVE}"}
    ((_, line, message),) = findings(files)
    assert after(files) == {} and line == 6 and LOSES in message and "recipe.py:5" in message
    assert "module = module.npu()" in after({"brain.py": untrained + GUARDED})["brain.py"]


def test_a_model_that_takes_two_arguments_and_gives_its_module_stays(after, findings):
    trainer = FITTING.replace("self.model(x)", "self.model(x, y)").replace(
        "model.state_dict", "model.module.state_dict"
    )
    ((_, line, message),) = findings({"trainer.py": trainer})
    assert line == 7 and LOSES in message and "trainer.py:15" in message
    assert "nn.DataParallel(model)" in after({"trainer.py": trainer}).get("trainer.py", trainer)


@pytest.mark.parametrize(("start", "has_one"), [("step_0(net)", True), ("if gpus:\n    step_0(net)", False)])
def test_functions_that_all_call_each_other_are_looked_at_once(start, has_one, monkeypatch):
    names = [f"step_{number}" for number in range(8)]
    calls = "".join(f"    {name}(net)\n" for name in names)
    steps = "".join(f"def {name}(net):\n{calls}" for name in names)
    group = "def begin(net):\n    torch.distributed.init_process_group('nccl')\n"
    source = f"import torch\n{group}{steps}{start}\n".replace(
        "def step_7(net):\n", "def step_7(net):\n    begin(net)\n"
    )
    program = TrainingProgram({"train.py": source.encode()}, TORCH, "2.7.1", False)
    entry = entry_of(program, "train.py")
    looked_at = []
    runs = Entry.runs
    monkeypatch.setattr(Entry, "runs", lambda *arguments: looked_at.append(1) or runs(*arguments))
    assert always_has_group(entry) is has_one
    assert len(looked_at) < 2 * source.count("(")


def test_a_function_whose_name_another_file_defines_itself_is_not_reached(after):
    kit = "import torch\n\ndef show():\n    torch.save(1, 'a.pt')\n"
    train = TRAIN.replace(
        "from trainer import Trainer\n", "import kit\nfrom trainer import Trainer\n\ndef show(): ...\n\n"
    )
    files = {"trainer.py": TRAINER, "train.py": f"{train}    show()\n", "kit.py": kit}
    assert "    if not dist.is_initialized() or dist.get_rank() == 0:\n" in after(files)["kit.py"]
    files["train.py"] = files["train.py"].replace("    show()", "    kit.show()")
    assert "    if dist.get_rank() == 0:\n" in after(files)["kit.py"]


SURROGATE = """import torch
from torch.utils.data import DataLoader, TensorDataset

def explain(inputs, outputs):
    net = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in DataLoader(TensorDataset(inputs, outputs), batch_size=8):
        (net(x) - y).square().sum().backward()
        optimizer.step()
    return net
"""
WRAPPING = """import torch
from surrogate import explain

def wrapped(net):
    return torch.nn.DataParallel(net)
"""


@pytest.mark.parametrize(
    ("more", "is_shared"),
    [
        ("", False),
        ("\ndef fit(net, x, y):\n    return explain(wrapped(net), x, y)\n", True),
        ("\ndef fit(x, y):\n    return explain(x, y)\n", False),
    ],
)
def test_a_library_shares_out_only_what_is_called_with_its_wrapped_models(more, is_shared, after):
    files = after(
        {
            "wrapping.py": WRAPPING + more,
            "surrogate.py": SURROGATE,
            "main.py": "import surrogate\nsurrogate.explain(x, y)\n",
        }
    )
    assert "dist.is_initialized() else" in files["wrapping.py"]
    assert ("surrogate.py" in files) is is_shared
    assert ("main.py" in files) is is_shared
