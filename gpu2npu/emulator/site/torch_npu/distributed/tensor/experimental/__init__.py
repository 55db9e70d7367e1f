"""PyTorch's `context_parallel` under torch_npu's name, in the releases whose wheels have this package."""

import functools
from typing import Any

from gpu2npu.emulator.device.dispatch import limits
from gpu2npu.support.conditions import CallFacts

_lacking = limits.refused("torch.distributed.tensor.experimental.context_parallel", CallFacts())
if _lacking is not None:
    raise ModuleNotFoundError(f"No module named {__name__!r}: {limits.explained(_lacking)}", name=__name__)

from torch.distributed.tensor.experimental import context_parallel as _context_parallel  # noqa: E402

__all__ = ["context_parallel"]


@functools.wraps(_context_parallel, assigned=("__name__", "__qualname__", "__doc__", "__annotations__"))
def context_parallel(*args: Any, **kwargs: Any) -> Any:
    return _context_parallel(*args, **kwargs)
