"""Figures of the chips for the forecast: what memory a program can have, and the roofline of compute and memory.

Compute is M * N * K * 2 * cores * frequency, as CANN's platform_config has them: [DtypeMKN] 16, 16, 16, `cube_freq`
1800 MHz for Ascend910B2 and B2C (gitcode.com/cann/runtime, src/platform/platform_config/Ascend910B2C.ini), 1500 for
Ascend910B4 and B4-1, 1650 for Ascend950PR. Huawei announced the Ascend 910 with 256 TFLOPS of float16 in 32 cores:
1000 MHz. Others are assumed to run at the frequency of the nearest. What has no published source is named so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    """The figures of one chip, each with its source: bytes, operations and bytes a second, seconds."""

    usable: int
    half: float
    single: float
    bandwidth: float
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
_INI = "MHz of CANN's platform_config"
_ANNOUNCED = "MHz, as 256 TFLOPS in 32 cores are (Huawei's announcement of the Ascend 910, 2019)"
_UNPUBLISHED = "no published source"
_MHZ = {
    "Ascend910B2": (1800, _INI),
    "Ascend910B2C": (1800, _INI),
    "Ascend910B4": (1500, _INI),
    "Ascend910B4-1": (1500, _INI),
    "Ascend950PR": (1650, _INI),
    "Ascend910A": (1000, _ANNOUNCED),
    "Ascend310P3": (1080, f"MHz, {_UNPUBLISHED}"),
}
# Bytes a second, where it is not 1.6 TB/s: `cube_core_cnt * ddr_rate * cube_freq` of the ini file for Ascend910B4.
_BANDWIDTH = {
    "Ascend910B4": (0.96e12, "Ascend910B4.ini: 20 cores * 32 bytes * 1.5 GHz"),
    "Ascend910A": (1.2e12, f"HBM of 1.2 TB/s, {_UNPUBLISHED}"),
    "Ascend950PR": (1.5e12, "about 1.5 TB/s, beside Ascend950PR_9579.ini"),
    "Ascend310P": (0.2048e12, f"LPDDR4X of 204.8 GB/s, {_UNPUBLISHED}"),
    "Ascend310B": (0.0512e12, f"LPDDR4X of 51.2 GB/s, {_UNPUBLISHED}"),
}


def figures(soc: Soc) -> Figures:
    """Return the figures of a chip."""
    usable, usable_source = _USABLE.get(soc.memory // GIB, (int(soc.memory * 0.95), "assumption: 5 % for the driver"))
    if soc.name.startswith("Ascend910_93"):
        usable, usable_source = _A3
    bandwidth, bandwidth_source = next(
        (
            found
            for name, found in _BANDWIDTH.items()
            if soc.name == name
            or soc.name.startswith(f"{name}P")
            or (name in ("Ascend310P", "Ascend310B") and soc.name.startswith(name))
        ),
        (1.6e12, "HBM of 64 GB Ascend910B cards, 1600 MHz: 1.6 TB/s"),
    )
    mhz, mhz_source = _MHZ.get(soc.name, (1800, "MHz, assumed as on an Ascend910B2"))
    half = _PER_CYCLE * soc.cube_cores * mhz * 1e6
    return Figures(
        usable=usable,
        half=half,
        single=half / 4,
        bandwidth=bandwidth,
        link=_HCCS,
        network=_ROCE,
        launch=_LAUNCH,
        sources={
            "usable": usable_source,
            "half": f"{soc.cube_cores} cores * 16*16*16*2 * {mhz} {mhz_source}",
            "single": "assumption: a quarter of float16's; HF32 is faster",
            "bandwidth": bandwidth_source,
            "link": "assumption: seven HCCS links of 28 GB/s each way between the eight cards of a server",
            "network": "assumption: one RoCE port of 200 Gb/s a card",
            "launch": "assumption: 10 microseconds of host time an operator",
        },
    )


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
