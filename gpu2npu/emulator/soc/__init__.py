"""The differences between Ascend chips, from `support/data/chips.json`.

Names are those of torch_npu's `socVersionMap` (Ascend/pytorch, `torch_npu/csrc/core/npu/NpuVariables.cpp`), where the
bare "Ascend910B" is a chip of the first generation; here it means what people mean by it, the family of B1 to B4, and
the other is Ascend910ProB.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass

from gpu2npu.support.chips import FAMILIES, Family, chip_family, chip_rows, representatives

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True)
class Soc:
    """One chip as the runtime describes it; `memory` and `l2_cache` are in bytes, cores are counted.

    `a2_or_later` chips (Ascend910B1 and later, Ascend910_93) compute in bfloat16, keep infinities and NaN, and
    have HF32; the others saturate and give their cube unit float32 as float16 (`IsBF16Supported` and `IsSupportInfNan`
    in NpuVariables.cpp; `cubeMathType` in the aclnnConvolution and aclnnMatmul documents of CANN). `number` is what
    `torch.npu.get_soc_version()` answers (`c10_npu::SocVersion` in NpuVariables.h). The figures at the end have a
    source each: bytes of memory that a program can have, MHz of the cube unit, bytes a second.
    """

    name: str
    memory: int
    cube_cores: int
    vector_cores: int
    l2_cache: int
    a2_or_later: bool
    source: str
    number: int
    usable: tuple[int, str] | None = None
    mhz: tuple[float, str] | None = None
    bandwidth: tuple[float, str] | None = None

    @property
    def family(self) -> Family:
        """The family of the chip."""
        return FAMILIES[chip_family(self.name)]

    @property
    def bfloat16(self) -> bool:
        """Return whether the chip computes in bfloat16."""
        return self.a2_or_later

    @property
    def hf32(self) -> bool:
        """Return whether the cube unit has HF32; without, it multiplies float32 as float16."""
        return self.a2_or_later


SOCS = {
    row["name"]: Soc(**{**row, "memory": row["memory"] * GIB, "l2_cache": row["l2_cache"] * MIB}) for row in chip_rows()
}
DEFAULT_SOC = "Ascend910B"


def soc_named(name: str) -> Soc:
    """The chip of a name, or the member that stands for a family's name.

    Raises:
        ValueError: There is no such chip; the message lists those there are.
    """
    soc = SOCS.get(representatives().get(name, name))
    if soc is None:
        raise ValueError(
            f"{name!r} is not a chip that the emulator knows: choose one of {', '.join([*representatives(), *SOCS])}"
        )
    return soc


@functools.cache
def current_soc() -> Soc:
    """The chip that GPU2NPU_SOC names, Ascend910B unless set.

    Raises:
        RuntimeError: It names a chip that is not known.
    """
    try:
        return soc_named(os.environ.get("GPU2NPU_SOC", DEFAULT_SOC))
    except ValueError as error:
        raise RuntimeError(f"GPU2NPU_SOC: {error}") from None


@functools.cache
def saturates() -> bool:
    """Return whether float16 that overflows becomes the largest number (and NaN 0) in place of inf and NaN.

    Chips of the first generation can do nothing else; the others do so where INF_NAN_MODE_ENABLE is 0 and
    INF_NAN_MODE_FORCE_DISABLE is 1 (the environment variables of the Ascend Extension for PyTorch).

    Raises:
        RuntimeError: Only the first variable asks for it, in torch_npu's words.
    """
    if not current_soc().a2_or_later:
        return True
    if os.environ.get("INF_NAN_MODE_FORCE_DISABLE", "0") == "1":
        return True
    if os.environ.get("INF_NAN_MODE_ENABLE", "1") == "0":
        raise RuntimeError(
            "INF_NAN_MODE_ENABLE shouldn't be set to 0 on the current device. If you want to disable inf-nan mode, "
            "please export INF_NAN_MODE_FORCE_DISABLE=1"
        )
    return False
