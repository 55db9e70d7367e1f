"""Helpers for tests of several ranks."""

# mypy: disable-error-code="attr-defined"
# torch.npu exists where torch_npu has been imported.
from __future__ import annotations

import functools
import unittest
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

Test = Callable[..., Any]


def skipIfUnsupportMultiNPU(npu_number_needed: int) -> Callable[[Test], Test]:  # noqa: N802
    """A decorator that skips a test where there are fewer NPUs."""

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def run(*args: Any, **kwargs: Any) -> Any:
            if torch.npu.device_count() < npu_number_needed:
                raise unittest.SkipTest(f"Multi-NPU {npu_number_needed} condition not satisfied")
            return test(*args, **kwargs)

        return run

    return decorate


def init_pg(backend: str = "hccl", world_size: int = 1, rank: int = 0, file_name: str = "") -> None:
    """Make the process group, and with hccl the rank's NPU the current one.

    Raises:
        RuntimeError: The backend is neither hccl nor gloo, or there are too few NPUs.
    """
    if backend not in ("hccl", "gloo"):
        raise RuntimeError(f"Backend {backend} not supported!")
    if backend == "hccl" and torch.npu.device_count() < world_size:
        raise RuntimeError(f"Need at least {world_size} ASCEND devices")
    dist.init_process_group(backend=backend, world_size=world_size, rank=rank, init_method=f"file://{file_name}")
    if backend == "hccl":
        torch.npu.set_device(rank)


def with_comms(func: Test) -> Test:
    """A decorator that runs a method of a test case, which has `world_size`, `rank` and `file_name`, in a group."""

    @functools.wraps(func)
    def run(self: Any, *args: Any, **kwargs: Any) -> None:
        enough = torch.npu.is_available() and torch.npu.device_count() >= self.world_size
        init_pg("hccl" if enough else "gloo", self.world_size, self.rank, self.file_name)
        torch.npu.manual_seed(0)
        func(self, *args, **kwargs)
        self.destroy_pg()

    return run
