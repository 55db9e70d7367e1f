"""PyTorch as the model of Python needs to know it: its classes, and what its star imports bring in."""

from __future__ import annotations

from gpu2npu.python.library import Library
from gpu2npu.support.tables import has_cuda_name, without_repeats

# Modules that a star import of torch brings in, as far as rules are about them.
_OF_TORCH = frozenset({"cuda", "nn", "distributed", "backends", "version", "amp", "profiler"})
_OF_NN = frozenset({"torch.nn.DataParallel", "torch.nn.parallel.DataParallel"})
# Members of torch that are not tensor factories.
_NOT_TENSORS = frozenset({"device", "dtype", "load", "compile", "Generator", "Size", "finfo", "iinfo"})


def _starred(module: str, name: str) -> str | None:
    dotted = f"{module}.{name}"
    brought = (module == "torch" and name in _OF_TORCH) or dotted in _OF_NN or has_cuda_name(dotted)
    return dotted if brought else None


def _is_module_class(qualified: str) -> bool:
    return qualified.startswith("torch.nn.") and qualified.rpartition(".")[2][:1].isupper()


def _is_tensor_factory(qualified: str) -> bool:
    head, _, leaf = qualified.rpartition(".")
    return head == "torch" and leaf not in _NOT_TENSORS


TORCH = Library(
    packages=frozenset({"torch"}),
    canonical=without_repeats,
    starred=_starred,
    tensors=frozenset({"torch.Tensor", "torch.nn.Parameter", "torch.nn.parameter.Parameter"}),
    modules=frozenset({"torch.nn.Module", "torch.nn.modules.Module", "torch.nn.modules.module.Module"}),
    is_module_class=_is_module_class,
    is_tensor_factory=_is_tensor_factory,
    fluent=frozenset(
        {"to", "float", "half", "double", "bfloat16", "long", "int", "bool", "eval", "train", "requires_grad_",
         "detach", "clone", "contiguous", "type", "cpu", "cuda", "npu", "share_memory", "apply", "pin_memory",
         "unsqueeze", "squeeze", "view", "reshape", "transpose", "permute", "flatten"}
    ),
)  # fmt: skip
