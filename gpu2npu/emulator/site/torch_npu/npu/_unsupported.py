"""Names of torch_npu that exist here only to say that they do nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn


@functools.cache
def unsupported(name: str) -> Callable[..., Any]:
    """A function that refuses, naming itself: `name` is its full name."""

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"{name}: the emulated NPU does not do this")

    refuse.__name__ = refuse.__qualname__ = name.rpartition(".")[2]
    return refuse


change_current_allocator = unsupported("torch.npu.change_current_allocator")
npurt = unsupported("torch.npu.npurt")
obfuscation_calculate = unsupported("torch.npu.obfuscation_calculate")
obfuscation_finalize = unsupported("torch.npu.obfuscation_finalize")
obfuscation_initialize = unsupported("torch.npu.obfuscation_initialize")
restart_device = unsupported("torch.npu.restart_device")
set_op_timeout_ms = unsupported("torch.npu.set_op_timeout_ms")
stop_device = unsupported("torch.npu.stop_device")


class NPUPluggableAllocator:
    """Not done: memory that a library of the user's own allocates."""

    def __init__(self, path_to_so_file: str, alloc_fn_name: str, free_fn_name: str) -> None:
        unsupported("torch.npu.NPUPluggableAllocator")()
