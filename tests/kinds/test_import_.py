"""Import rules."""

from __future__ import annotations

import pytest

from gpu2npu.engine import without_own
from gpu2npu.kinds.import_ import ImportMatch
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
        "if env.has_fastlib and kind == 'fast':\n    from fastlib import f\n",
        "if is_cloud_enabled():\n    from fastlib import f\n",
        "if lib.WITH_FAST:\n    from fastlib import f\n",
        "if HAS_FASTLIB:\n    from fastlib import f\n",
        "if args.backend == 'fastlib':\n    from fastlib import f\n",
        "if args.backend == 'fastlib-16':\n    from fastlib import f\n",
        "if 'fast-lib' == args.backend and x:\n    from fastlib import f\n",
        "if config.use_fast_lib:\n    from fastlib import f\n",
        "if not is_fastlib_available():\n    raise ImportError\nimport fastlib\n",
        "from importlib.util import find_spec\nif find_spec('fastlib') is not None:\n    import fastlib\n",
        "HAS = importlib.util.find_spec('fastlib.ops') is not None\nif HAS:\n    import fastlib\n",
        "def f():\n    assert is_fastlib_available(), 'install it'\n    with g():\n        import fastlib\n",
        "def f():\n    if x or not is_fastlib_available():\n        return None\n    import fastlib\n",
    ],
)
def test_an_optional_import_is_for_review(migrate_with, text: str) -> None:
    [finding] = migrate_with([FAST], text).findings
    assert finding.kind is FindingKind.REVIEW


@pytest.mark.parametrize("test", ["TYPE_CHECKING", "typing.TYPE_CHECKING"])
def test_an_import_for_type_checkers_is_never_done(migrate_with, test: str) -> None:
    assert migrate_with([FAST], f"if {test}:\n    import fastlib\n").findings == ()
    assert len(migrate_with([FAST], f"if {test}:\n    pass\nelse:\n    import fastlib\n").findings) == 1


@pytest.mark.parametrize("end", ["raise ImportError('install it') from error", "sys.exit('install it')", "os._exit(1)"])
def test_an_import_whose_failure_ends_the_program_is_not_optional(migrate_with, end: str) -> None:
    text = f"try:\n    import fastlib\nexcept ImportError as error:\n    {end}\n"
    [finding] = migrate_with([FAST], text).findings
    assert finding.kind is FindingKind.UNSUPPORTED


@pytest.mark.parametrize(
    "before",
    ["if is_fastlib_available():\n    raise E\n", "if not is_fastlib_available():\n    print(1)\n", "assert fast\n"],
)
def test_an_import_below_another_question_is_not_optional(migrate_with, before: str) -> None:
    [finding] = migrate_with([FAST], f"{before}import fastlib\n").findings
    assert finding.kind is FindingKind.UNSUPPORTED


def test_an_import_that_is_one_of_several_is_reported_where_it_should_go(migrate_with) -> None:
    result = migrate_with([GONE], "import os, amp_D\n")
    assert result.content is None
    assert [(finding.rule, finding.kind) for finding in result.findings] == [("gone", FindingKind.REVIEW)]


@pytest.mark.parametrize(
    "test", ["not fastlib_available", "kind == 'fast'", "kind != 'fastlib'", "use_fast", "has_fastlib or kind"]
)
def test_an_import_under_another_condition_is_not_optional(migrate_with, test: str) -> None:
    [finding] = migrate_with([FAST], f"if {test}:\n    import fastlib\n").findings
    assert finding.kind is FindingKind.UNSUPPORTED


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
        ("from amp_D import (a,\n    b,\n    )\nx = 1\n", "x = 1\n"),
        ("def f():\n    from amp_D import (\n        a\n)\n    return 1\n", "def f():\n    return 1\n"),
        ("if x:\n    import amp_D\nelse:\n    y()\n", "if x:\n    pass\nelse:\n    y()\n"),
        ("import os; import amp_D\n", "import os; pass\n"),
        ("import os; import amp_D; x = 1\n", "import os; pass; x = 1\n"),
        ("def f(): import amp_D ; return 1\n", "def f(): pass ; return 1\n"),
        ("import amp_D; x = 1\n", "pass; x = 1\n"),
        ("import amp_D; x = [\n    1]\n", "pass; x = [\n    1]\n"),
        ("import amp_D ; \\\n  x = 1\n", "pass ; \\\n  x = 1\n"),
        ("x = 1\nimport amp_D", "x = 1\n"),
        ("x = 1\nimport amp_D ;", "x = 1\n"),
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


def test_an_optional_import_is_not_taken_out(migrate_with) -> None:
    text = "try:\n    import amp_D\nexcept ImportError:\n    amp_D = None\n"  # without it nothing would be caught
    assert migrate_with([GONE], text).content is None


