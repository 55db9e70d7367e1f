"""`torch.cuda`, answering as a machine with GPUs does: an 80 GB card of compute capability 8.0."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from gpu2npu.emulator.device.events import StreamContext
from gpu2npu.emulator.device.legacy_types import legacy_types
from gpu2npu.verify.reference import random, streams, visible_gpus

_MEMORY = 80 * 2**30  # bytes
_NAME = "NVIDIA A100-SXM4-80GB"
_CAPABILITY = (8, 0)


def _name(device: Any = None) -> str:
    visible_gpus.index_of(device)
    return _NAME


def _capability(device: Any = None) -> tuple[int, int]:
    visible_gpus.index_of(device)
    return _CAPABILITY


def _properties(device: Any = None) -> SimpleNamespace:
    visible_gpus.index_of(device)
    return SimpleNamespace(
        name=_NAME,
        major=_CAPABILITY[0],
        minor=_CAPABILITY[1],
        total_memory=_MEMORY,
        multi_processor_count=108,
        warp_size=32,
        is_integrated=False,
        is_multi_gpu_board=False,
        max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536,
        shared_memory_per_block=49152,
        gcnArchName="",
        uuid="",
    )


def _nothing(*args: Any, **kwargs: Any) -> None:
    """A function that changes nothing here."""


def _zero(device: Any = None) -> int:
    return 0


class CannotPlayGraphsError(NotImplementedError):
    """The program captures a CUDA graph."""


class _Graph:
    """The class of CUDA graphs, which programs may name, and not make."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise CannotPlayGraphsError("the reference on the CPU cannot play CUDA graphs: record the original on a GPU")


_ANSWERS: dict[str, Any] = {
    "is_available": lambda: visible_gpus.device_count() > 0,
    "device_count": visible_gpus.device_count,
    "_device_count_nvml": visible_gpus.device_count,
    "current_device": visible_gpus.current_device,
    "set_device": visible_gpus.set_device,
    "device": visible_gpus.device,
    "device_of": visible_gpus.device_of,
    "_DeviceGuard": visible_gpus.device,
    "_exchange_device": lambda index: _exchange(index),
    "_maybe_exchange_device": lambda index: _exchange(index),
    "_lazy_init": _nothing,
    "_lazy_call": lambda call, **kwargs: call(),
    "init": _nothing,
    "is_initialized": lambda: True,
    "_is_in_bad_fork": lambda: False,
    "is_bf16_supported": lambda including_emulation=True: True,
    "is_tf32_supported": lambda: True,
    "get_device_name": _name,
    "get_device_capability": _capability,
    "get_device_properties": _properties,
    "get_arch_list": lambda: ["sm_80"],
    "can_device_access_peer": lambda device, peer: True,
    "synchronize": streams.synchronize,
    "ipc_collect": _nothing,
    "utilization": _zero,
    "set_sync_debug_mode": _nothing,
    "get_sync_debug_mode": lambda: 0,
    "is_current_stream_capturing": lambda: False,
    "graph": _Graph,
    "CUDAGraph": _Graph,
    "make_graphed_callables": _Graph,
    "cudart": lambda: SimpleNamespace(cudaProfilerStart=_nothing, cudaProfilerStop=_nothing),
    "Stream": streams.Stream,
    "Event": streams.Event,
    "StreamContext": StreamContext,
    "stream": StreamContext,
    "current_stream": streams.current_stream,
    "default_stream": streams.default_stream,
    "set_stream": streams.set_stream,
    "manual_seed": random.manual_seed,
    "manual_seed_all": random.manual_seed_all,
    "seed": _nothing,
    "seed_all": _nothing,
    "initial_seed": random.initial_seed,
    "get_rng_state": random.get_rng_state,
    "get_rng_state_all": random.get_rng_state_all,
    "set_rng_state": random.set_rng_state,
    "set_rng_state_all": random.set_rng_state_all,
    "empty_cache": _nothing,
    "memory_allocated": _zero,
    "max_memory_allocated": _zero,
    "memory_reserved": _zero,
    "max_memory_reserved": _zero,
    "memory_cached": _zero,
    "max_memory_cached": _zero,
    "reset_peak_memory_stats": _nothing,
    "reset_max_memory_allocated": _nothing,
    "reset_max_memory_cached": _nothing,
    "reset_accumulated_memory_stats": _nothing,
    "set_per_process_memory_fraction": _nothing,
    "memory_stats": lambda device=None: {},
    "memory_summary": lambda device=None, abbreviated=False: "",
    "mem_get_info": lambda device=None: (_MEMORY, _MEMORY),
}
_PARTS = ("memory", "random", "streams")  # submodules that export some of the same names


def _exchange(index: int) -> int:
    previous = visible_gpus.current_device()
    visible_gpus.set_device(index)
    return previous


def install() -> None:
    """Put the answers in place of `torch.cuda`'s functions."""
    cuda: Any = torch.cuda
    for name, answer in _ANSWERS.items():
        setattr(cuda, name, answer)
        for part in _PARTS:
            module = getattr(cuda, part, None)
            if hasattr(module, name):
                setattr(module, name, answer)
    cuda.default_generators = random.default_generators()
    cuda._initialized = True  # torch.utils.checkpoint keeps the states of generators of a device that is
    for nvtx in ("range_push", "range_pop", "mark", "range_start", "range_end"):
        setattr(cuda.nvtx, nvtx, _nothing)
    for name, kind in legacy_types(visible_gpus.GPUS).items():
        setattr(cuda, name, kind)
    accelerator: Any = torch.accelerator
    for name, answer in (
        ("is_available", lambda: visible_gpus.device_count() > 0),
        ("device_count", visible_gpus.device_count),
        ("current_device_index", visible_gpus.current_device),
        ("current_device_idx", visible_gpus.current_device),
        ("set_device_index", visible_gpus.set_device),
        ("set_device_idx", visible_gpus.set_device),
        ("current_stream", streams.current_stream),
        ("set_stream", streams.set_stream),
        ("synchronize", streams.synchronize),
        ("current_accelerator", lambda check_available=False: torch.device("cuda")),
    ):
        setattr(accelerator, name, answer)
    torch.backends.cudnn.is_available = lambda: True
    torch.backends.cudnn.version = lambda: 90100  # type: ignore[attr-defined]
    torch.version.cuda = "12.4"
