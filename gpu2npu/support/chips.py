"""The families of Ascend chips, as the facts distinguish them, and what people call their members."""

from __future__ import annotations

from collections.abc import Sequence

# Families of chips, as torch_npu's documentation distinguishes them; 910_93 is the A3, 310P an inference card.
CHIPS = ("910A", "910B", "910_93", "310P", "950")
DEFAULT_CHIP = "910B"
# What the name of a chip begins with, as torch_npu's socVersionMap and `npu-smi` have it, and its family.
_PREFIXES = {
    "910_93": "910_93",
    "910C": "910_93",
    "910B": "910B",
    "910A": "910A",
    "910PRO": "910A",
    "910PREMIUM": "910A",
    "310P": "310P",
    "310B": "310P",  # the same generation, with one core: no document has limits of its own for it
    "950": "950",
}
# What torch_npu's socVersionMap (number 104) and `npu-smi` call a chip of the first generation, and people a family.
_AMBIGUOUS = "910B"
_PRODUCTS = {"A2": "910B", "A3": "910_93"}  # Atlas A2, Atlas A3


def chip_family(name: str) -> str:
    """Find the member of CHIPS that a chip's name is for: "Ascend910B2" and "910b" for "910B", "A3" for "910_93".

    Raises ValueError where no family has the name.
    """
    bare = name.strip().upper().removeprefix("ASCEND")
    of_prefix = (family for prefix, family in _PREFIXES.items() if bare.startswith(prefix))
    family = _PRODUCTS.get(bare) or next(of_prefix, None)
    if family is None:
        raise ValueError(f"no chip is called {name!r}; there are {', '.join(CHIPS)}, and names such as Ascend910B2")
    return family


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
