"""Exchange by DLPack, which torch_npu does itself from some release on (`torch_npu/utils/dlpack.py` in its wheels).

PyTorch's own functions know no NPU. In a release without torch_npu's, they refuse what is on one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.utils.dlpack

from gpu2npu.emulator.device.dispatch.limits import explained, refused
from gpu2npu.support.conditions import CallFacts, TensorFacts

_to_dlpack = torch._C._to_dlpack
_from_dlpack = torch._C._from_dlpack


def install() -> None:
    """Change the functions under all names that torch_npu changes, once a process."""
    given = functools.partial(_checked, _to_dlpack)
    taken = functools.partial(_taken, torch.utils.dlpack.from_dlpack)
    exported = torch.Tensor.__dlpack__
    for module in (torch, torch.utils.dlpack):
        setattr(module, "to_dlpack", functools.update_wrapper(given, _to_dlpack))  # noqa: B010
        setattr(module, "from_dlpack", functools.update_wrapper(taken, torch.utils.dlpack.from_dlpack))  # noqa: B010

    @functools.wraps(exported)
    def export(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return _checked(exported, self, *args, **kwargs)

    torch.Tensor.__dlpack__ = export  # type: ignore[method-assign]


def _checked(export: Callable[..., Any], tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    _check(tensor)
    return export(tensor, *args, **kwargs)


def _taken(original: Callable[..., torch.Tensor], ext_tensor: Any, **kwargs: Any) -> torch.Tensor:
    """The tensor over the memory of another, or of a capsule."""
    if not isinstance(ext_tensor, torch.Tensor) or ext_tensor.device.type != "npu":
        return original(ext_tensor, **kwargs)
    _check(ext_tensor)
    return _from_dlpack(_to_dlpack(ext_tensor))  # type: ignore[no-any-return]


def _check(tensor: Any) -> None:
    """Raise ValueError where the release does not exchange what is on the NPU."""
    if isinstance(tensor, torch.Tensor) and tensor.device.type == "npu":
        met = refused("torch.from_dlpack", CallFacts(others=(TensorFacts(device="npu"),)))
        if met is not None:
            raise ValueError(f"Unknown device type npu for Dlpack: {explained(met)}")
