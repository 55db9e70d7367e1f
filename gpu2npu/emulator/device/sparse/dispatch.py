"""Registration of the operators on sparse tensors, for PyTorch's dispatch keys SparsePrivateUse1 and its like.

torch_npu registers three kinds of operators for it, and a fallback that raises:

- `shared.txt`: overloads whose function in PyTorch is the same for the CPU and CUDA, since it only calls operators on
  the tensors of indices and values. torch_npu registers that function, and so does this, through the key SparseCPU.
  The list is that of the symbols `wrap_SparseNPU_*` (RegisterSparseNPU.cpp) in libtorch_npu.so, the same from
  2.1.0.post3 to 2.9.1; the wheel 2.1.0 has none.
- its own (`operators`), as far as the release has them;
- `_to_sparse`, of dense tensors.

For CSR, CSC, BSR and BSC (SparseCsrPrivateUse1) it registers the functions that PyTorch shares, and no others:
`compressed.txt`, the symbols `wrap_SparseCsrNPU_*` (RegisterSparseCsrNPU.cpp), the same from 2.4.0rc1 to 2.14.0; 2.3.1
and earlier releases have none.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch._ops import OpOverload

from gpu2npu.emulator.device import visible_npus
from gpu2npu.emulator.device.dispatch import signature, support_table
from gpu2npu.emulator.device.dispatch.operator_errors import with_operator
from gpu2npu.emulator.device.sparse import operators
from gpu2npu.emulator.registration import implement

SHARED = Path(__file__).with_name("shared.txt")
COMPRESSED = Path(__file__).with_name("compressed.txt")
FIRST_COMPRESSED = (2, 4)

_KEY = "SparsePrivateUse1"
_CPU_KEY = torch._C.DispatchKey.SparseCPU
_COMPRESSED_KEY = "SparseCsrPrivateUse1"
_MASK = "sparse_mask"
_DENSE = ("_to_sparse", "_to_sparse.sparse_dim")


def load(library: torch.library.Library) -> None:
    """Register what the release in use has for sparse tensors."""
    release = support_table.release()
    if release is None or tuple(map(int, release.split(".")[:2])) >= FIRST_COMPRESSED:
        for name in COMPRESSED.read_text(encoding="utf-8").split():
            implement(library, name, _shared(name, torch._C.DispatchKey.SparseCsrCPU), _COMPRESSED_KEY)
    own = {name: function for name, function in operators.OWN.items() if support_table.has_sparse(f"aten::{name}")}
    if not own:
        return
    for name in SHARED.read_text(encoding="utf-8").split():
        if name != _MASK:
            implement(library, name, _shared(name, _CPU_KEY), _KEY)
    implement(library, _MASK, _named(_MASK, _sparse_mask), _KEY)
    for name, function in own.items():
        implement(library, name, _named(name, function), _KEY)
    for name in _DENSE:
        implement(library, name, _shared(name, torch._C.DispatchKey.CPU), "PrivateUse1")


def _refuse(op: OpOverload) -> NoReturn:
    """Raise torch_npu's error for an operator that it does not register (`npu_Sparse_fallback` in its library)."""
    raise RuntimeError(f"CAUTION: The operator '{op.name()}' is not currently supported on the NPU backend.")


def _refuse_compressed(op: OpOverload) -> NoReturn:
    """Raise what PyTorch does for CSR and its like, up to the list of the keys that have the operator."""
    raise NotImplementedError(
        f"Could not run '{op.name()}' with arguments from the 'SparseCsrnpu' backend: torch_npu has no such kernel for "
        "tensors in CSR, CSC, BSR or BSC. Call it with x.to_dense(), or on the CPU."
    )


# What computes nothing, for each key: torch_npu has a fallback for COO alone, for the others PyTorch raises.
REFUSALS: Mapping[str, Callable[[OpOverload], NoReturn]] = {_KEY: _refuse, _COMPRESSED_KEY: _refuse_compressed}


def _sparse_mask(tensor: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The function that PyTorch shares; of sparse tensors ours, since that one needs a kernel registered in C++."""
    if tensor.is_sparse:
        return operators.masked(tensor, mask)
    return torch.ops.aten.sparse_mask.default._op_dk(_CPU_KEY, tensor, mask)  # type: ignore[no-any-return]


def _shared(name: str, key: Any) -> Callable[..., Any]:
    op = signature.overload(f"aten::{name}")
    return _named(name, functools.partial(op._op_dk, key))


def _named(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            with visible_npus.device(_device(args, kwargs)):
                return function(*args, **kwargs)
        except Exception as error:
            if "DispatchStub: missing kernel" in str(error):
                raise NotImplementedError(f"aten::{name}: the NPU has no conversion from {args[0].layout}") from None
            raise with_operator(error, f"aten::{name}", args, kwargs)  # noqa: B904

    return run


def _device(args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.device:
    """The NPU that an operator works on: PyTorch makes sparse tensors on the current one."""
    tensors = [each for arg in args for each in (arg if isinstance(arg, (list, tuple)) else (arg,))]
    given = kwargs.get("device") or next((each.device for each in tensors if isinstance(each, torch.Tensor)), None)
    return given if given is not None and given.type == "npu" else torch.device("npu", visible_npus.current_device())
