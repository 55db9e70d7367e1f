"""The base of tests of FSDP on NPUs."""

# mypy: disable-error-code="attr-defined, misc, no-untyped-call"
from __future__ import annotations

from typing import Any

import torch
from torch.testing._internal import common_fsdp

common_fsdp.DEVICE_TYPE, common_fsdp.DISTRIBUTED_BACKEND = "npu", "hccl"
common_fsdp.DEVICE_COUNT = torch.npu.device_count()


class FSDPNPUTest(common_fsdp.FSDPTest):
    """A test of FSDP whose ranks have an NPU each."""

    def run_test(self, *args: Any, **kwargs: Any) -> Any:
        """Run it on the rank's NPU."""
        torch.npu.set_device(self.rank % torch.npu.device_count())
        return super().run_test(*args, **kwargs)
