"""The base of tests of DTensor on NPUs."""

# mypy: disable-error-code="attr-defined, misc, no-untyped-call, override"
from __future__ import annotations

import torch
from torch.testing._internal.distributed._tensor.common_dtensor import DTensorTestBase


class NPUDTensorTestBase(DTensorTestBase):
    """A test on four NPUs, or on as many as there are."""

    @property
    def device_type(self) -> str:
        """The kind of device."""
        return "npu"

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        count: int = torch.npu.device_count()
        return min(4, count) if count > 1 else 4
