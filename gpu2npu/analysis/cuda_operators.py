"""The operators that a project's own C++ and CUDA sources export."""

from __future__ import annotations

from collections.abc import Mapping

from gpu2npu.records import ExportedOperator


def may_export(path: str) -> bool:
    return False


def exported_operators(files: Mapping[str, bytes]) -> tuple[ExportedOperator, ...]:
    return ()
