"""The operators that the chosen torch_npu release registers for the NPU.

GPU2NPU_TORCH_NPU names the release; without it the newest says which of PyTorch's operators are
registered, and all others count as such.
"""

from __future__ import annotations

import functools
import os

from gpu2npu.support import release_tables
from gpu2npu.support.operators import has_kernel, torch_release
from gpu2npu.support.release_tables import SupportTable, table_for
from gpu2npu.support.releases import RELEASES

_OWN = "npu::"


@functools.cache
def _table() -> SupportTable | None:
    version = os.environ.get("GPU2NPU_TORCH_NPU")
    if not version:
        return None
    try:
        return table_for(version)
    except ValueError as error:
        raise RuntimeError(f"GPU2NPU_TORCH_NPU: {error}") from None


def release() -> str | None:
    """The version of the torch_npu wheel, such as "2.3.1.post6"; None without one."""
    table = _table()
    return table.wheel.split("-")[1] if table is not None else None


def version() -> str | None:
    """The version of the facts in use, as gpu2npu.support understands it: "2.1.0.post0" for the wheel 2.1.0."""
    table = _table()
    return table.version if table is not None else None


def is_supported(name: str) -> bool:
    """Return whether the NPU has a kernel for an overload ("aten::add.Tensor").

    torch_npu's own are there by themselves. Of other libraries only those that register nothing for the NPU are asked
    for, such as `torchvision::nms`: torch_npu's fallback is that of all libraries, and takes them to the CPU.
    """
    table = _table()
    if name.startswith(_OWN) or (table is None and not name.startswith("aten::")):
        return True
    table = table or table_for(RELEASES[-1])
    return has_kernel(name, table, torch_release(table.release))


def has_custom(name: str) -> bool:
    """Return whether torch_npu adds an operator called so, as `npu_fusion_attention`; without a release, any."""
    table = _table()
    return table is None or release_tables.has_custom(table, name)


def has_sparse(name: str) -> bool:
    """Return whether torch_npu has a kernel of its own for sparse tensors for an overload; True without a release."""
    table = _table()
    return table is None or name in table.sparse
