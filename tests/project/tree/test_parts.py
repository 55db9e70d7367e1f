"""Tests of what stands apart from a program, and of which imports only some calls reach."""

import pytest

from gpu2npu.project.tree.parts import kernels_apart, parts_of
from gpu2npu.python.flow.reachability import is_deferred
from gpu2npu.records import NativeKind, NativePlace
from gpu2npu.report.check.result import Part

PACKAGE = ("pkg/__init__.py", "pkg/model.py")


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("pkg/model.py", Part.PROGRAM),
        ("pkg/latest/model.py", Part.PROGRAM),
        ("requirements.txt", Part.PROGRAM),
        ("tests/unit/test_model.py", Part.TESTS),
        ("pkg/model_test.py", Part.TESTS),
        ("pkg/test_utils/run.py", Part.TESTS),
        ("conftest.py", Part.TESTS),
        ("examples/train.py", Part.EXAMPLES),
        ("benchmarks/speed.py", Part.EXAMPLES),
        ("examples/train.ipynb", Part.NOTEBOOKS),
        ("docs/conf.py", Part.DOCS),
        (".github/workflows/ci.yml", Part.CI),
        (".gitlab-ci.yml", Part.CI),
    ],
)
def test_the_part_of_a_file(path: str, part: Part) -> None:
    assert parts_of([*PACKAGE, path])(path) is part


@pytest.mark.parametrize(
    ("folder", "part"),
    [("sota-implementations", Part.EXAMPLES), ("implementations", Part.PROGRAM), ("src/sota-code", Part.PROGRAM)],
)
def test_scripts_beside_a_package_that_nothing_can_import(folder: str, part: Part) -> None:
    assert parts_of([*PACKAGE, f"{folder}/ppo.py"])(f"{folder}/ppo.py") is part


def test_scripts_beside_a_smaller_package_are_the_program() -> None:
    paths = ["utils/__init__.py", "my-training/train.py", "my-training/model.py"]
    assert parts_of(paths)("my-training/train.py") is Part.PROGRAM


def test_a_collection_of_examples_is_the_program() -> None:
    part = parts_of(["examples/a.py", "tests/test_a.py", ".github/workflows/ci.yml"])
    assert part("examples/a.py") is part("tests/test_a.py") is Part.PROGRAM
    assert part(".github/workflows/ci.yml") is Part.CI


@pytest.mark.parametrize(
    ("source", "deferred"),
    [
        ("import xformers\n", False),
        ("if True:\n    import xformers\n", False),
        ("class A:\n    import xformers\n", False),
        ("def f():\n    import xformers\n", True),
        ("class A:\n    def f(self):\n        import xformers\n", True),
        ("if True:\n    def f():\n        import xformers\n", True),
        ("def f():\n    import xformers\n\nf()\n", False),
        ("def f():\n    import xformers\n\ndef g():\n    f()\n\nif __name__ == '__main__':\n    g()\n", False),
        ("def f():\n    xformers()\n", False),
        ("def f():\n    import xformers\n    return xformers.ops\n", True),
        ("def f():\n    from xformers import ops as xformers\n    xformers()\n\nf()\n", False),
        ("def f():\n    import xformers\n\ndef g():\n    xformers()\n", False),
        ("def f(:\n    import xformers\n", False),
    ],
)
def test_an_import_that_only_some_calls_reach(source: str, deferred: bool) -> None:
    line = max(number for number, text in enumerate(source.splitlines(), 1) if "xformers" in text)
    assert is_deferred(source.encode(), line) is deferred


@pytest.mark.parametrize(
    ("built", "line", "kernel", "apart"),
    [
        ("from x import load\ndef get():\n    load(['k.cu'])\n", 3, "pkg/k.cu", 1),
        ("from x import load\ndef get():\n    load(['k.cu'])\nget()\n", 3, "pkg/k.cu", 0),
        ("setup(sources=['k.cu'])\n", 1, "pkg/k.cu", 0),
        ("setup(sources=['k.cu'])\n", 1, "tests/k.cu", 1),
        ("", 0, "pkg/k.cu", 0),
    ],
)
def test_kernels_that_only_some_call_builds_are_apart(built: str, line: int, kernel: str, apart: int) -> None:
    places = [NativePlace(kernel, 1, NativeKind.KERNEL, "k")]
    places += [NativePlace("pkg/build.py", line, NativeKind.BUILD, "k.cu")] if line else []
    assert kernels_apart(places, {"pkg/build.py": built.encode(), kernel: b""}) == apart
