"""Ascend chips and their families, as the facts distinguish them, from `data/chips.json`; what people call them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from msgspec import Struct

from gpu2npu.support.releases import DATA


class Family(Struct, frozen=True):
    """A family of chips: the `begins` of its members' names, the `products`; the rest is in `data/chips.json`."""

    name: str
    begins: tuple[str, ...]
    products: tuple[str, ...] = ()
    first_cann: str = ""
    dies: int = 1
    compiles: bool = False


def _read() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((DATA / "chips.json").read_text(encoding="utf-8"))
    return content


@cache
def chip_rows() -> tuple[dict[str, Any], ...]:
    """The row of each chip, with its sources in full, and without those figures that have none."""
    content = _read()
    sources = content["sources"]
    return tuple(
        {
            key: [value[0], sources.get(value[1], value[1])] if isinstance(value, list) else value
            for key, value in row.items()
        }
        for row in content["chips"]
    )


@cache
def representatives() -> dict[str, str]:
    """The chip that is taken for each name of several."""
    return dict(_read()["stands_for"])


FAMILIES = {row["name"]: Family(**row) for row in _read()["families"]}
CHIPS = tuple(FAMILIES)
DEFAULT_CHIP = "910B"
# What torch_npu's socVersionMap (number 104) and `npu-smi` call a chip of the first generation, and people a family.
_AMBIGUOUS = "910B"


def chip_family(name: str) -> str:
    """Find the member of CHIPS that a chip's name is for: "Ascend910B2" and "910b" for "910B", "A3" for "910_93".

    Raises ValueError where no family has the name.
    """
    bare = name.strip().upper().removeprefix("ASCEND")
    for family in FAMILIES.values():
        if bare in family.products or bare.startswith(tuple(family.begins)):
            return family.name
    raise ValueError(f"no chip is called {name!r}; there are {', '.join(CHIPS)}, and names such as Ascend910B2")


def chip_families(names: Sequence[str]) -> tuple[str, ...]:
    """The families that chips are of, each once. Raises ValueError where no family has a name."""
    return tuple(dict.fromkeys(map(chip_family, names)))


def other_meaning(name: str) -> str:
    """A sentence about the other chip that a name may mean: "Ascend910B" is one of the first generation as well, and a
    family; "" for any other name."""
    if name.strip().upper().removeprefix("ASCEND") != _AMBIGUOUS:
        return ""
    return (
        f"{name} is taken for the Ascend910B1 to 910B4 (Atlas A2); npu-smi also shows 910B for a chip of the first "
        f"generation with 32 GB and without bfloat16, which is Ascend910ProB here (--soc Ascend910ProB)"
    )
