"""Environment variables that torch_npu refuses, in its words; most have no other effect here (docs/emulator.md)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

# What `NPUAllocatorConfig::parseArgs` and PyTorch's AcceleratorAllocatorConfig read (NPUAllocatorConfig.cpp of 2.13).
_ALLOCATOR_KEYS = frozenset(
    {
        "base_addr_aligned_kb",
        "expandable_segments",
        "garbage_collection_threshold",
        "large_segment_size_mb",
        "max_non_split_rounding_mb",
        "max_split_size_mb",
        "multi_stream_lazy_reclaim",
        "page_size",
        "per_process_memory_fraction",
        "pin_memory_expandable_segments",
        "pinned_mem_register",
        "pinned_num_register_threads",
        "pinned_reserve_segment_size_mb",
        "pinned_use_background_threads",
        "release_lock_on_npumalloc",
        "roundup_power2_divisions",
        "segment_size_mb",
    }
)
_SWITCHES = (
    "expandable_segments",
    "multi_stream_lazy_reclaim",
    "pin_memory_expandable_segments",
    "pinned_mem_register",
    "release_lock_on_npumalloc",
)


def check(environment: Mapping[str, str] = os.environ) -> None:
    """Raise what torch_npu raises at its first allocation or operator.

    Raises:
        RuntimeError: TASK_QUEUE_ENABLE is not 0, 1 or 2 (`GetTaskQueueEnable` in OptionsManager.cpp), or a setting of
            PYTORCH_NPU_ALLOC_CONF has no such value or does not go with another.
        ValueError: PYTORCH_NPU_ALLOC_CONF has an unknown key.
    """
    queue = environment.get("TASK_QUEUE_ENABLE")
    if queue is not None and environment.get("ASCEND_LAUNCH_BLOCKING") != "1":
        number = re.match(r"\s*[+-]?\d+", queue)  # as C's strtol reads it: what is not a number is 0
        if number is not None and int(number[0]) not in (0, 1, 2):
            raise RuntimeError("TASK_QUEUE_ENABLE should be 0, 1 or 2")
    _check_allocator(environment.get("PYTORCH_NPU_ALLOC_CONF") or environment.get("PYTORCH_ALLOC_CONF") or "")


def memory_fraction(environment: Mapping[str, str] = os.environ) -> float:
    """The share of an NPU that PYTORCH_NPU_ALLOC_CONF lets a process allocate, 1.0 unless it says so."""
    found = re.search(r"per_process_memory_fraction:([\d.]+)", environment.get("PYTORCH_NPU_ALLOC_CONF", ""))
    return float(found[1]) if found else 1.0


def _check_allocator(text: str) -> None:
    settings: dict[str, str] = {}
    for setting in re.split(r",(?![^\[]*\])", text.replace(" ", "")):
        key, colon, value = setting.partition(":")
        if setting and key not in _ALLOCATOR_KEYS:
            raise ValueError(f"Unrecognized key '{key}' in NPU allocator config.")
        if setting and not (colon and value):
            raise RuntimeError(f"Error, expecting {key} value")
        if key in _SWITCHES and value not in ("True", "False"):
            raise RuntimeError(f"Expected a single True/False argument for {key}")
        settings[key] = value
    if settings.get("expandable_segments") == "True" and {"max_split_size_mb", "garbage_collection_threshold"} & set(
        settings
    ):
        raise RuntimeError(
            "`max_split_size_mb` or `garbage_collection_threshold`, cannot be enabled with `expandable_segments`, "
            "please set `expandable_segments` to `False`."
        )
