"""Calls of APIs that none of PyTorch's test tables has, from samples.txt.

A line is `API: expression`, or `API: module @ arguments` for a module that is moved to the NPU and called. Expressions
name the values of `names`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

SAMPLES_FILE = Path(__file__).with_name("samples.txt")


def samples() -> Iterator[tuple[str, str, Callable[[], Callable[[], Any]]]]:
    """API, what its arguments ask for ("foreach=False"), and what prepares a call of it, for each line."""
    for line in SAMPLES_FILE.read_text(encoding="utf-8").splitlines():
        api, _, expression = line.partition(": ")
        module, at, arguments = expression.partition(" @ ")
        label = "foreach=False" if "foreach=False" in expression else ""
        yield api, label, _module(module, arguments) if at else _prepared(expression)


def names() -> dict[str, Any]:
    """Return what expressions name: `x`, `y` and `sym` (4, 4), `v` (4,), `one` (), `seq` (5, 2, 4), and more."""
    import io

    torch.manual_seed(0)
    tensors = {
        "x": torch.rand(4, 4),
        "y": torch.rand(4, 4),
        "sym": torch.eye(4) * 2,
        "v": torch.rand(4),
        "one": torch.rand(()),
        "seq": torch.rand(5, 2, 4),
        "seq3": torch.rand(6, 2, 4),
        "img": torch.rand(2, 3, 8, 8),
        "img4": torch.rand(2, 4, 8, 8),
        "long": torch.rand(32),
        "theta": torch.rand(2, 2, 3),
        "grid": torch.rand(2, 4, 4, 2),
        "w12": torch.rand(12, 4),
        "w16": torch.rand(16, 4),
        "i": torch.tensor([0, 2, 1, 3]),
        "i2": torch.tensor([0, 2]),
        "b": torch.tensor([True, False, True, True]),
        "targets": torch.tensor([[1, 2], [1, 3]]),
    }
    npu = {name: tensor.to("npu") for name, tensor in tensors.items()}
    npu["c"] = torch.complex(npu["x"], npu["y"])
    npu["spec"] = torch.stft(npu["long"], 6, window=torch.ones(6, device="npu"), return_complex=True)
    parameter = torch.nn.Parameter(npu["x"].clone())
    parameter.grad = npu["y"].clone()
    return {
        **npu,
        "p": parameter,
        "lin": torch.nn.Linear(4, 4).to("npu"),
        "conv": torch.nn.Conv2d(3, 4, 3).to("npu"),
        "bn": torch.nn.BatchNorm2d(4).to("npu"),
        "array": torch.rand(2).numpy(),
        "stream": torch.npu.current_stream(),  # type: ignore[attr-defined]
        "torch": torch,
        "F": torch.nn.functional,
        "nn": torch.nn,
        "io": io,
    }


def _prepared(expression: str) -> Callable[[], Callable[[], Any]]:
    def prepare() -> Callable[[], Any]:
        given = names()
        code = compile(expression, "sample", "eval")
        return lambda: eval(code, given)

    return prepare


def _module(expression: str, argument: str) -> Callable[[], Callable[[], Any]]:
    def prepare() -> Callable[[], Any]:
        given = names()
        given["module"] = eval(expression, given).to("npu")
        code = compile(f"module({argument})", "sample", "eval")
        if expression.startswith("nn.Lazy"):
            eval(code, given)  # the first call makes the parameters
        return lambda: eval(code, given)

    return prepare
