"""The operators that torch's APIs end in, by the name of the API."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from msgspec import Struct

from gpu2npu.support.operators import Reached
from gpu2npu.support.releases import DATA

TORCH_APIS = DATA / "torch_apis.json"


class Variant(Struct, frozen=True):
    """One set of operators that calls reached, forward and in their gradients.

    `samples` reached it, `plain` of them called without options; `label` is what the others set ("mode='bicubic'").
    """

    samples: int
    plain: int
    label: str
    nodes: tuple[Reached, ...]
    gradient: tuple[Reached, ...]


@cache
def api_variants() -> dict[str, tuple[Variant, ...]]:
    """Return what calls of each traced API reach; see tools/api_map, which makes the data."""
    content: dict[str, Any] = json.loads(TORCH_APIS.read_text(encoding="utf-8"))
    nodes: list[Reached] = []
    for operator, *parts in content["nodes"]:
        nodes.append(Reached(content["operators"][operator], tuple(nodes[part] for part in parts)))
    return {
        api: tuple(
            Variant(
                samples, plain, label, tuple(nodes[each] for each in reached), tuple(nodes[each] for each in gradient)
            )
            for samples, plain, label, reached, gradient in variants
        )
        for api, variants in content["apis"].items()
    }
