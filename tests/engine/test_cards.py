"""Files that name a card, and files that import torch."""

from __future__ import annotations

import pytest

from gpu2npu.engine.cards import imports_torch


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
    assert imports_torch(source.encode()) is expected
