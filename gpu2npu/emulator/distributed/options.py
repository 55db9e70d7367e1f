"""The options that scripts pass as `pg_options`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from torch._C._distributed_c10d import Backend

DEFAULT_TIMEOUT = timedelta(minutes=30)  # ProcessGroupHCCL.hpp
# The types of `hccl_config`, as createHcclCommConfigWithOptions in torch_npu's ProcessGroupHCCL.cpp checks them.
_OF_INTEGERS = ("buffer_size", "sdma_qos", "op_expansion_mode", "world_rank_id", "job_id", "exec_timeout")
_LONGEST = 2**31 - 1  # seconds
_OF_TEXT = ("algo", "retry_enable", "retry_params", "buffer_name")
_TYPES = {
    **dict.fromkeys(("qos_traffic_class", "qos_service_level", *(f"hccl_{name}" for name in _OF_INTEGERS)), "int"),
    **dict.fromkeys(("group_name", *(f"hccl_{name}" for name in _OF_TEXT)), "string"),
}


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

    def check(self) -> None:
        """Refuse a value of `hccl_config` that has another type than its key wants, or is too large.

        Raises:
            RuntimeError: One has.
        """
        for key, value in self.hccl_config.items():
            wanted = _TYPES.get(key)
            if wanted and not isinstance(value, int if wanted == "int" else str):
                raise RuntimeError(f"Value type of {key} should be {wanted}.")
        if self.hccl_config.get("hccl_exec_timeout", 0) > _LONGEST:  # type: ignore[operator]
            raise RuntimeError(f"Value type of hccl_exec_timeout exceeds INT32_MAX({_LONGEST}).")

    def __deepcopy__(self, memo: dict[int, Any]) -> HcclOptions:
        copied = HcclOptions(self.is_high_priority_stream)
        copied._timeout, copied.op_timeout = self._timeout, self.op_timeout
        copied.hccl_config, copied.group_id = dict(self.hccl_config), self.group_id
        copied.global_ranks_in_group, copied.group_name = self.global_ranks_in_group, self.group_name
        return copied
