"""One step of a program as mindstudio-probe's debugger dumps it: dump.json, construct.json, stack.json and tensors.

The files are those of a dump of modules (level L0) with tensors, as mindstudio-probe 26.2 writes them, for
`msprobe compare` and `msprobe graph_visualize`. Modules are named as in a recording, below the outermost one's class.
"""

from __future__ import annotations

import json
import linecache
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.serialization import save  # as it is before checkpoints are recorded

TENSORS = "dump_tensor_data"


class Dump:
    """The dump of one process, in a folder of its step and rank within `folder`."""

    def __init__(self, folder: Path, on_host: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self._folder = folder
        self._on_host = on_host
        self._place: Path | None = None
        self._data: dict[str, dict[str, Any]] = {}
        self._parents: dict[str, str | None] = {}
        self._stacks: dict[tuple[str, ...], list[str]] = {}
        self._calls: Counter[str] = Counter()
        self._open: list[str] = []
        self._modules: dict[str, str] = {}  # names in the dump by the recording's

    def enter(
        self,
        name: str,
        module: torch.nn.Module,
        inputs: Iterable[torch.Tensor],
        keywords: Mapping[str, torch.Tensor],
        frames: list[str],
    ) -> None:
        """A module is called; `frames` are the user's code that calls it, innermost first."""
        kind = self._modules[name] = f"Module.{name}.{type(module).__name__}"
        node = f"{kind}.forward.{self._calls[kind]}"
        self._calls[kind] += 1
        self._parents[node] = self._open[-1] if self._open else None
        self._open.append(node)
        self._stacks.setdefault(tuple(frames), []).append(node)
        tensors = list(inputs)
        parameters = {path: self._saved(f"{node}.parameters.{path}", each) for path, each in _own(module)}
        self._data[node] = {
            "input_args": [self._saved(f"{node}.input.{part}", each) for part, each in enumerate(tensors)],
            "input_kwargs": {key: self._saved(f"{node}.input.{key}", each) for key, each in keywords.items()},
            "output": [],
            **({"parameters": parameters} if parameters else {}),
        }
        backward = self._backward(node)
        for part, each in enumerate(tensors):
            if each.requires_grad and torch.is_grad_enabled():
                each.register_hook(lambda gradient, part=part: self._gradient(backward, "output", part, gradient))

    def leave(self, outputs: Iterable[torch.Tensor]) -> None:
        """The module that was called last returns."""
        if not self._open:
            return
        node = self._open.pop()
        tensors = list(outputs)
        self._data[node]["output"] = [self._saved(f"{node}.output.{part}", each) for part, each in enumerate(tensors)]
        backward = self._backward(node)
        for part, each in enumerate(tensors):
            if each.requires_grad and torch.is_grad_enabled():
                each.register_hook(lambda gradient, part=part: self._gradient(backward, "input", part, gradient))

    def parameter_gradient(self, name: str, gradient: torch.Tensor) -> None:
        """The gradient of a parameter, called as in a recording, at the step of its optimizer."""
        module, _, parameter = name.rpartition(".")
        if module in self._modules:
            node = f"{self._modules[module]}.parameters_grad.0"
            self._data.setdefault(node, {})[parameter] = [self._saved(f"{node}.{parameter}", gradient)]

    def write(self) -> None:
        """Write what the step did; for the end of the step."""
        files = {
            "dump.json": {
                "task": "tensor",
                "level": "L0",
                "framework": "pytorch",
                "dump_data_dir": TENSORS,
                "data": self._data,
            },
            "construct.json": {node: self._parents.get(node) for node in self._data if "parameters_grad" not in node}
            | {node: self._parent_of(node) for node in self._data if ".backward." in node},
            "stack.json": {
                str(number): [nodes, list(frames)] for number, (frames, nodes) in enumerate(self._stacks.items())
            },
        }
        for file, content in files.items():
            (self._here() / file).write_text(json.dumps(content, indent=1), encoding="utf-8")

    @staticmethod
    def _backward(node: str) -> str:
        return ".backward.".join(node.rsplit(".forward.", 1))

    def _parent_of(self, backward: str) -> str | None:
        """The node outer a backward pass: that of the module outer the forward pass, if it has one."""
        parent = self._parents.get(".forward.".join(backward.rsplit(".backward.", 1)))
        outer = self._backward(parent) if parent else None
        return outer if outer in self._data else None

    def _gradient(self, node: str, side: str, part: int, gradient: torch.Tensor) -> None:
        entry = self._data.setdefault(node, {"input": [], "output": []})
        entry[side] += [None] * (part + 1 - len(entry[side]))
        entry[side][part] = self._saved(f"{node}.{side}.{part}", gradient)

    def _saved(self, name: str, tensor: torch.Tensor) -> dict[str, Any]:
        """Write a tensor to a file; what dump.json says of it."""
        values = self._on_host(tensor).detach().clone()
        file = f"{name}.pt"
        save(values, self._here() / TENSORS / file)
        return {
            "type": "torch.Tensor",
            "dtype": str(tensor.dtype),
            "shape": list(tensor.shape),
            **_statistics(values),
            "requires_grad": tensor.requires_grad,
            "data_name": file,
        }

    def _here(self) -> Path:
        if self._place is None:
            distributed = torch.distributed
            rank = distributed.get_rank() if distributed.is_available() and distributed.is_initialized() else 0
            self._place = self._folder / f"rank{rank}"
            (self._place / TENSORS).mkdir(parents=True, exist_ok=True)
        return self._place


def frames_of(project: Path, stack: Iterable[tuple[str, int]]) -> list[str]:
    """The lines of a stack of user code, as stack.json has them."""
    return [
        f"File {path}, line {line}, \n {linecache.getline(str(project / path), line).strip()}" for path, line in stack
    ]


def _own(module: torch.nn.Module) -> Iterable[tuple[str, torch.Tensor]]:
    return module.named_parameters(recurse=False)


def _statistics(values: torch.Tensor) -> dict[str, float | None]:
    """The largest, smallest and mean element and the norm; of whole numbers and booleans as of floats."""
    if not values.numel() or values.is_complex():
        return {"Max": None, "Min": None, "Mean": None, "Norm": None}
    flat = values.cpu().to(torch.float64).reshape(-1)  # on the NPU the cast would give float32
    return {
        "Max": float(flat.max()),
        "Min": float(flat.min()),
        "Mean": float(flat.mean()),
        "Norm": float(torch.linalg.vector_norm(flat)),
    }
