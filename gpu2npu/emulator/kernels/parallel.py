"""Large kernels, a block at a time on several threads: NumPy and BLAS let go of the interpreter while they compute.

Where sums depend on how the work is cut, that never depends on the number of threads, so that results do not either.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import starmap
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

BLOCK = 1 << 16  # elements: a few arrays of them fit into a core's cache
native: Any = None  # the library in C++, where there is one
_SMALL = 4 * BLOCK  # below, handing work to another thread costs more than it gains


@functools.cache
def thread_count() -> int:
    """GPU2NPU_NUM_THREADS, or OMP_NUM_THREADS, or this rank's share of the cores, over the threads of BLAS itself."""
    share = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    share //= _number("LOCAL_WORLD_SIZE", 1)
    wanted = _number("GPU2NPU_NUM_THREADS", _number("OMP_NUM_THREADS", share))
    return max(1, wanted // _number("OPENBLAS_NUM_THREADS", wanted))


def _number(name: str, otherwise: int) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() and int(text) else otherwise


_pools: dict[int, ThreadPoolExecutor] = {}


def _pool() -> ThreadPoolExecutor:
    """The helpers of this process; a forked child begins with its own."""
    pool = _pools.get(os.getpid())
    if pool is None:
        pool = _pools[os.getpid()] = ThreadPoolExecutor(thread_count() - 1, "gpu2npu-kernel", _quiet)
    return pool


def _quiet() -> None:
    np.seterr(all="ignore")


def blocks(count: int, elements: int, block: int = BLOCK) -> list[slice]:
    """Consecutive slices that cover `range(count)`, each over about `block` of the `elements` there are in all."""
    step = max(1, count * block // max(elements, 1))
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


def shares(count: int, least: int = 1) -> list[slice]:
    """Consecutive slices that cover `range(count)`, at most one for each thread, each of whole multiples of `least`."""
    step = -(-count // (thread_count() * least)) * least
    return [slice(start, min(start + step, count)) for start in range(0, count, max(step, 1))]


def run(compute: Callable[[slice], T], parts: Sequence[slice]) -> list[T]:
    """`compute` of every part, in order, on as many threads as there are; an error of any is raised here."""
    threads = min(thread_count(), len(parts))
    if threads < 2:
        return [compute(part) for part in parts]

    def every(start: int) -> list[T]:
        return [compute(part) for part in parts[start::threads]]

    others = [_pool().submit(every, start) for start in range(1, threads)]
    shares: list[Iterable[T]] = []
    try:
        shares.append(every(0))
    finally:
        shares.extend(other.result() for other in others)
    results: list[T | None] = [None] * len(parts)
    for start, share in enumerate(shares):
        results[start::threads] = share
    return results  # type: ignore[return-value]


def run_each(compute: Callable[..., T], rows: Sequence[tuple[Any, ...]], elements: int) -> list[T]:
    """`compute` of every row, in order; on several threads where the rows have many `elements` in all."""
    if elements < _SMALL or len(rows) < 2 or thread_count() < 2:
        return list(starmap(compute, rows))
    return run(lambda part: compute(*rows[part.start]), [slice(number, number + 1) for number in range(len(rows))])


def in_cpp(name: str, number: float, out: np.ndarray, *arrays: np.ndarray) -> bool:
    """Fill `out` by a function of pointwise.h; False where there is no library, or the arrays are not for it."""
    return native is not None and native.each_value(name, number, out, *arrays)


def by_rows(compute: Callable[..., None], out: np.ndarray, *arrays: np.ndarray) -> np.ndarray:
    """Fill `out` by `compute(out_part, *parts)` over blocks of the flattened arrays, which have one shape."""
    if out.size < _SMALL or not all(each.flags.c_contiguous and each.shape == out.shape for each in (out, *arrays)):
        compute(out, *arrays)
        return out
    flat = [each.reshape(-1) for each in (out, *arrays)]
    run(lambda part: compute(*(each[part] for each in flat)), blocks(out.size, out.size))
    return out
