"""DistributedSampler, in a program of several ranks that is compared with one of a single process.

The original shuffles by a RandomSampler, which draws its seed at each epoch, and the migrated program by the epoch's
number. Here DistributedSampler draws that seed too when `set_epoch` gives it another epoch, so that all ranks together
get the original's samples in the original's order. Without `set_epoch` it keeps its order, as it does without verify.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DistributedSampler


def install() -> None:
    """Change DistributedSampler, once a process."""
    sampler: Any = DistributedSampler
    original = sampler.__iter__

    def iterate(self: Any) -> Iterator[Any]:
        if not self.shuffle:
            yield from original(self)
            return
        drawn = int(torch.empty((), dtype=torch.int64).random_().item())  # where RandomSampler draws its seed
        epoch, seed = getattr(self, "_gpu2npu_order", (None, 0))
        if epoch != self.epoch:
            seed = drawn
            self._gpu2npu_order = (self.epoch, seed)
        own = self.seed
        self.seed = seed - self.epoch
        try:
            order = original(self)
        finally:
            self.seed = own
        yield from order

    sampler.__iter__ = iterate
