"""What differs between Ascend chips."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True)
class Soc:
    """One chip as the runtime describes it; `memory` and `l2_cache` are in bytes, cores are counted.

    Facts: the Ascend product pages and CANN's `platform_config/*.ini` (`soc_info`, `memory_size`).
    """

    name: str
    memory: int
    cube_cores: int
    vector_cores: int
    l2_cache: int
    bfloat16: bool


SOCS = {
    soc.name: soc
    for soc in (
        Soc("Ascend910A", 32 * GIB, cube_cores=32, vector_cores=32, l2_cache=32 * MIB, bfloat16=False),
        Soc("Ascend910B", 64 * GIB, cube_cores=24, vector_cores=48, l2_cache=192 * MIB, bfloat16=True),
        Soc("Ascend910_93", 64 * GIB, cube_cores=24, vector_cores=48, l2_cache=192 * MIB, bfloat16=True),
        Soc("Ascend310P", 24 * GIB, cube_cores=8, vector_cores=8, l2_cache=16 * MIB, bfloat16=False),
    )
}

DEFAULT_SOC = "Ascend910B"


@functools.cache
def current_soc() -> Soc:
    """The chip that GPU2NPU_SOC names, Ascend910B unless set.

    Raises:
        RuntimeError: It names a chip that is not in `SOCS`.
    """
    name = os.environ.get("GPU2NPU_SOC", DEFAULT_SOC)
    if name not in SOCS:
        raise RuntimeError(f"GPU2NPU_SOC is {name!r}: known chips are {', '.join(SOCS)}")
    return SOCS[name]
