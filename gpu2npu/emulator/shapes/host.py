"""Parameters on the host in a shapes-only run: large ones are neither filled nor converted, and take no memory either.

A model is made on the host before it moves to the NPU. Its parameters come from `torch.empty`, which the system gives
memory for when it is written; so what would fill them, and what would convert them, leaves them alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

_LARGE = 1 << 20  # bytes
_INITIALIZERS = (
    *("uniform_", "normal_", "trunc_normal_", "constant_", "ones_", "zeros_", "eye_", "dirac_", "orthogonal_"),
    *("xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_", "sparse_"),
)
_RANDOM = ("normal_", "uniform_")
_CONVERTING = ("to", "half", "bfloat16", "float", "double", "type")


def install() -> None:
    """Change torch.nn.init, and the methods of tensors that draw and convert, once a process."""
    for name in _INITIALIZERS:
        setattr(torch.nn.init, name, _unfilled(getattr(torch.nn.init, name)))
    for name in _RANDOM:
        setattr(torch.Tensor, name, _unfilled(getattr(torch.Tensor, name)))
    for name in _CONVERTING:
        setattr(torch.Tensor, name, _unconverted(getattr(torch.Tensor, name)))


def _is_large(tensor: Any) -> bool:
    return isinstance(tensor, torch.Tensor) and tensor.device.type == "cpu" and tensor.nbytes >= _LARGE


def _unfilled(fill: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fill)
    def call(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        return tensor if _is_large(tensor) else fill(tensor, *args, **kwargs)

    return call


def _unconverted(convert: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(convert)
    def call(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(tensor, torch.nn.Parameter) and _is_large(tensor):
            like = convert(torch.empty(0, dtype=tensor.dtype, device="cpu"), *args, **kwargs)
            if isinstance(like, torch.Tensor) and like.device.type == "cpu" and like.dtype is not tensor.dtype:
                return torch.empty_like(tensor, dtype=like.dtype)
        return convert(tensor, *args, **kwargs)

    return call