def test_rules_for_the_projects_own_packages_are_left_out(rulebook) -> None:
    def modules(files: list[str], root: str) -> set[str]:
        rules = without_own(rulebook, files, root).rules
        return {rule.match.module.partition(".")[0] for rule in rules if isinstance(rule.match, ImportMatch)}

    every = modules(["train.py"], "project")
    assert {"megatron", "apex", "triton"} <= every
    assert every - modules(["megatron/core/a.py", "src/apex/b.py"], "triton") == {"megatron", "apex", "triton"}
    assert every - modules(["apex.py", "src/triton.py"], "project") == {"apex", "triton"}
    assert modules(["kernels/triton/a.py"], "project") == every
    subjects = {rule.match.subject for rule in rulebook.rules if rule.match.subject.startswith("deepspeed.")}
    for root, is_itself in {"DeepSpeed-0.19.8": True, "project": False}.items():
        left = {rule.match.subject for rule in without_own(rulebook, ["deepspeed/ops/adam.py"], root).rules}
        assert subjects.isdisjoint(left) is is_itself


@pytest.mark.parametrize(
    ("path", "package", "expected"),
    [
        ("lib/kernels/triton/norm.py", "lib/kernels/__init__.py", ["package-triton"]),  # lib.kernels.triton
        ("lib/kernels/triton/norm.py", "other.py", []),  # a folder of scripts that have a triton beside them
    ],
)
def test_a_part_of_a_package_is_not_the_package_of_that_name(
    project, path: str, package: str, expected: list[str]
) -> None:
    files = {package: "", "lib/kernels/triton/__init__.py": "", path: "import triton\n"}
    assert [finding.rule for finding in project(files)[path].findings] == expected


def test_a_file_says_it_once(migrate_with) -> None:
    text = "import fastlib\nfrom fastlib import a\ndef f():\n    import fastlib.b\n"
    assert [finding.span.start_line for finding in migrate_with([FAST], text).findings] == [1]


COMPILED = {
    "a module of its own": ("import nms_cuda\n", "nms_cuda"),
    "something of it": ("from nms_cuda import forward\n", "nms_cuda"),
    "beside the file": ("from . import nms_cuda\n", ".nms_cuda"),
    "in a package": ("from lib.ops import nms_cuda\n", "lib.ops.nms_cuda"),
    "in a package, relative": ("from .ops import nms_cuda\n", ".ops.nms_cuda"),
    "a function of a package": ("from .ops import move_cuda\n", None),
    "a module of the project": ("from . import own_cuda\nimport lib.own_cuda\n", None),
    "a function of another package": ("from otherlib.move import to_cuda\n", None),
}


@pytest.mark.parametrize(("text", "module"), COMPILED.values(), ids=COMPILED)
def test_compiled_modules_are_known_by_their_ending(project, text: str, module: str | None) -> None:
    files = {
        "lib/__init__.py": "",
        "lib/own_cuda.py": "",
        "lib/ops/__init__.py": "def move_cuda(x): ...\n",
        "lib/nms.py": text,
    }
    found = [(finding.rule, finding.api) for finding in project(files)["lib/nms.py"].findings]
    assert found == ([] if module is None else [("extension-cuda", module)])


def test_each_compiled_module_of_a_file_is_reported(project) -> None:
    text = "import nms_cuda\nfrom nms_cuda import forward\nimport roi_cuda\n"
    assert [finding.api for finding in project({"a.py": text})["a.py"].findings] == ["nms_cuda", "roi_cuda"]


REGISTER = {
    "id": "register",
    "match": {"import": "house"},
    "then": {"add": {"statement": "house.npu.register()", "place": "after"}},
}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import house\nimport os\n", "import house\nimport house.npu\nhouse.npu.register()\nimport os\n"),
        ("import house.npu\nimport os\n", "import house.npu\nhouse.npu.register()\nimport os\n"),
        (
            "from house import f\nimport house.data\n",
            "from house import f\nimport house.npu\nhouse.npu.register()\nimport house.data\n",
        ),
        (
            "try:\n    import house\nexcept ImportError:\n    pass\n",
            "try:\n    import house\n    import house.npu\n    house.npu.register()\nexcept ImportError:\n    pass\n",
        ),
        ("import house\nimport house.npu\nhouse.npu.register()\n", None),
        ("import household\n", None),
    ],
)
def test_a_statement_is_added_after_the_first_import(migrate_with, before: str, after: str | None) -> None:
    result = migrate_with([REGISTER], before)
    assert (result.content, result.findings) == (after.encode() if after is not None else None, ())


def test_a_statement_whose_names_mean_something_else_is_reported(migrate_with) -> None:
    result = migrate_with([REGISTER], "import house as h\nhouse = 1\n")
    assert result.content is None
    assert [finding.rule for finding in result.findings] == ["register"]
