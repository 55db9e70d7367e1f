"""Releases that go together: of torch, torch_npu, CANN, its driver and Python, from `data/cann.json`; CANN's images."""

from __future__ import annotations

import json
import re
from bisect import bisect
from collections.abc import Sequence
from functools import cache
from typing import Any

from msgspec import Struct

from gpu2npu.support.chips import FAMILIES
from gpu2npu.support.releases import (
    DATA,
    VERSIONS,
    first_release,
    known_version,
    pytorch_of,
    release_of,
    torch_npu_releases,
    version_key,
    wheel_version,
)


class Cann(Struct, frozen=True):
    """A release of CANN ("8.3.RC1") for one of torch_npu, and its image for the 910B ("" where none is known).

    `is_listed` is false where Ascend's tables do not name this torch_npu: then it is the CANN of the nearest one before
    that they name.
    """

    version: str
    image: str
    is_listed: bool


def cann_for(version: str) -> Cann:
    """The CANN for a version, of PyTorch or of torch_npu, as `known_version` understands it.

    Raises ValueError when the version is not known.
    """
    known = known_version(version)
    if known is None:
        raise ValueError(f"no CANN for {version}")
    wheel = first_release().version if known == VERSIONS[0] else wheel_version(known)
    listed = _data()["cann"]
    before = [
        each.version
        for each in torch_npu_releases()
        if each.version in listed and version_key(each.version) <= version_key(wheel)
    ]
    same = [each for each in before if release_of(each) == release_of(wheel)]
    number = listed[(same or before)[-1]]
    return Cann(number, _data()["images"].get(number, ""), wheel in listed)


def chip_problem(version: str, chip: str) -> str:
    """Return why a version, of PyTorch or of torch_npu, is not for a chip of a family: it is older; "" where it is."""
    first = FAMILIES[chip].first_cann if chip in FAMILIES else ""
    if not first or cann_key(cann_for(version).version) >= cann_key(first):
        return ""
    since = next(
        (each.torch_npu for each in pairings() if release_of(each.torch_npu) == release_of(known_version(version) or "")
         and cann_key(each.cann) >= cann_key(first)), None
    )  # fmt: skip
    move = f"torch_npu {since} has it" if since else f"it came with CANN {first}"
    return f"torch_npu for {version} knows no Ascend{chip}: {move}"


# CANN's own releases, and what its packages and images add to them: "8.3.RC1", "8.3.RC1.beta1", "9.0.0-beta.1".
_CANN = re.compile(r"(\d+)\.(\d+)\.?(RC)?(\d+)((?:\.\d+)*)(?:[.-]?(alpha|beta)\.?(\d+))?", re.IGNORECASE)
CPU_INDEX = "https://download.pytorch.org/whl/cpu"  # of PyTorch's builds for the CPU
_NEAREST = 4  # releases that a sentence about an unknown one names


class Pairing(Struct, frozen=True):
    """A published pair of torch_npu and CANN, with the torch that torch_npu needs.

    `pythons` are those that torch_npu's wheels on PyPI are for, from the oldest; none where PyPI does not have it.
    `drivers` are the releases of Ascend HDK that CANN's documents name for this CANN, from the oldest; none where no
    source is known.
    """

    torch: str
    torch_npu: str
    cann: str
    pythons: tuple[str, ...]
    drivers: tuple[str, ...]

    @property
    def install(self) -> str:
        """The command that installs torch and torch_npu; "" where PyPI does not have that torch_npu.

        Wheels of torch_npu require torch's build for the CPU ("torch==2.7.1+cpu"), which PyTorch's own index has for
        x86_64 and aarch64. PyTorch before 2.3 is compiled against NumPy 1
        (https://github.com/pytorch/pytorch/issues/107302).
        """
        if not self.pythons:
            return ""
        numpy = ' "numpy<2"' if version_key(self.torch) < (2, 3) else ""
        return (
            f"pip install torch=={self.torch} torch-npu=={self.torch_npu}{numpy} pyyaml setuptools"
            f" --extra-index-url {CPU_INDEX}"
        )


@cache
def pairings() -> tuple[Pairing, ...]:
    """Every published pair, in the order of torch_npu's versions."""
    data = _data()
    return tuple(
        Pairing(
            data["torch"].get(torch_npu) or pytorch_of(torch_npu),
            torch_npu,
            cann,
            pythons_of(torch_npu),
            drivers_of(cann),
        )
        for torch_npu, cann in data["cann"].items()
    )


