"""The kinds of affinity rewrites there are, and the choice among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpu2npu.codemods.affinity.activations import GEGLU, GELU, MISH, QUICK_GELU, SILU, SWIGLU, TANH_GELU
from gpu2npu.codemods.affinity.attention import ATTENTION, MASKED_ATTENTION
from gpu2npu.codemods.affinity.calls import (
    ATTENTION_CALL,
    CROSS_ENTROPY,
    MASKED_ATTENTION_CALL,
    RMS_NORM_CALL,
    RMS_NORM_MODULE,
)
from gpu2npu.codemods.affinity.constants import FLOAT64
from gpu2npu.codemods.affinity.flash_attention import FLASH_ATTENTION
from gpu2npu.codemods.affinity.kind import AffinityKind
from gpu2npu.codemods.affinity.layout import TRANSPOSED_RESHAPE
from gpu2npu.codemods.affinity.masks import MASKED_LOSS, MASKED_STORE, MASKED_SUM, STORE
from gpu2npu.codemods.affinity.optimizers import OPTIMIZER
from gpu2npu.codemods.affinity.residual import ONE_HOT, STACKED, SUM_NORM
from gpu2npu.codemods.affinity.rms_norm import RMS_NORM
from gpu2npu.codemods.affinity.rotary import ROTARY
from gpu2npu.codemods.affinity.settings import COPY, VIEWS
from gpu2npu.codemods.choice import CodemodError
from gpu2npu.near_names import did_you_mean
from gpu2npu.support.release_tables import SupportTable

_ALL = (
    ATTENTION, ATTENTION_CALL, RMS_NORM, RMS_NORM_CALL, RMS_NORM_MODULE, ROTARY, SWIGLU, GEGLU, SILU, GELU, QUICK_GELU,
    MASKED_LOSS, CROSS_ENTROPY, STACKED, TRANSPOSED_RESHAPE, MASKED_SUM, MASKED_STORE, STORE, FLOAT64, COPY, VIEWS,
    MASKED_ATTENTION, MASKED_ATTENTION_CALL, FLASH_ATTENTION, OPTIMIZER, SUM_NORM, ONE_HOT, MISH, TANH_GELU,
)  # fmt: skip
KINDS: Mapping[str, AffinityKind] = {kind.id: kind for kind in _ALL}
SAFE, ALL = "safe", "all"


def chosen(names: Iterable[str]) -> tuple[str, ...]:
    """The kinds that names of kinds, "safe" and "all" stand for, in the order of KINDS.

    Raises CodemodError for a name that is neither.
    """
    found: set[str] = set()
    for name in names:
        if name in (SAFE, ALL):
            found |= {kind.id for kind in KINDS.values() if name == ALL or kind.safe}
        elif name in KINDS:
            found.add(name)
        else:
            there = (SAFE, ALL, *KINDS)
            hint = did_you_mean(name, there) or f"it takes {', '.join(there)}."
            raise CodemodError(f"--affinity: there is no kind {name!r}; {hint}")
    return tuple(name for name in KINDS if name in found)


def available(kind: AffinityKind, table: SupportTable) -> bool:
    """Return whether a release has all operators that a kind needs."""
    return all(_has(need, table) for need in kind.needs)


def _has(need: str, table: SupportTable) -> bool:
    operators: Iterable[str] = table.custom if need.startswith("npu::") else table.supported
    return any(name == need or name.startswith(f"{need}.") for name in operators)
