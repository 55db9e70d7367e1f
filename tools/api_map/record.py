"""The results of traces, collected by API and written so that operators and compositions are there once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from tools.api_map.calls import Call
from tools.api_map.tracing import Node, distinct, trace, trace_as_is

MOST_VARIANTS = 16


@dataclass
class _Variant:
    """One set of operators that calls reached: by how many samples, and by how many of those without options.

    `label` is what all samples that set something set, and `gradient` what their gradients reached.
    """

    nodes: tuple[Node, ...]
    label: str
    samples: int = 0
    plain: int = 0
    gradient: dict[str, Node] = field(default_factory=dict)


class Book:
    """Gathers the traces of calls. `refused` are the APIs' reasons why samples could not be called."""

    def __init__(self, kinds: Mapping[str, str]) -> None:
        self._kinds = kinds
        self._apis: dict[str, dict[str, _Variant]] = {}
        self.refused: dict[str, list[str]] = {}

    def add(self, call: Call) -> None:
        """Trace a call, forward and, where it has one, backward. A call that raises is noted and skipped."""
        torch.manual_seed(0)
        try:
            traced = trace_as_is if call.as_is else trace
            nodes = traced(call.prepare(), self._kinds)
        except Exception as error:
            self.refused.setdefault(call.api, []).append(f"{type(error).__name__}: {str(error)[:80]}")
            return
        variants = self._apis.setdefault(call.api, {})
        key = ",".join(node.key for node in nodes)
        variant = variants.setdefault(key, _Variant(nodes, call.label))
        variant.samples += 1
        variant.plain += not call.label
        if call.label and variant.label and call.label != variant.label:
            variant.label = _shared(variant.label, call.label)
        if call.gradient is None:
            return
        try:
            for node in trace_as_is(call.gradient(), self._kinds):
                variant.gradient[node.key] = node
        except Exception as error:
            self.refused.setdefault(call.api, []).append(f"gradient: {type(error).__name__}: {str(error)[:80]}")

    def as_data(self) -> dict[str, Any]:
        """`operators`, a list of names; `nodes`, of [operator, parts], all by number; `apis`, of variants.

        A variant is [samples, samples without options, label, nodes, nodes of the gradient], the most frequent first.
        """
        numbers: dict[str, int] = {}
        nodes: list[list[Any]] = []
        operators: dict[str, int] = {}

        def number(node: Node) -> int:
            if node.key not in numbers:
                parts = [number(part) for part in node.parts]
                nodes.append([operators.setdefault(node.operator, len(operators)), *parts])
                numbers[node.key] = len(nodes) - 1
            return numbers[node.key]

        apis = {}
        for api in sorted(self._apis):
            variants = sorted(self._apis[api].values(), key=lambda each: -each.samples)[:MOST_VARIANTS]
            apis[api] = [
                [
                    variant.samples,
                    variant.plain,
                    variant.label,
                    [number(node) for node in variant.nodes],
                    [number(node) for node in distinct(list(variant.gradient.values()))],
                ]
                for variant in variants
            ]
        return {"operators": list(operators), "nodes": nodes, "apis": apis}


def _shared(one: str, other: str) -> str:
    both = [each for each in one.split(", ") if each in other.split(", ")]
    return ", ".join(both)
