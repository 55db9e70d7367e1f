"""Writes what torch's functions and Tensor methods give, read from the schemas of their operators.

Run with PyTorch installed: `python -m tools.torch_results`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpu2npu.support.operators import TABLE

_TENSOR, _TENSORS = "tensor", "tensors"
# Where an operator is also a function, and the prefix of the operator's name.
_SPACES = {"torch": "", "torch.nn.functional": "", "torch.Tensor": "", "torch.linalg": "linalg_", "torch.fft": "fft_",
           "torch.special": "special_"}  # fmt: skip
_CASTS = ("bfloat16", "bool", "byte", "cdouble", "cfloat", "char", "chalf", "double", "float", "half", "int", "long",
          "short", "cuda", "cpu", "npu", "type", "new_tensor", "apply_", "map_", "unique", "H", "T", "mH", "mT", "data",
          "real", "imag")  # fmt: skip
_FACTORIES = ("asarray", "from_numpy", "frombuffer", "from_dlpack", "tensor", "as_tensor", "unique", "unravel_index")
_UNANNOTATED = ("logsigmoid", "softsign", "tanhshrink", "upsample", "upsample_bilinear", "upsample_nearest")


def results() -> dict[str, Any]:
    """The table: names of functions that give a tensor, names of those that may give several, all Tensor methods."""
    import torch

    found: dict[str, set[str]] = {_TENSOR: set(), _TENSORS: set()}
    for space, prefix in _SPACES.items():
        owner = _object(torch, space)
        for name in dir(owner):
            for kind in _kinds(torch, owner, name, prefix):
                found[kind].add(f"{space}.{name}")
    found[_TENSOR] |= {f"torch.Tensor.{name}" for name in _CASTS} | {f"torch.{name}" for name in _FACTORIES}
    found[_TENSOR] |= {f"torch.nn.functional.{name}" for name in _UNANNOTATED}
    backend = torch._C._get_privateuse1_backend_name()  # its methods are there once a program has made them
    own = {backend, f"is_{backend}"}
    methods = [name for name in dir(torch.Tensor) if not name.startswith("_") and name not in own]
    return {
        "torch": torch.__version__.partition("+")[0],
        _TENSOR: sorted(found[_TENSOR]),
        _TENSORS: sorted(found[_TENSORS]),
        "methods": methods,
    }


def _object(torch: Any, space: str) -> Any:
    found = torch
    for part in space.split(".")[1:]:
        found = getattr(found, part)
    return found


def _kinds(torch: Any, owner: Any, name: str, prefix: str) -> Iterator[str]:
    if name.startswith("_") or not callable(getattr(owner, name)) or isinstance(getattr(owner, name), type):
        return
    packet: Any = getattr(torch.ops.aten, prefix + name, None)
    if not hasattr(packet, "overloads"):
        if str(getattr(getattr(owner, name), "__annotations__", {}).get("return")).endswith("Tensor'>"):
            yield _TENSOR
        return
    schemas = [getattr(packet, overload)._schema for overload in packet.overloads()]
    of_tensor = [schema for schema in schemas if schema.arguments and str(schema.arguments[0].type) == "Tensor"]
    # The other overloads of such an operator are for TorchScript's numbers and lists.
    shapes = {tuple(str(result.type) for result in schema.returns) for schema in of_tensor or schemas}
    shapes -= {("number",), ("int",), ("float",), ("complex",)} if not of_tensor else set()
    if any(not all("Tensor" in part for part in shape) or not shape for shape in shapes):
        return
    if ("Tensor",) in shapes:
        yield _TENSOR
    if any(shape != ("Tensor",) for shape in shapes):
        yield _TENSORS


def main() -> None:
    Path(TABLE).write_text(json.dumps(results(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
