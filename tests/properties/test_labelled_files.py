"""The same properties over files that people wrote: those of the labelled set (see tests/labelled).

By default in some packages of each round; GPU2NPU_TEST_LABELS=all, as `make test-labels` sets it, takes all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

import pytest

from benchmarks.archives import Package, fetch_package
from benchmarks.labels import LABELS_ARE_FOR, MIGRATE, TREES, chosen_packages, read_labels
from gpu2npu.engine import ProjectContext
from gpu2npu.formats.dispatch import migrate_file
from gpu2npu.records import Change, MigratedFile
from gpu2npu.rulebook import load_rulebook

RULEBOOK = load_rulebook()
LARGEST = 30_000  # bytes; the larger files would take most of the time


def texts(content: bytes, path: str) -> dict[int | None, str]:
    """The text of a file; of a notebook that of each cell, in which changes have no escapes of JSON."""
    if not path.endswith(".ipynb"):
        return {None: content.decode()}
    return {number: "".join(cell["source"]) for number, cell in enumerate(json.loads(content)["cells"], 1)}


@pytest.mark.parametrize("package", chosen_packages(), ids=lambda package: package.name)
def test_the_labelled_files_of(
    package: Package,
    stays_a_program: Callable[[str, MigratedFile], str],
    only_listed_text_changed: Callable[[str, str, Iterable[Change]], None],
) -> None:
    tree = fetch_package(package, TREES)
    labels = [label for label in read_labels() if label.package == package.name]
    paths = sorted({label.path for label in labels})
    context = ProjectContext(version=LABELS_ARE_FOR)
    changed = False
    for path in paths:
        source = (tree / path).read_bytes()
        if len(source) > LARGEST:
            continue
        result = migrate_file(source, path, RULEBOOK, context)
        after = source if result.content is None else result.content
        if path.endswith(".py"):
            stays_a_program(source.decode(), result)
        now = texts(after, path)
        for cell, before in texts(source, path).items():
            only_listed_text_changed(
                before, now[cell], [each for each in result.changes if cell in (None, each.span.cell)]
            )
        again = migrate_file(after, path, RULEBOOK, context)
        assert (again.failure, again.content, again.changes) == (None, None, ()), path
        changed |= bool(result.changes)
    is_by_file = package.name not in ("bark", "torchsonn")  # whose devices are decided by other files
    assert changed or not is_by_file or all(label.answers != {MIGRATE} for label in labels)
