"""Files that name a card, and files that import torch."""

from __future__ import annotations

import pytest

from gpu2npu.engine.context import gets_plugin, imports_torch, may_use_card, names_device
from gpu2npu.python.facts.reading import read_facts


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import torch\n", True),
        ('"""What it does."""\nfrom torch.nn import (\n    Linear,\n)\n', True),
        ("import os, torch\n", True),
        ("try:\n    pass\nfinally:\n    import torch.nn\n", True),
        ("def run():\n    from torch import nn\n", True),
        ('"""Begin with\nimport torch\n"""\n', False),
        ('"""Begin with\nimport torch\n"""\nimport torch\n', True),
        ("import torchvision\n", False),
        ("x = 1  # import torch\n", False),
        ("from .torch import x\n", False),
    ],
)
def test_a_file_imports_torch_where_a_statement_says_so(source: str, expected: bool) -> None:
    assert imports_torch(read_facts(source.encode(), "a.py")) is expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x.cuda()\n", True),
        ("cuda()\n", True),
        ("x.to('cuda:0')\n", True),
        ("x.to(f'cuda:{i}')\n", True),
        ("x.to(f'{kind}:cuda')\n", False),
        ("x.to(f'')\ny.cuda\n", False),
        ("x.to('cuda_like')\n", False),
        ("x.to('to cuda')\n", False),
        ("x.cuda\n", False),
        ("torch.cuda.synchronize()\n", False),
        ("f(x)  # x.cuda()\n", False),
        ("x.cuda() (\n", False),
        ("x.to('npu')\n", False),
    ],
)
def test_a_file_names_a_device_in_a_string_or_by_a_call(source: str, expected: bool) -> None:
    assert names_device(read_facts(source.encode(), "a.py")) is expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("Trainer(gpus=1)\n", True),
        ("x.to(device)\n", True),
        ("f(accelerator='auto')\n", True),
        ("x.CUDA()\n", True),
        ("gpu (\n", True),
        ("print('no gpu here')\n", False),
        ("f(x)  # on the gpu\n", False),
        ("f(x) (\n", False),
    ],
)
def test_a_file_may_use_a_card_where_its_code_has_a_name_for_one(source: str, expected: bool) -> None:
    assert may_use_card(source.encode(), read_facts(source.encode(), "a.py")) is expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import torch_npu\n", True),
        ("from torch_npu.contrib import transfer_to_npu\n", True),
        ("x.cuda()\n", True),
        ("init('nccl')\n", True),
        ("import torch_npus\n", False),
        ("x.npu()\n", False),
        ("f(x)  # cuda\n", False),
        ("x.cuda() (\n", False),
    ],
)
def test_a_file_gets_the_plugin_where_its_code_has_a_name_of_cuda(source: str, expected: bool) -> None:
    assert gets_plugin(read_facts(source.encode(), "a.py")) is expected
