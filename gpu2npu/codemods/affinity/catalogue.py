"""The kinds of affinity rewrites there are, and the choice among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpu2npu.codemods.affinity.calls import (
    ATTENTION_CALL,
    CROSS_ENTROPY,
    MASKED_ATTENTION_CALL,
    RMS_NORM_CALL,
    RMS_NORM_MODULE,
)
from gpu2npu.codemods.affinity.constants import FLOAT64
from gpu2npu.codemods.affinity.flash_attention import FLASH_ATTENTION
from gpu2npu.codemods.affinity.optimizers import OPTIMIZER
from gpu2npu.codemods.affinity.settings import COPY, VIEWS
from gpu2npu.codemods.choice import CodemodError
from gpu2npu.near_names import did_you_mean
from gpu2npu.shapes.catalogue import SHAPES
from gpu2npu.shapes.kind import AffinityKind
from gpu2npu.shapes.masks import MASKED_LOSS, MASKED_STORE, MASKED_SUM, STORE

# Where two kinds are for the same code, the first has it.
_ALL = (
    *SHAPES.values(),
    ATTENTION_CALL, RMS_NORM_CALL, RMS_NORM_MODULE, MASKED_LOSS, CROSS_ENTROPY, MASKED_SUM, MASKED_STORE,
    STORE, FLOAT64, COPY, VIEWS, MASKED_ATTENTION_CALL, FLASH_ATTENTION, OPTIMIZER,
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
