"""The kinds of affinity rewrites there are, and the choice among them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from gpu2npu.codemods.affinity.calls import find_constant, find_flash_attention, renamed
from gpu2npu.codemods.affinity.optimizers import find as find_optimizer
from gpu2npu.codemods.affinity.settings import find_copy, find_views
from gpu2npu.codemods.choice import CodemodError
from gpu2npu.near_names import did_you_mean
from gpu2npu.shapes import masks
from gpu2npu.shapes.catalogue import SHAPES, kind_of
from gpu2npu.shapes.kind import AffinityKind, Find

DATA = Path(__file__).parent / "kinds.json"
# What finds the kinds of kinds.json that are no renamed call.
_FINDERS: Mapping[str, Find] = {
    "masked-loss": masks.find_loss,
    "masked-sum": masks.find_reduction,
    "masked-store": masks.find_compared_store,
    "any-masked-store": masks.find_store,
    "float64-constant": find_constant,
    "copy-waits": find_copy,
    "ddp-views": find_views,
    "flash-attention": find_flash_attention,
    "fused-optimizer": find_optimizer,
}
_ROWS = json.loads(DATA.read_text(encoding="utf-8"))
_OTHERS = [kind_of(row, renamed(**row["renames"]) if "renames" in row else _FINDERS[row["id"]]) for row in _ROWS]
# Where two kinds are for the same code, the first has it.
KINDS: Mapping[str, AffinityKind] = SHAPES | {kind.id: kind for kind in _OTHERS}
SAFE, ALL = "safe", "all"


def chosen(names: Iterable[str]) -> tuple[str, ...]:
    """The kinds that are meant by names of kinds, "safe" and "all", in the order of KINDS.

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
