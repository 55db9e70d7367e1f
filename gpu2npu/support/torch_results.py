"""The result types of torch's functions and Tensor methods, which tools/torch_results.py reads from their schemas."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from msgspec import Struct

TABLE = Path(__file__).parent / "data" / "torch_results.json"


class TorchResults(Struct, frozen=True):
    """Qualified names ("torch.cat", "torch.Tensor.view"). Those in both `tensor` and `tensors` give one or several
    tensors, by their arguments. `methods` are all public attributes of a Tensor."""

    tensor: frozenset[str]
    tensors: frozenset[str]
    methods: frozenset[str]


@cache
def torch_results() -> TorchResults:
    content = json.loads(TABLE.read_text(encoding="utf-8"))
    return TorchResults(*(frozenset(content[key]) for key in ("tensor", "tensors", "methods")))
