"""The functions of `torch.npu` that describe the chip."""

from __future__ import annotations

import functools
import os
import re
import uuid
import warnings
from dataclasses import dataclass

import torch

from gpu2npu.emulator.device import lifecycle
from gpu2npu.emulator.device.dispatch import limits
from gpu2npu.emulator.device.visible_npus import DeviceLike, device_count, index_of
from gpu2npu.emulator.soc import current_soc
from gpu2npu.support.conditions import CallFacts


def is_available() -> bool:
    """Return whether an NPU is visible."""
    return device_count() > 0


def is_compiled() -> bool:
    """Return whether torch was built for the NPU, as checkpoints of random state ask."""
    return True


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return whether the chip computes in bfloat16. As in torch_npu, the process uses the NPU from then on."""
    lifecycle.init()
    return current_soc().bfloat16


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that `torch.autocast("npu")` takes, as `torch_npu/npu/autocast_utils.py` lists them."""
    return [torch.float16, torch.bfloat16, torch.float32] if current_soc().bfloat16 else [torch.float16, torch.float32]


def get_device_name(device_name: DeviceLike = None) -> str:
    """The chip's name; the argument, a device, is called as torch_npu calls it."""
    return get_device_properties(device_name).name


_PROPERTIES = "torch.npu.get_device_properties"


@dataclass(frozen=True)
class _NPUDeviceProperties:
    """One NPU, as torch_npu describes it; memory in bytes."""

    name: str
    total_memory: int
    cube_core_num: int
    vector_core_num: int
    L2_cache_size: int
    multi_processor_count: int


@dataclass(frozen=True)
class _PropertiesWithNames(_NPUDeviceProperties):
    """The same in releases that have None for what a GPU has (torch_npu/csrc/npu/Module.cpp)."""

    uuid: uuid.UUID | None = None
    major: None = None
    minor: None = None
    warp_size: None = None
    is_multi_gpu_board: None = None
    is_integrated: None = None
    max_threads_per_multi_processor: None = None
    regs_per_multiprocessor: None = None
    gcnArchName: None = None  # noqa: N815


def get_device_properties(device: DeviceLike = None) -> _NPUDeviceProperties:
    """Name, memory and cores of the device. As in torch_npu, the process uses the NPU from then on."""
    lifecycle.init()
    index = index_of(device)
    soc = current_soc()
    has_id, has_names = (limits.row_for(_PROPERTIES, CallFacts({"name": name})) is None for name in ("uuid", "major"))
    identifier = uuid.UUID(f"{soc.number:08x}-0000-0000-0000-{index:012x}") if has_id else None
    made = functools.partial(_PropertiesWithNames, uuid=identifier) if has_names else _NPUDeviceProperties
    return made(
        name=soc.name,
        total_memory=soc.memory,
        cube_core_num=soc.cube_cores,
        vector_core_num=soc.vector_cores,
        L2_cache_size=soc.l2_cache,
        multi_processor_count=soc.cube_cores,
    )


def get_device_capability(device: DeviceLike = None) -> tuple[int, int] | None:
    """None, as on Ascend, or the pair that TORCH_NPU_DEVICE_CAPABILITY names as "major.minor"; `device` says nothing.

    What is not of that form counts as None, with a warning (torch_npu/npu/__init__.py).
    """
    chosen = os.environ.get("TORCH_NPU_DEVICE_CAPABILITY")
    if not chosen:
        return None
    named = re.fullmatch(r"(\d+)\.(\d+)", chosen)
    if named is None:
        warnings.warn(
            f"TORCH_NPU_DEVICE_CAPABILITY is {chosen!r}: give it as major.minor, such as 9.0", UserWarning, stacklevel=2
        )
        return None
    return int(named[1]), int(named[2])


def can_device_access_peer(device_id: DeviceLike, peer_device_id: DeviceLike) -> bool:
    """Return whether one NPU reads the other's memory: all of a server's do, and none its own as a peer.

    Raises:
        AssertionError: One of them is not there.
    """
    found = []
    for each, name in ((device_id, "device"), (peer_device_id, "peer device")):
        if isinstance(each, int) and not 0 <= each < device_count():
            raise AssertionError(f"Invalid {name} id")
        found.append(index_of(each))
    return found[0] != found[1]


def ipc_collect() -> None:
    """Nothing to collect: emulated memory is not shared between processes."""


def utilization(device: DeviceLike = None) -> int:
    """Percent of time the device computes; 0, since nothing is queued when this is called."""
    index_of(device)
    return 0
