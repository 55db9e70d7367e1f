"""Figures of the chips for the forecast: what memory a program can have, and the roofline of compute and memory.

Compute is M * N * K * 2 * cores * frequency, as CANN's platform_config has them: [DtypeMKN] 16, 16, 16, `cube_freq`
1800 MHz for Ascend910B2 and B2C (gitcode.com/cann/runtime, src/platform/platform_config/Ascend910B2C.ini), 1500 for
Ascend910B4 and B4-1, 1650 for Ascend950PR. Huawei announced the Ascend 910 with 256 TFLOPS of float16 in 32 cores:
1000 MHz. Other chips of the 910B family are assumed to run at the frequency of the nearest. A figure without a
published source is None, and no time is modelled for its chip.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpu2npu.emulator.shapes import is_on
from gpu2npu.emulator.soc import GIB, Soc

if TYPE_CHECKING:
    import torch

_PER_CYCLE = 16 * 16 * 16 * 2  # float16 and bfloat16 of one cube core
_LAUNCH = 10e-6  # seconds
_HCCS = 28e9 * 7  # bytes a second from one card to the seven others
_ROCE = 25e9  # bytes a second, 200 Gb/s of one card's port


@dataclass(frozen=True)
class Figures:
    """The figures of one chip, each with its source: bytes, operations and bytes a second, seconds; None where there is
    no published source."""

    usable: int
    half: float | None
    single: float | None
    bandwidth: float | None
    link: float
    network: float
    launch: float
    sources: dict[str, str]


# By the memory of the chip: what torch_npu calls "total capacity" on it, after the driver has taken its own.
_USABLE = {
    64: (65452113920, "`total_memory` of torch_npu's device properties on an Ascend910B2, 60.96 GiB in its messages"),
    32: (int(29.5 * GIB), '"29.50 GiB total capacity" in torch_npu\'s messages on an Ascend910B4'),
}
_A3 = (
    int(61.27 * GIB),
    '"61.27 GiB total capacity" in torch_npu\'s messages on an Atlas A3 (sgl-project/sglang#29838)',
)
_INI = "the platform_config of CANN"
_DUO = "two chips of an Atlas 300I Duo (3dnews.ru/1131049)"
_UNPUBLISHED = "no published source: no time is modelled"
# MHz of the cube unit, by what a chip's name begins with; the longest counts.
_MHZ = {
    "Ascend910A": (1000, "256 TFLOPS are announced for 32 cores (Huawei, 2019)"),
    "Ascend910B": (1800, "assumed as on an Ascend910B2"),
    "Ascend910B2": (1800, _INI),
    "Ascend910B4": (1500, _INI),
    "Ascend910_93": (1800, "assumed as on an Ascend910B2"),
    "Ascend950PR": (1650, _INI),
    "Ascend310P": (1068, f"280 TOPS of int8, and half as many of float16, for the {_DUO}"),
}
_HBM = (1.6e12, "1.6 TB/s for the HBM of 64 GB Ascend910B cards, 1600 MHz")
# Bytes a second; `cube_core_cnt * ddr_rate * cube_freq` of the ini file for Ascend910B4. For the HBM of the first
# Ascend 910 and the LPDDR4X of the Ascend310B only articles without a source have figures.
_BANDWIDTH = {
    "Ascend910B": _HBM,
    "Ascend910B4": (0.96e12, "20 cores of 32 bytes at 1.5 GHz (Ascend910B4.ini)"),
    "Ascend910B4-1": _HBM,
    "Ascend910_93": _HBM,
    "Ascend950PR": (1.5e12, "about 1.5 TB/s, as beside Ascend950PR_9579.ini"),
    "Ascend310P": (0.204e12, f"408 GB/s for the {_DUO}"),
}


def figures(soc: Soc) -> Figures:
    """Return the figures of a chip."""
    usable, usable_source = _USABLE.get(soc.memory // GIB, (int(soc.memory * 0.95), "assumption: 5 % for the driver"))
    if soc.name.startswith("Ascend910_93"):
        usable, usable_source = _A3
    mhz, mhz_source = _longest(_MHZ, soc.name)
    bandwidth, bandwidth_source = _longest(_BANDWIDTH, soc.name)
    half = None if mhz is None else _PER_CYCLE * soc.cube_cores * mhz * 1e6
    cores = f"{soc.cube_cores} cores of 16*16*16*2 operations at {mhz} MHz: {mhz_source}"
    return Figures(
        usable=usable,
        half=half,
        single=None if half is None else half / 4,
        bandwidth=bandwidth,
        link=_HCCS,
        network=_ROCE,
        launch=_LAUNCH,
        sources={
            "usable": usable_source,
            "half": mhz_source if half is None else cores,
            "single": mhz_source if half is None else "assumption: a quarter of float16's; HF32 is faster",
            "bandwidth": bandwidth_source,
            "link": "assumption: seven HCCS links of 28 GB/s each way between the eight cards of a server",
            "network": "assumption: one RoCE port of 200 Gb/s a card",
            "launch": "assumption: 10 microseconds of host time an operator",
        },
    )


def _longest(table: Mapping[str, tuple[float, str]], name: str) -> tuple[float | None, str]:
    return table.get(max(filter(name.startswith, table), key=len, default=""), (None, _UNPUBLISHED))


def capacity(soc: Soc) -> int:
    """The memory of an NPU in bytes; in a shapes-only run, without what the driver keeps."""
    return figures(soc).usable if is_on() else soc.memory


_PRODUCTS = {
    "mm": 0,
    "bmm": 0,
    "matmul": 0,
    "linear": 0,
    "npu_linear": 0,
    "addmm": 1,
    "baddbmm": 1,
    "addmv": 1,
    "mv": 0,
}


def operations(name: str, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> float:
    """Return the multiplications and additions of the cube unit; 0 for what runs elsewhere."""
    bare = name.partition("::")[2]
    if bare in _PRODUCTS and outputs:
        return 2.0 * outputs[0].numel() * inputs[_PRODUCTS[bare]].shape[-1]
    if bare in ("linear_backward", "npu_linear_backward"):
        weight = inputs[2] if len(inputs) > 2 else inputs[-1]
        return 2.0 * math.prod(inputs[0].shape[:-1]) * weight.numel() * min(len(outputs), 2)
    if bare.startswith("convolution") and "backward" not in bare and outputs:
        return 2.0 * outputs[0].numel() * inputs[1][0].numel()
    if bare.startswith("convolution_backward"):
        return 2.0 * inputs[0].numel() * inputs[2][0].numel() * min(len(outputs), 2)
    if bare.startswith("npu_fusion_attention"):
        query, key = inputs[0], inputs[1]
        rows = key.numel() // max(key.shape[-1], 1)
        return 4.0 * query.numel() * rows * (2.5 if "grad" in bare else 1.0) / max(math.prod(query.shape[:1]), 1)
    return 0.0
