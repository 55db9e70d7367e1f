"""Figures of the chips for the forecast: what memory a program can have, and the roofline of compute and memory.

Compute is M * N * K * 2 * cores * frequency, as CANN's platform_config has them: [DtypeMKN] 16, 16, 16, `cube_freq`
of Ascend910B2 (gitcode.com/cann/runtime, src/platform/platform_config/Ascend910B2C.ini). The figures of a chip are in
`support/data/chips.json`; one without a published source is None, and no time is modelled for its chip.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpu2npu.emulator.shapes import is_on
from gpu2npu.emulator.soc import Soc

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


_UNPUBLISHED = (None, "no published source: no time is modelled")


def figures(soc: Soc) -> Figures:
    """Return the figures of a chip."""
    usable, usable_source = soc.usable or (int(soc.memory * 0.95), "assumption: 5 % for the driver")
    mhz, mhz_source = soc.mhz or _UNPUBLISHED
    bandwidth, bandwidth_source = soc.bandwidth or _UNPUBLISHED
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
