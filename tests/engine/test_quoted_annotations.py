"""Names in annotations that are strings are renamed as those in code are."""

import pytest

from gpu2npu.engine import ProjectContext, migrate_source
from gpu2npu.rulebook import load_rulebook

RULES = load_rulebook()
HEAD = "import torch\nimport torch as t\nfrom torch import cuda\nfrom torch.cuda import CUDAGraph, Event as E\n"


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ("torch.cuda.CUDAGraph", "torch.npu.NPUGraph"),
        ("t.cuda.CUDAGraph", "t.npu.NPUGraph"),
        ("cuda.CUDAGraph", "npu.NPUGraph"),
        ("CUDAGraph", "NPUGraph"),
        ("Optional[torch.cuda.CUDAGraph]", "Optional[torch.npu.NPUGraph]"),
        ("dict[torch.cuda.Stream, torch.cuda.Event]", "dict[torch.npu.Stream, torch.npu.Event]"),
        ("E", "E"),
        ("mine.torch.cuda.CUDAGraph", "mine.torch.cuda.CUDAGraph"),
        ("torch.Tensor", "torch.Tensor"),
    ],
)
@pytest.mark.parametrize(
    "form", ["def f(x: {}): ...", "def f() -> {}: ...", "async def f() -> {}: ...", "x: {} = None", "x: list[{}] = []"]
)
def test_a_quoted_annotation_is_renamed(form: str, annotation: str, expected: str) -> None:
    source = HEAD + form.format(repr(annotation)) + "\ny = cuda.Stream(), CUDAGraph()\n"
    found = migrate_source(source.encode(), "a.py", RULES, ProjectContext(version="2.7.1"))
    assert found.content is not None
    assert form.format(repr(expected)) + "\n" in found.content.decode()


def test_a_value_of_a_literal_type_is_no_name() -> None:
    source = HEAD + "x: Literal['cuda.CUDAGraph'] = 'cuda.CUDAGraph'\ny: 'cuda.CUDAGraph' = cuda.CUDAGraph()\n"
    found = migrate_source(source.encode(), "a.py", RULES, ProjectContext(version="2.7.1"))
    assert found.content is not None
    lines = ["x: Literal['cuda.CUDAGraph'] = 'cuda.CUDAGraph'", "y: 'npu.NPUGraph' = npu.NPUGraph()"]
    assert found.content.decode().splitlines()[-2:] == lines


def test_what_the_release_lacks_is_reported_and_stays() -> None:
    source = b"import torch\nx: 'torch.cuda.CUDAGraph' = None\ny: \"Literal['torch.cuda.CUDAGraph']\" = 1\n"
    found = migrate_source(source, "a.py", RULES, ProjectContext(version="2.1.0.post3"))
    assert found.content is None
    assert {(each.span.start_line, each.api) for each in found.findings} >= {(2, "torch.cuda.CUDAGraph")}