def pythons_of(torch_npu: str) -> tuple[str, ...]:
    """The Python versions that PyPI has wheels of a torch_npu for; none where it does not have that torch_npu."""
    return tuple(_data()["python"].get(torch_npu, "").split())


def drivers_of(cann: str) -> tuple[str, ...]:
    """The releases of Ascend HDK (driver and firmware) for a CANN, from the oldest; none where no source is known."""
    return tuple(_data()["drivers"].get(cann, ()))


def cann_key(version: str) -> tuple[int, ...]:
    """The order of CANN's versions: 8.3.RC1.alpha001, 8.3.RC1, 8.3.RC2, 8.3.0, 8.5.0. Raises ValueError for others."""
    match = _CANN.fullmatch(version)
    if match is None:
        raise ValueError(f"{version!r} is not a version of CANN such as 8.3.RC1 or 8.5.0")
    major, minor, candidate, number, patch, early, early_number = match.groups()
    is_alpha = (early or "").lower() == "alpha"  # a beta is what the public gets of a release
    stage = (0, int(early_number)) if is_alpha else (1, 0)
    return int(major), int(minor), 0 if candidate else 1, int(number), *stage, *map(int, re.findall(r"\d+", patch))


def known_cann(version: str) -> str | None:
    """The CANN of `pairings` that a version stands for: itself, or the one that it is a patch of.

    "8.3.RC1.beta1" is 8.3.RC1, "8.2.RC1.1" is 8.2.RC1, "9.0.1" is 9.0.0; None for a release that no table names.
    """
    text = re.sub(r"^CANN[ -]*", "", version.strip(), flags=re.IGNORECASE)
    try:
        key = cann_key(text)
    except ValueError:
        return None
    listed = {cann_key(each): each for each in _listed()}
    if key in listed:
        return listed[key]
    same = [each for each in listed if each[:3] == key[:3] and each[4] == key[4] == 1 and each < key]
    patched = [each for each in same if key[2] == 1 or each[3] == key[3]]  # 8.2.RC2 is not a patch of 8.2.RC1
    return listed[max(patched)] if patched else None


def unknown_cann(version: str) -> str:
    """The sentence about a CANN for which `known_cann` has none, with the nearest there are."""
    listed = [each for each in _listed() if "alpha" not in each]
    try:
        place = bisect([cann_key(each) for each in listed], cann_key(version))
    except ValueError as error:
        return f"{error}; the newest are {', '.join(listed[-_NEAREST:])}"
    near = listed[max(place - _NEAREST // 2, 0) :][:_NEAREST] if place < len(listed) else listed[-_NEAREST:]
    return f"no table of torch_npu names CANN {version}; the nearest are {', '.join(near)}"


def pairings_for(cann: str, torch: str = "") -> tuple[Pairing, ...]:
    """The pairs of a CANN of `known_cann` that PyPI has, the newest torch first, each with its newest torch_npu.

    Release candidates are there only where there is nothing else.

    `torch` is a version of PyTorch, of torch_npu or a minor release ("2.7"), for which they have to be; "" for any.
    """
    fitting = [each for each in pairings() if each.cann == cann and each.pythons and is_for(each, torch)]
    finished = [each for each in fitting if "rc" not in each.torch_npu] or fitting
    return tuple(reversed({each.torch: each for each in finished}.values()))


def no_pairing(cann: str, torch: str) -> str:
    """The sentence about a known CANN and a PyTorch, each "" for any, that `pairings_for` has none for."""
    wanted = " and ".join([*([f"CANN {cann}"] if cann else []), *([f"PyTorch {torch}"] if torch else [])])
    there = ", ".join(each.torch for each in pairings_for(cann)) if cann and torch else ""
    listed = [each.torch_npu for each in pairings() if each.cann == cann and is_for(each, torch)]
    other = f"there is one for PyTorch {there}" if there else f"Ascend's table names {', '.join(listed)}"
    return f"no table names a torch_npu on PyPI for {wanted}" + (f"; {other}" if there or listed else "")


def is_for(pairing: Pairing, torch: str) -> bool:
    """Return whether a pair is for a version of PyTorch ("2.7.1", "2.7"), is just that torch_npu, or `torch` is ""."""
    return not torch or torch == pairing.torch_npu or f"{pairing.torch}.".startswith(f"{torch}.")


def _listed() -> Sequence[str]:
    return sorted({each.cann for each in pairings()}, key=cann_key)


@cache
def _data() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((DATA / "cann.json").read_text(encoding="utf-8"))
    return content
