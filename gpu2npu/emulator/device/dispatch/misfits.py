"""The argument of one of torch_npu's operators that does not fit the others, for the words of an error.

`fits.txt` has the shapes of an operator's tensors: a dimension is a name, a number, sums or products of these (`I+H`,
`4*H`), any number of dimensions (`*S`), or 1 in place of what is behind `~`. Sources are the docstrings of `npu_ops`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch

# The sizes of the dimensions by their names; of `*S` all of its sizes.
Sizes = dict[str, tuple[int, ...]]
Pattern = Mapping[str, tuple[str, ...]]


def misfit(operator: str, given: Mapping[str, object]) -> str | None:
    """The sentence for arguments that do not fit together; None where the table cannot name one.

    An argument is named if all others fit together without it. Of several such the last is, and the others with it.
    """
    patterns = _patterns().get(operator.removeprefix("npu::").partition(".")[0], ())
    words = [_misfit(pattern, _shapes(pattern, given)) for pattern in patterns]
    found = None if any(each == "" for each in words) else next(filter(None, words), None)
    return found and f"{operator}: {found}"


def _shapes(pattern: Pattern, given: Mapping[str, object]) -> dict[str, tuple[int, ...]]:
    """The shapes of the tensors; a list counts if it is of one."""
    values = ((name, given.get(name)) for name in pattern)
    single = ((name, each[0] if isinstance(each, (list, tuple)) and len(each) == 1 else each) for name, each in values)
    return {name: tuple(each.shape) for name, each in single if isinstance(each, torch.Tensor)}


def _misfit(pattern: Pattern, shapes: Mapping[str, tuple[int, ...]]) -> str | None:
    """The words for the argument that does not fit; "" if all do, None if it is none alone."""
    if _sizes(pattern, shapes) is not None:
        return ""
    suspects: dict[str, Sizes] = {}
    for name in shapes:
        found = _sizes(pattern, {other: shape for other, shape in shapes.items() if other != name})
        if found is not None:
            suspects[name] = found
    # What is left without one may say too little of the others to accuse them.
    certain = {name: found for name, found in suspects.items() if _is_known(pattern, shapes.keys() - {name}, found)}
    suspects = certain or suspects
    if not suspects:
        return None
    *others, wrong = suspects
    described = f"{wrong} of shape {list(shapes[wrong])} does not fit "
    if others:
        return described + " and ".join(f"{name} of shape {list(shapes[name])}" for name in others)
    wanted = ", ".join(_worded(each, suspects[wrong]) for each in pattern[wrong])
    return f"{described}the others, which ask for [{wanted}]"


@functools.cache
def _patterns() -> dict[str, list[Pattern]]:
    """The dimensions of the arguments by operator, of which several layouts have a line each."""
    found: dict[str, list[Pattern]] = {}
    for line in Path(__file__).with_name("fits.txt").read_text(encoding="utf-8").splitlines():
        operator, *arguments = line.split()
        named = (each.partition("=")[::2] for each in arguments)
        found.setdefault(operator, []).append({name: tuple(shape.split(",")) for name, shape in named})
    return found


def _is_known(pattern: Pattern, names: Iterable[str], sizes: Sizes) -> bool:
    """Return whether no dimension of these arguments is of an unknown size."""
    dimensions = {each for name in names for each in pattern[name]}
    return all(
        each in sizes if each[0] == "*" else _value(each.removeprefix("~"), sizes) is not None for each in dimensions
    )


def _sizes(pattern: Pattern, shapes: Mapping[str, tuple[int, ...]]) -> Sizes | None:
    """The sizes of all names, as far as the shapes say; None if the shapes contradict each other."""
    sizes: Sizes = {}
    for _ in range(3):  # a name behind two `*` is known once one of them is
        for name, shape in shapes.items():
            if not _fits(pattern[name], shape, sizes):
                return None
    return sizes


def _fits(dimensions: tuple[str, ...], shape: tuple[int, ...], sizes: Sizes) -> bool:
    """Return whether a shape agrees with the sizes that are known, to which it adds its own."""
    unknown = [each for each in dimensions if each[0] == "*" and each not in sizes]
    known = sum(len(sizes[each]) if each in sizes else each[0] != "*" for each in dimensions)
    if len(shape) < known or (not unknown and len(shape) != known):
        return False
    if len(unknown) > 1:
        return True
    at = 0
    for each in dimensions:
        if each[0] == "*":
            count = len(sizes[each]) if each in sizes else len(shape) - known
            if sizes.setdefault(each, shape[at : at + count]) != shape[at : at + count]:
                return False
            at += count
            continue
        bare = each.removeprefix("~")
        expected = _value(bare, sizes)
        if expected is None and bare.isidentifier() and not (each[0] == "~" and shape[at] == 1):
            sizes[bare] = (shape[at],)
        elif expected is not None and shape[at] != expected and not (each[0] == "~" and shape[at] == 1):
            return False
        at += 1
    return True


def _value(dimension: str, sizes: Sizes) -> int | None:
    """The size of a dimension, `I+H` or `4*H`; None where a name of it is not known."""
    total = 0
    for term in dimension.split("+"):
        factors = [int(each) if each.isdigit() else sizes.get(each, (None,))[0] for each in term.split("*")]
        if None in factors:
            return None
        total += math.prod(each for each in factors if each is not None)
    return total


def _worded(dimension: str, sizes: Sizes) -> str:
    if dimension in sizes:
        return ", ".join(map(str, sizes[dimension]))
    value = None if dimension[0] == "*" else _value(dimension.removeprefix("~"), sizes)
    return dimension.removeprefix("~") if value is None else str(value)
