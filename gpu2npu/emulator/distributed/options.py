"""The options that scripts pass as `pg_options`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from torch._C._distributed_c10d import Backend

DEFAULT_TIMEOUT = timedelta(minutes=30)  # ProcessGroupHCCL.hpp


class HcclOptions(Backend.Options):  # type: ignore[name-defined, misc]
    """`torch_npu._C._distributed_c10d.ProcessGroupHCCL.Options`.

    `hccl_config` names the communicator ("group_name"); its other keys, and the stream's priority, set hardware that
    the emulator does not have.
    """

    def __init__(self, is_high_priority_stream: bool = False) -> None:
        super().__init__("hccl", DEFAULT_TIMEOUT)
        self.op_timeout = DEFAULT_TIMEOUT
        self.is_high_priority_stream = is_high_priority_stream
        self.hccl_config: dict[str, int | str] = {}
        self.group_id = ""

    def __deepcopy__(self, memo: dict[int, Any]) -> HcclOptions:
        copied = HcclOptions(self.is_high_priority_stream)
        copied._timeout, copied.op_timeout = self._timeout, self.op_timeout
        copied.hccl_config, copied.group_id = dict(self.hccl_config), self.group_id
        copied.global_ranks_in_group, copied.group_name = self.global_ranks_in_group, self.group_name
        return copied
