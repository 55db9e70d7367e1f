"""A verification as one web page that needs nothing else: losses, a heat map of steps by places, numbers and code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu2npu.language import shown
from gpu2npu.report.webpage import embedded_json, render


def verify_page(document: Mapping[str, Any], name: str) -> str:
    """The page of a document as `gpu2npu verify --format json` prints it."""
    return render(
        "verify.html", title=shown(f"{name} on an NPU"), name=name, result=document, data=embedded_json(document)
    )
