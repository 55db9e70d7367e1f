"""What the chosen torch_npu release registers for the NPU: read from the table that GPU2NPU_SUPPORT_TABLE names."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any


@functools.cache
def _table() -> dict[str, Any] | None:
    path = os.environ.get("GPU2NPU_SUPPORT_TABLE")
    if not path:
        return None
    try:
        table = json.loads(Path(path).read_text(encoding="utf-8"))
        table["operators"].keys()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RuntimeError(f"GPU2NPU_SUPPORT_TABLE: {path} is not a table of operators ({error!r})") from error
    return table  # type: ignore[no-any-return]


@functools.cache
def _operators(kind: str) -> frozenset[str] | None:
    """Names without namespaces: the "supported" operators of aten, the "custom" ones of torch_npu. None: no table."""
    table = _table()
    if table is None:
        return None
    try:
        return frozenset(name.rpartition("::")[2] for name in table["operators"][kind])
    except (KeyError, TypeError, AttributeError) as error:
        path = os.environ["GPU2NPU_SUPPORT_TABLE"]
        raise RuntimeError(f"GPU2NPU_SUPPORT_TABLE: {path} is not a table of operators ({error!r})") from error


def release() -> str | None:
    """The version of the torch_npu wheel that the table was made from, such as "2.3.1"; None without a table."""
    table = _table()
    version = table.get("wheel", {}).get("version") if table else None
    return str(version) if version else None


def is_supported(name: str) -> bool:
    """Whether the NPU has the operator, as a function, in place or with `out=`; True without a table."""
    supported = _operators("supported")
    if supported is None or not name.startswith("aten::"):
        return True
    base, _, overload = name.removeprefix("aten::").partition(".")
    forms = {base, f"{base}_", f"{base}.out", f"{base}.{overload}", f"{base}_.{overload}", f"{base}.{overload}_out"}
    return not forms.isdisjoint(supported)


def is_custom(name: str) -> bool:
    """Whether torch_npu adds an operator of this name, such as `npu_fusion_attention`; without a table, any `npu_*`."""
    custom = _operators("custom")
    if custom is None:
        return name.startswith("npu_")
    return any(operator.partition(".")[0] == name for operator in custom)
