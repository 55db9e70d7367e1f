"""Migrate, check and analyse agree about ten packages from PyPI.

By default about the smallest; GPU2NPU_TEST_LABELS=all, as `make test-labels` sets it, takes all.
"""

from __future__ import annotations

import os

import pytest

from benchmarks.agreement import compared_packages
from benchmarks.archives import Package, fetch_package
from benchmarks.labels import LABELS_ARE_FOR, TREES
from tools.agreement import agreement

ALL = os.environ.get("GPU2NPU_TEST_LABELS") == "all"


@pytest.mark.long
@pytest.mark.parametrize(
    "package",
    [package for package in compared_packages() if ALL or package.name == "effdet"],
    ids=lambda package: package.name,
)
def test_they_agree_about(package: Package) -> None:
    result = agreement(fetch_package(package, TREES), LABELS_ARE_FOR)
    assert result.changes
    assert not result.disagreements
