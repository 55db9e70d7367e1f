"""The differences between Ascend chips.

Names are those of torch_npu's `socVersionMap` (Ascend/pytorch, `torch_npu/csrc/core/npu/NpuVariables.cpp`), where the
bare "Ascend910B" is a chip of the first generation; here it means what people mean by it, the family of B1 to B4, and
the other is Ascend910ProB.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True)
class Soc:
    """One chip as the runtime describes it; `memory` and `l2_cache` are in bytes, cores are counted.

    `a2_or_later` chips (Ascend910B1 and later, Ascend910_93) compute in bfloat16, keep infinities and NaN, and
    have HF32; the others saturate and give their cube unit float32 as float16 (`IsBF16Supported` and `IsSupportInfNan`
    in NpuVariables.cpp; `cubeMathType` in the aclnnConvolution and aclnnMatmul documents of CANN). `number` is what
    `torch.npu.get_soc_version()` answers (`c10_npu::SocVersion` in NpuVariables.h).
    """

    name: str
    memory: int
    cube_cores: int
    vector_cores: int
    l2_cache: int
    a2_or_later: bool
    source: str
    number: int

    @property
    def bfloat16(self) -> bool:
        """Return whether the chip computes in bfloat16."""
        return self.a2_or_later

    @property
    def hf32(self) -> bool:
        """Return whether the cube unit has HF32; without, it multiplies float32 as float16."""
        return self.a2_or_later


_CONFIG = "CANN's platform_config/{}.ini"
_HAMI = "the device table of Project-HAMi's Ascend plugin"
_LIKE = "assumption: as {}"

_950 = "memory, cores: an Ascend950PR card as its `npu-smi` shows it; assumption: generation, L2 cache"
_ORANGE_PI = "memory: `npu-smi` of an Orange Pi AIpro (23674 MB; boards with less exist); assumption: cores, L2 cache"

# Those of the first generation have AI cores alone, without vector cores of their own (torchair's guide to core
# numbers); Ascend310P3.ini nevertheless counts seven. The last number is that of `c10_npu::SocVersion`.
SOCS = {
    soc.name: soc
    for soc in (
        Soc("Ascend910PremiumA", 32 * GIB, 30, 0, 32 * MIB, False, _LIKE.format("Ascend910A"), 100),
        Soc("Ascend910ProA", 32 * GIB, 30, 0, 32 * MIB, False, _LIKE.format("Ascend910A"), 101),
        Soc("Ascend910A", 32 * GIB, 30, 0, 32 * MIB, False, f"{_HAMI}; assumption: L2 cache", 102),
        Soc("Ascend910ProB", 32 * GIB, 30, 0, 32 * MIB, False, _LIKE.format("Ascend910A"), 103),
        Soc("Ascend910B1", 64 * GIB, 24, 48, 192 * MIB, True, "cores: Ascend910B1.ini; assumption: rest as B2", 220),
        Soc("Ascend910B2", 64 * GIB, 24, 48, 192 * MIB, True, _CONFIG.format("Ascend910B2"), 221),
        Soc("Ascend910B2C", 64 * GIB, 24, 48, 192 * MIB, True, _LIKE.format("Ascend910B2"), 222),
        Soc("Ascend910B3", 64 * GIB, 20, 40, 192 * MIB, True, f"{_HAMI}; torch_npu 2.13 `device_props.py`", 223),
        Soc("Ascend910B4", 32 * GIB, 20, 40, 96 * MIB, True, _CONFIG.format("Ascend910B4"), 224),
        Soc("Ascend910B4-1", 64 * GIB, 20, 40, 96 * MIB, True, f"{_HAMI}; assumption: L2 cache as B4", 225),
        Soc("Ascend910_9391", 64 * GIB, 24, 48, 192 * MIB, True, _LIKE.format("Ascend910_9392"), 250),
        Soc("Ascend910_9392", 64 * GIB, 24, 48, 192 * MIB, True, "cores: its ini file; assumption: rest as B2", 251),
        Soc("Ascend910_9381", 64 * GIB, 24, 48, 192 * MIB, True, _LIKE.format("Ascend910_9392"), 252),
        Soc("Ascend910_9382", 64 * GIB, 24, 48, 192 * MIB, True, _LIKE.format("Ascend910_9392"), 253),
        Soc("Ascend910_9372", 64 * GIB, 20, 40, 192 * MIB, True, _LIKE.format("Ascend910_9362"), 254),
        Soc("Ascend910_9362", 64 * GIB, 20, 40, 192 * MIB, True, f"{_HAMI}; assumption: L2 cache as B2", 255),
        Soc("Ascend950PR", 128 * GIB, 28, 56, 128 * MIB, True, _950, 260),
        Soc("Ascend310P1", 24 * GIB, 8, 7, 16 * MIB, False, _LIKE.format("Ascend310P3"), 200),
        Soc("Ascend310P3", 24 * GIB, 8, 7, 16 * MIB, False, f"{_HAMI}; its ini file; assumption: L2 cache", 202),
        Soc("Ascend310B1", 24 * GIB, 1, 1, 4 * MIB, False, _LIKE.format("Ascend310B4"), 240),
        Soc("Ascend310B2", 24 * GIB, 1, 1, 4 * MIB, False, _LIKE.format("Ascend310B4"), 241),
        Soc("Ascend310B3", 24 * GIB, 1, 1, 4 * MIB, False, _LIKE.format("Ascend310B4"), 242),
        Soc("Ascend310B4", 24 * GIB, 1, 1, 4 * MIB, False, _ORANGE_PI, 243),
    )
}

# Families, and the member that stands for each.
FAMILIES = {
    "Ascend910B": "Ascend910B2",
    "Ascend910_93": "Ascend910_9392",
    "Ascend950": "Ascend950PR",
    "Ascend310P": "Ascend310P3",
    "Ascend310B": "Ascend310B4",
}
DEFAULT_SOC = "Ascend910B"


def soc_named(name: str) -> Soc:
    """The chip of a name, or the member that stands for a family's name.

    Raises:
        ValueError: There is no such chip; the message lists those there are.
    """
    soc = SOCS.get(FAMILIES.get(name, name))
    if soc is None:
        raise ValueError(
            f"{name!r} is not a chip that the emulator knows: choose one of {', '.join([*FAMILIES, *SOCS])}"
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
