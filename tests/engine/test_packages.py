"""Import rules."""

from __future__ import annotations

import pytest

from gpu2npu.records import FindingKind, Operation

FAST = {
    "id": "fast",
    "match": {"import": "fastlib"},
    "then": {"report": {"kind": "unsupported", "message": "No NPU."}},
}
GONE = {"id": "gone", "match": {"import": "amp_D"}, "then": {"remove": True}}


@pytest.mark.parametrize(
    "text",
    [
        "import fastlib",
        "import fastlib.nn as fn",
        "from fastlib import *",
        "from fastlib.ops import a, b",
        "import importlib\nm = importlib.import_module('fastlib.ops')",
        "def f():\n    import fastlib",
    ],
)
def test_every_form_of_import_is_one_finding(migrate_with, text: str) -> None:
    result = migrate_with([FAST], text)
    assert result.content is None
    assert [(finding.rule, finding.kind) for finding in result.findings] == [("fast", FindingKind.UNSUPPORTED)]


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    import fastlib\nexcept ImportError:\n    fastlib = None\n",
        "try:\n    import fastlib\nexcept (OSError, ModuleNotFoundError):\n    fastlib = None\n",
        "if is_fastlib_available():\n    from fastlib import f\n",
    ],
)
def test_an_optional_import_is_for_review(migrate_with, text: str) -> None:
    [finding] = migrate_with([FAST], text).findings
    assert finding.kind is FindingKind.REVIEW


def test_the_fallback_itself_is_not_optional(migrate_with) -> None:
    [finding] = migrate_with([FAST], "try:\n    import other\nexcept ImportError:\n    import fastlib\n").findings
    assert finding.kind is FindingKind.UNSUPPORTED


@pytest.mark.parametrize("text", ["from . import fastlib", "from .fastlib import a", "import fastlibrary"])
def test_other_modules_are_left_alone(migrate_with, text: str) -> None:
    assert migrate_with([FAST], text).findings == ()


def test_the_projects_own_module_is_left_alone(rulebook, project) -> None:
    results = project({"triton.py": "x = 1\n", "train.py": "import triton\n"})
    assert results["train.py"].findings == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import os\nimport amp_D  # fast\nx = 1\n", "import os\nx = 1\n"),
        ("def f():\n    import amp_D\n    return 1\n", "def f():\n    return 1\n"),
        ("try:\n    import amp_D\nexcept ImportError:\n    x()\n", "try:\n    pass\nexcept ImportError:\n    x()\n"),
        ("import os; import amp_D\n", "import os; pass\n"),
        ("# head\n\n# about it\nfrom amp_D import a\nb = 2\n", "# head\n\n# about it\nb = 2\n"),
    ],
)  # fmt: skip
def test_an_import_is_taken_out(migrate_with, before: str, after: str) -> None:
    result = migrate_with([GONE], before)
    assert (result.content or b"").decode() == after
    assert [change.operation for change in result.changes] == [
        Operation.MODIFY if "pass" in after else Operation.DELETE
    ]
    assert migrate_with([GONE], after).content is None
