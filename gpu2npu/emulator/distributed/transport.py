"""Gloo, which carries the bytes of a group's collectives between processes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import DebugLevel, PrefixStore, Store, _ProcessGroupWrapper, get_debug_level


def gloo(store: Store, rank: int, size: int, timeout: timedelta) -> Any:
    """What carries the bytes; with TORCH_DISTRIBUTED_DEBUG=DETAIL one that compares the ranks' calls first."""
    carrier = dist.ProcessGroupGloo(store, rank, size, timeout)
    if get_debug_level() != DebugLevel.DETAIL:
        return carrier
    checks = dist.ProcessGroupGloo(PrefixStore("detail/", store), rank, size, timeout)
    return _ProcessGroupWrapper(carrier, checks)
