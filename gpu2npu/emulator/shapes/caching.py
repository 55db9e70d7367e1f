"""torch_npu's caching allocator, as a model: how much memory it reserves for the blocks that it hands out.

Sizes and choices are those of `NPUCachingAllocator.cpp` (Ascend/pytorch): a request and 32 bytes more are rounded up to
512; up to 1 MiB comes from segments of 2 MiB, up to 10 MiB from segments of 20 MiB, and more from a segment of its own
in steps of 2 MiB. The smallest free block that is large enough is taken, and split where enough is left; neighbours
that are free are merged; where memory ends, unsplit free segments are given back first. One stream is modelled, without
expandable segments and `max_split_size_mb`.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass

MIN_BLOCK, PADDING = 512, 32
_SMALL = 1 << 20
_SMALL_SEGMENT = 2 << 20
_LARGE_SEGMENT = 20 << 20
_MIN_LARGE = 10 << 20
_ROUND_LARGE = 2 << 20


@dataclass(eq=False)
class _Part:
    """A piece of a segment; free or handed out."""

    address: int
    size: int
    is_small: bool
    is_free: bool = True
    before: _Part | None = None
    after: _Part | None = None


def rounded(size: int) -> int:
    """The size of a block for a request."""
    return -(-(size + PADDING) // MIN_BLOCK) * MIN_BLOCK


class CachingAllocator:
    """The allocator of one NPU; sizes in bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.allocated = self.reserved = 0
        self.peak_reserved = self.peak_allocated = 0
        self._next = 0
        self._free: dict[bool, list[tuple[int, int, _Part]]] = {True: [], False: []}

    def allocate(self, request: int) -> _Part:
        """Hand out a block; what does not fit is handed out too, beyond the limit."""
        size = rounded(request)
        is_small = size <= _SMALL
        pool = self._free[is_small]
        at = bisect.bisect_left(pool, (size, -1))
        part = pool.pop(at)[2] if at < len(pool) else self._segment(size, is_small)
        left = part.size - size
        if left >= MIN_BLOCK if is_small else left > _SMALL:
            rest = _Part(part.address + size, left, is_small, True, part, part.after)
            if part.after is not None:
                part.after.before = rest
            part.after, part.size = rest, size
            self._put(rest)
        part.is_free = False
        self.allocated += part.size
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        return part

    def free(self, part: _Part) -> None:
        """Take a block back, and merge it with its free neighbours."""
        self.allocated -= part.size
        part.is_free = True
        for other in (part.before, part.after):
            if other is not None and other.is_free:
                self._take(other)
                first, second = (other, part) if other is part.before else (part, other)
                first.size += second.size
                first.after = second.after
                if second.after is not None:
                    second.after.before = first
                part = first
        self._put(part)

    def empty(self) -> None:
        """Give back the segments that are free as a whole, as `empty_cache` does."""
        for pool in self._free.values():
            for entry in [each for each in pool if each[2].before is None and each[2].after is None]:
                pool.remove(entry)
                self.reserved -= entry[0]

    def _segment(self, size: int, is_small: bool) -> _Part:
        whole = _SMALL_SEGMENT if is_small else _LARGE_SEGMENT if size < _MIN_LARGE else 0
        whole = whole or -(-size // _ROUND_LARGE) * _ROUND_LARGE
        if self.reserved + whole > self.limit:
            self.empty()
        self.reserved += whole
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        part = _Part(self._next, whole, is_small)
        self._next += whole + MIN_BLOCK  # never beside another
        return part

    def _put(self, part: _Part) -> None:
        bisect.insort(self._free[part.is_small], (part.size, part.address, part))

    def _take(self, part: _Part) -> None:
        pool = self._free[part.is_small]
        del pool[bisect.bisect_left(pool, (part.size, part.address))]
