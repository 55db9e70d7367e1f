"""Moves by `x.to()`: a device is one by where it comes from, and by its name only where that is not known."""

from __future__ import annotations

import ast

import pytest

from gpu2npu.engine.other_devices.choices import is_move, may_be_move
from gpu2npu.engine.torch_library import torch_project


def moved(code: str) -> bool | None:
    """Return whether the last statement of some code is a move; None where it may be one."""
    names = torch_project({"a.py": code.encode()}).names("a.py")
    assert names is not None
    last = names.file.tree.body[-1]
    assert isinstance(last, ast.Expr)
    is_one, may_be_one = is_move(names, last.value), may_be_move(names, last.value)
    assert may_be_one or not is_one
    return is_one if is_one or not may_be_one else None


BY_SOURCE = {
    "torch.device('cuda')": True,
    "torch.device(name)": True,
    "torch.device('cpu')": False,
    "f'cuda:{number}'": True,
    "f'cuda:{number + 1}'": True,
    "'cuda:' + str(number)": True,
    "torch.cuda.current_device()": True,
    "int(os.environ['LOCAL_RANK'])": True,
    "other.device": True,
    "1": True,
    "'cpu'": False,
    "torch.half": False,
    "getattr(torch, f'float{bits}')": None,
    "True": False,
    "next(other.parameters()).dtype": False,
    "make()": None,
}
BY_NAME = {
    "longformer_device": True,
    "args.short_device": True,
    "gpus[0]": True,
    "dev": True,
    "device0": True,
    "rank_embedding": None,
    "dtype=device": False,
    "*device": None,
}


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        *((f"import os, torch\nlong_name = {made}\nx.to(long_name)\n", answer) for made, answer in BY_SOURCE.items()),
        *((f"x.to({given})\n", answer) for given, answer in BY_NAME.items()),
    ],
)
def test_what_is_a_device_by_its_source_or_else_by_its_name_is_moved_to(code: str, answer: bool | None) -> None:
    assert moved(code) is answer
