"""A CPU build of PyTorch is made to believe in CUDA, so that tensors on `cuda` have autograd and device guards.

PyTorch keeps two tables that a CUDA build fills. The device guards: `torch._C._ensureCUDADeviceGuardSet` installs a
guard that does nothing where the registered one says that there are no devices, so such a one is registered first. And
the hooks (`CUDAHooksInterface`), whose stub the autograd engine calls to learn whether CUDA was built: the stub gets a
copy of its table of virtual functions in which the first ones answer yes. Their order is that of the header
`ATen/detail/AcceleratorHooksInterface.h` from torch 2.9 to 2.14: isBuilt, isAvailable, hasPrimaryContext, init,
deviceCount, setCurrentDevice, getCurrentDevice, exchangeDevice, maybeExchangeDevice, isPinnedPtr,
getPinnedMemoryAllocator. The reducer of DistributedDataParallel asks for pinned memory and then whether it is: all host
memory is, to C++.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

import torch

_CUDA = 1  # c10::DeviceType::CUDA
_REGISTER_GUARD = "_ZN3c104impl19registerDeviceGuardENS_10DeviceTypeEPKNS0_24DeviceGuardImplInterfaceE"
_CPU_ALLOCATOR = "_ZN3c1015GetCPUAllocatorEv"
_HOOKS = "_ZN2at6detail12getCUDAHooksEv"
_WORD = ctypes.sizeof(ctypes.c_void_p)
_BEFORE = 2  # words of a virtual table before its first function: offset to top, type information
_FUNCTIONS = 64  # more than the classes have
_IS_BUILT = 2  # after the two destructors
_PINNED_ALLOCATOR = 12

# As https://pytorch.org/get-started/locally names it (2026-11).
_CPU_BUILDS = "https://download.pytorch.org/whl/cpu"


def _immortal(held: Any) -> int:
    """The address of a ctypes object that PyTorch holds: it is read when static objects end, after the interpreter."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(held))
    return ctypes.addressof(held)


class CannotPlayError(RuntimeError):
    """This PyTorch cannot be made to have tensors on `cuda`."""


def believe(devices: int) -> None:
    """Let PyTorch believe in that many CUDA devices; once a process.

    Raises:
        CannotPlayError: PyTorch has CUDA, or its libraries are not built as on Linux.
    """
    if torch.version.cuda or torch.version.hip:
        version = torch.__version__.partition("+")[0]
        raise CannotPlayError(
            f"torch {torch.__version__} is built for GPUs and finds none; install its build for the CPU "
            f"(pip install torch=={version}+cpu --index-url {_CPU_BUILDS})"
        )
    libraries = Path(torch.__file__).parent / "lib"
    suffix = "dylib" if sys.platform == "darwin" else "so"
    try:
        c10 = ctypes.CDLL(str(libraries / f"libc10.{suffix}"))
        aten = ctypes.CDLL(str(libraries / f"libtorch_cpu.{suffix}"))
        register, allocator, hooks = c10[_REGISTER_GUARD], c10[_CPU_ALLOCATOR], aten[_HOOKS]
    except (OSError, AttributeError) as error:
        raise CannotPlayError(f"torch {torch.__version__} cannot play CUDA's part on {sys.platform}: {error}") from None
    _register_guard(register)
    hooks.restype = ctypes.c_void_p
    _answer_as_built(hooks(), devices, ctypes.cast(allocator, ctypes.c_void_p).value)


def _function(answer: int) -> int:
    """The address of a C function that returns `answer` whatever it is given."""
    pointer = ctypes.c_void_p.from_address(_immortal(ctypes.CFUNCTYPE(ctypes.c_int64)(lambda: answer)))
    assert pointer.value is not None
    return pointer.value


def _register_guard(register: Any) -> None:
    table = (ctypes.c_void_p * _FUNCTIONS)(*[_function(0)] * _FUNCTIONS)
    guard = ctypes.c_void_p(_immortal(table))
    register.argtypes, register.restype = (ctypes.c_int8, ctypes.c_void_p), None
    register(_CUDA, _immortal(guard))
    torch._C._ensureCUDADeviceGuardSet()


def _answer_as_built(hooks: int, devices: int, pinned_allocator: int | None) -> None:
    pointer = ctypes.c_void_p.from_address(hooks)
    original = pointer.value
    assert original is not None
    size = _BEFORE + _FUNCTIONS
    table = (ctypes.c_void_p * size)(*(ctypes.c_void_p * size).from_address(original - _BEFORE * _WORD))
    yes, no = _function(1), _function(0)
    first = _BEFORE + _IS_BUILT
    for place, answer in enumerate((yes, yes, yes, no, _function(devices), no, no, no, no, yes)):
        table[first + place] = answer
    table[_BEFORE + _PINNED_ALLOCATOR] = pinned_allocator
    pointer.value = _immortal(table) + _BEFORE * _WORD
    if str(torch._C._accelerator_getAccelerator()) != "cuda":
        pointer.value = original
        raise CannotPlayError(f"torch {torch.__version__} keeps its CUDA hooks in another order than torch 2.9 to 2.14")
