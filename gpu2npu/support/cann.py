"""The CANN that a release of torch_npu is made for, and a container image that has it, from `data/cann.json`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from gpu2npu.support.releases import (
    DATA,
    VERSIONS,
    first_release,
    known_version,
    release_of,
    torch_npu_releases,
    version_key,
    wheel_version,
)


@dataclass(frozen=True)
class Cann:
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


@cache
def _data() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((DATA / "cann.json").read_text(encoding="utf-8"))
    return content
