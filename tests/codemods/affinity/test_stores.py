import pytest

from gpu2npu.codemods.affinity.codemod import fixed
from gpu2npu.codemods.program.files import TrainingProgram
from gpu2npu.engine.torch_library import TORCH


def fix(text: str) -> str | None:
    files = fixed(TrainingProgram({"model.py": text.encode()}, TORCH, "2.7.1", False), ["masked-store"])
    return files["model.py"].decode() if files else None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x[x < 0] = 0", "x.masked_fill_(x < 0, 0)"),
        ("x[x == -100] = 0.5  # why", "x.masked_fill_(x == -100, 0.5)  # why"),
        ("x[\n    x != 1\n] = -1", "x.masked_fill_(x != 1, -1)"),
        ("ü = 1; x[x >= 2] = 1; y = 2", "ü = 1; x.masked_fill_(x >= 2, 1); y = 2"),
        ("x[x < 0] = 0\nx[x > 1] = 1", "x.masked_fill_(x < 0, 0)\nx.masked_fill_(x > 1, 1)"),
    ],
)
def test_a_store_under_a_mask_of_the_tensor_itself(before: str, after: str) -> None:
    head = "import torch\nx = torch.rand(3)\n"
    assert fix(head + before + "\n") == head + after + "\n"


@pytest.mark.parametrize(
    "statement",
    [
        "x[y < 0] = 0",  # another shape
        "x[x < 0] = y",
        "x[x < y] = 0",  # y may be a larger tensor
        "x[x < 0] = 1000",  # no int8
        "x[x < 0] = -2.75",  # refused for uint8
        "x[x < 0] = True",
        "x[x < 0] += 1",
        "x[0 < x < 1] = 0",
        "x[0] = 0",
        "z[z < 0] = 0",  # may be NumPy's
        "x[x < 0] = y = 0",
    ],
)
def test_what_stays(statement: str) -> None:
    assert fix(f"import torch\nx = torch.rand(3)\ny = torch.rand(1)\n{statement}\n") is None


def test_encoding_and_line_ends_stay() -> None:
    source = "# coding: latin-1\r\nimport torch\r\nx = torch.rand(3)  # é\r\nx[x < 0] = 0\r\n".encode("latin-1")
    files = fixed(TrainingProgram({"a.py": source}, TORCH, "2.1.0", False), ["masked-store"])
    assert files == {"a.py": source.replace(b"x[x < 0] = 0", b"x.masked_fill_(x < 0, 0)")}
