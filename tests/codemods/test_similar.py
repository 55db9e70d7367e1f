"""`-sim`: calls of what a release lacks are replaced by functions of a folder that comes along."""

import pytest

from gpu2npu.codemods import CodemodChoice, plan_codemods
from gpu2npu.engine import ProjectContext
from gpu2npu.support.verdicts import VerdictKind, verdict
from tests.codemods.edited import after_edits


def migrated(source, version="2.1.0"):
    context = ProjectContext(version=version)
    plan = plan_codemods({"tools/train.py": source.encode()}, context, CodemodChoice(options={"similar": True}))
    rewrite = plan.rewrites.get("tools/train.py")
    return (source if rewrite is None else after_edits(source, rewrite.edits)), rewrite, set(plan.new_files)


def test_calls_are_replaced_and_the_folder_comes_along():
    source = "import torch\nimport torch.nn.functional as F\nprint(F.huber_loss(x, torch.fmax(y, z)))\n"
    after, rewrite, new = migrated(source)
    assert after == (
        "import torch\nimport torch.nn.functional as F\nimport ascend_function\n"
        "print(ascend_function.huber_loss(x, ascend_function.fmax(y, z)))\n"
    )
    assert {finding.api for finding in rewrite.found} == {"torch.nn.functional.huber_loss", "torch.fmax"}
    assert new == {"ascend_function/__init__.py", "tools/ascend_function/__init__.py"}


@pytest.mark.parametrize(
    "source", ["import torch\nprint(torch.fmax(x, y, out=z))\n", "import torch\nprint(torch.add(x, y))\n"]
)
def test_what_has_no_equivalent_stays(source):
    assert migrated(source) == (source, None, set())


def test_a_function_that_another_file_names_otherwise_is_replaced():
    sources = {"a.py": b"from torch import fmax as f\n", "b.py": b"from a import f\ny = f(x)\n"}
    context = ProjectContext(version="2.1.0", files=frozenset(sources))
    plan = plan_codemods(sources, context, CodemodChoice(options={"similar": True}))
    assert plan.rewrites.keys() == {"b.py"}


def test_what_the_release_has_stays():
    assert verdict("torch.isin", "2.13.0").kind is VerdictKind.NATIVE
    assert migrated("import torch\nprint(torch.isin(x, y))\n", "2.13.0")[1] is None
