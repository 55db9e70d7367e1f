"""The same properties over files that people wrote: those of the labelled set (see tests/labelled).

By default in some packages of each round; GPU2NPU_TEST_LABELS=all, as `make test-labels` sets it, takes all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from benchmarks.archives import Package, fetch_package
from benchmarks.labels import LABELS_ARE_FOR, TREES, chosen_packages, read_labels
from gpu2npu.engine import ProjectContext
from gpu2npu.formats.dispatch import migrate_file
from gpu2npu.records import Change, MigratedFile
from gpu2npu.rulebook import load_rulebook

RULEBOOK = load_rulebook()
LARGEST = 30_000  # bytes; the larger files would take most of the time


@pytest.mark.parametrize("package", chosen_packages(), ids=lambda package: package.name)
def test_the_labelled_files_of(
    package: Package,
    stays_a_program: Callable[[str, MigratedFile], str],
    only_listed_text_changed: Callable[[str, str, Iterable[Change]], None],
) -> None:
    tree = fetch_package(package, TREES)
    paths = sorted({label.path for label in read_labels() if label.package == package.name})
    context = ProjectContext(version=LABELS_ARE_FOR)
    changed = 0
    for path in paths:
        source = (tree / path).read_bytes()
        if len(source) > LARGEST:
            continue
        result = migrate_file(source, path, RULEBOOK, context)
        after = source if result.content is None else result.content
        if path.endswith(".py"):
            stays_a_program(source.decode(), result)
        only_listed_text_changed(source.decode(), after.decode(), result.changes)
        again = migrate_file(after, path, RULEBOOK, context)
        assert (again.failure, again.content, again.changes) == (None, None, ()), path
        changed += bool(result.changes)
    assert changed > 1
