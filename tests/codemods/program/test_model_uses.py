"""Tests for a model's wrapper, and functions that give the model without it."""

import ast

import pytest

from gpu2npu.codemods.program.files import TrainingProgram
from gpu2npu.codemods.program.model_uses import ModelUses
from gpu2npu.engine import ProjectContext
from gpu2npu.python.tree.place import Place

HEAD = (
    "from torch import nn\nfrom torch.nn.parallel import DistributedDataParallel as Many\nimport lib\nimport wrappers\n"
)
WRAPPERS = """import torch
from torch import nn
def has_more(net): return hasattr(net, 'module')
def is_many(net, kinds=(nn.DataParallel,)): return type(net) in kinds or isinstance(net, nn.DataParallel)
def early(one, net):
    if isinstance(net, nn.DataParallel):
        return True
    return False
def through(model): return not early(1, net=model)
def evaluate(net):
    if isinstance(net, nn.DataParallel):
        net = net.module
    return net.accuracy
def again(net): return again(net)
class Trainer:
    def is_plain(self, net): return type(net).__name__ != 'DataParallel'
"""


def program_of(body):
    sources = {"train.py": (HEAD + body).encode(), "wrappers.py": WRAPPERS.encode()}
    program = TrainingProgram.of(sources, ProjectContext(files=frozenset(sources)))
    files = {file.path: file for file in program.parsed(sources)}
    return ModelUses(program, files), files["train.py"]


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("hasattr(net, 'module')", True),
        ("getattr(net, 'module', None) is not None", True),
        ("hasattr(net, 'head')", False),
        ("hasattr(other, 'module')", False),
        ("isinstance(net, Many)", True),
        ("isinstance(net, (nn.Linear, nn.DataParallel))", True),
        ("isinstance(net, nn.Linear)", False),
        ("type(net) is Many", True),
        ("Many == type(net)", True),
        ("type(net) is Net", False),
        ("type(net).__name__ == 'DataParallel'", True),
        ("type(net).__name__ == 'Net'", False),
        ("wrappers.has_more(net)", True),
        ("wrappers.has_more(other)", False),
        ("wrappers.is_many(net=net)", True),
        ("wrappers.early(1, net)", True),
        ("wrappers.early(net, 1)", False),
        ("wrappers.through(net) and ready", True),
        ("wrappers.Trainer().is_plain(net)", True),
        # What a function does with a wrapper, and does not return, is no test; nor one that calls itself alone.
        ("wrappers.evaluate(net) > best", False),
        ("wrappers.again(net)", False),
        # Of functions of libraries only the name is known.
        ("lib.is_parallel(net)", True),
        ("lib.accuracy(net) > best", False),
    ],
)
def test_code_that_tests_for_the_wrapper(test, expected):
    uses, file = program_of(f"if {test}: pass\n")
    tested = file.nodes(ast.If)[0].test
    assert uses.tests_for_wrapper(Place(file, tested), "net") is expected


@pytest.mark.parametrize(
    ("body", "is_taken_off"),
    [
        ("return cast('Net', net.module) if lib.is_parallel(net) else net", True),
        ("while (inner := getattr(net, 'module', None)) is not None: net = inner\n    return net", True),
        ("if hasattr(net, 'module'):\n        net = net._modules['module']\n    return net", True),
        ("try:\n        return net.module\n    except AttributeError:\n        return net", True),
        ("inner = net\n    while hasattr(inner, 'module'): inner = inner.module\n    return inner", True),
        ("if freeze: net.module.freeze()\n    return net", False),
        ("if hasattr(net, 'module'): lib.save(net.module)\n    return net", False),
        ("if freeze: net.module = None\n    return net", False),
        ("if freeze: other = it.module\n    return net", False),
    ],
)
def test_functions_that_take_the_wrapper_off(body, is_taken_off):
    uses, file = program_of(f"def plain(net, freeze=0):\n    {body}\nnet = Net()\nplain(net).rate()\n")
    made = next(each for each in file.nodes(ast.Assign) if file.code(each) == "net = Net()")
    found = {file.code(node) for _, node in uses.of(file, made, "net")}
    assert ("plain(net)" in found) is not is_taken_off


def test_a_method_that_takes_the_wrapper_off_an_attribute():
    body = "        return self.net.module if lib.is_parallel(self.net) else self.net\n"
    text = f"class Trainer:\n    def __init__(self):\n        self.net = Net()\n    def plain(self):\n{body}"
    uses, file = program_of(f"{text}Trainer().plain().rate()\n")
    made = next(each for each in file.nodes(ast.Assign) if file.code(each) == "self.net = Net()")
    found = [file.code(node) for _, node in uses.of(file, made, "self.net")]
    assert "self.net" in found and "Trainer().plain()" not in found
