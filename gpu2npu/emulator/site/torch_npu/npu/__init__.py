"""torch.npu: the questions that scripts and PyTorch itself ask about the NPU."""

import sys as _sys
from typing import Any as _Any

import torch as _torch

from gpu2npu.emulator.device.chip import (
    can_device_access_peer,
    get_device_capability,
    get_device_name,
    get_device_properties,
    ipc_collect,
    is_available,
    is_bf16_supported,
    utilization,
)
from gpu2npu.emulator.device.chip import is_compiled as _is_compiled
from gpu2npu.emulator.device.events import StreamContext
from gpu2npu.emulator.device.frontend import LEGACY_TYPES as _LEGACY_TYPES
from gpu2npu.emulator.device.legacy_types import legacy_storages as _legacy_storages
from gpu2npu.emulator.device.lifecycle import init, is_initialized
from gpu2npu.emulator.device.lifecycle import init as _lazy_init
from gpu2npu.emulator.device.lifecycle import is_in_bad_fork as _is_in_bad_fork
from gpu2npu.emulator.device.settings import (
    config,
    conv,
    current_blas_handle,
    get_sync_debug_mode,
    matmul,
    set_sync_debug_mode,
)
from gpu2npu.emulator.device.streams import current_stream, default_stream, set_stream, stream, synchronize
from gpu2npu.emulator.device.visible_npus import NPUS as _NPUS
from gpu2npu.emulator.device.visible_npus import current_device, device, device_count, device_of, set_device

from .._absent import publish as _publish
from . import aclnn, amp, autocast_utils, backends, deterministic, graphs, memory, npu_config, random, streams, utils
from ._unsupported import (
    npurt,
    obfuscation_calculate,
    obfuscation_finalize,
    obfuscation_initialize,
    restart_device,
    set_op_timeout_ms,
    stop_device,
)
from .autocast_utils import *
from .backends import *
from .deterministic import *
from .graph_updates import NpuGraphOpHandler, register_npu_graph_handler
from .graphs import *
from .memory import *
from .mstx import mstx  # a class, over the module of the same name
from .npu_config import *
from .operator_dump import finalize_dump, init_dump, set_aoe, set_dump
from .random import *
from .streams import *
from .utils import *
from .utils import _get_device_index

globals().update({**_LEGACY_TYPES, **_legacy_storages(_NPUS)})
for _name in ("fft_plan_cache", "is_support_inf_nan", "npu_check_overflow"):  # of their modules only
    del globals()[_name]
_MODULES = (aclnn, amp, autocast_utils, backends, deterministic, graphs, memory, npu_config, random, streams, utils)
_publish(globals(), *(_each.__name__.rpartition(".")[2] for _each in _MODULES))
for _each in (*_MODULES, amp.autocast_mode, amp.common, amp.grad_scaler):
    _sys.modules[f"torch.npu.{_each.__name__.partition('.npu.')[2]}"] = _each

# PyTorch and scripts also ask for these.
_PRIVATE = (_is_compiled, _is_in_bad_fork, _lazy_init)


def __getattr__(name: str) -> _Any:
    if name == "_initialized":  # torch.utils.checkpoint asks for it by this name
        return is_initialized()
    raise AttributeError(f"module 'torch.npu' has no attribute {name!r}")


def _get_generator(device: _torch.device) -> _torch.Generator:  # noqa: F811
    """The device's own generator, as torch.distributed asks for it."""
    generator: _torch.Generator = default_generators[_get_device_index(device)]
    return generator
