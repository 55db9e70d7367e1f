"""The codes that torch_npu puts at the end of its messages: `ERR02003 OPS invalid value`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from enum import Enum

import torch

_MODULES = {"PTA": 0, "OPS": 1, "DIST": 2, "GRAPH": 3, "PROF": 4}


class ErrCode(Enum):
    """The kinds of errors: a number and its words."""

    SUCCESS = (0, "success")
    PARAM = (1, "invalid parameter")
    TYPE = (2, "invalid type")
    VALUE = (3, "invalid value")
    PTR = (4, "invalid pointer")
    INTERNAL = (5, "internal error")
    MEMORY = (6, "memory error")
    NOT_SUPPORT = (7, "feature not supported")
    NOT_FOUND = (8, "resource not found")
    UNAVAIL = (9, "resource unavailable")
    SYSCALL = (10, "system call failed")
    TIMEOUT = (11, "timeout error")
    PERMISSION = (12, "permission error")
    ACL = (100, "call acl api failed")
    HCCL = (200, "call hccl api failed")
    GE = (300, "call ge api failed")
    EXCEPT = (999, "application exception")

    @property
    def code(self) -> int:
        """The number."""
        return self.value[0]

    @property
    def msg(self) -> str:
        """The words."""
        return self.value[1]


def _formatter(module: str) -> Callable[[ErrCode], str]:
    def message(error: ErrCode) -> str:
        """The line for the end of a message; nothing at a prompt or where TORCH_NPU_COMPACT_ERROR_OUTPUT=1."""
        if int(os.getenv("TORCH_NPU_COMPACT_ERROR_OUTPUT", "0")) or hasattr(sys, "ps1"):
            return ""
        distributed = torch.distributed
        rank = distributed.get_rank() if distributed.is_available() and distributed.is_initialized() else -1
        device = torch.npu.current_device()  # type: ignore[attr-defined]
        when = time.strftime("%Y-%m-%d-%H:%M:%S")
        return (
            f"\n[ERROR] {when} (PID:{os.getpid()}, Device:{device}, RankID:{rank}) "
            f"ERR{_MODULES[module]:02d}{error.code:03d} {module} {error.msg}"
        )

    return message


pta_error, ops_error, dist_error, graph_error, prof_error = map(_formatter, _MODULES)
