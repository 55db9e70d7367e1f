"""A verification as one web page that needs nothing else: losses, a heat map of steps by places, numbers and code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu2npu.language import message, shown
from gpu2npu.report.webpage import embedded_json, render

# Who computed an operator of the NPU, by the record's word.
COMPUTED = {
    "numpy": message("NumPy kernel"),
    "borrowed": message("PyTorch's CPU code"),
    "fallback": "not on the NPU: the CPU computes it",
}


def verify_page(document: Mapping[str, Any], name: str) -> str:
    """The page of a document as `gpu2npu verify --format json` prints it."""
    return render(
        "verify.html",
        title=shown(f"{name} on an NPU"),
        name=name,
        result=document,
        computed=COMPUTED,
        data=embedded_json(document),
    )
