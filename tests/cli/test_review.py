from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from gpu2npu.cli.main import cli
from gpu2npu.cli.review import answers
from gpu2npu.project.migration import Hunk

SOURCE = "import torch\n\nx = torch.zeros(1).cuda()\n\n\ny = torch.ones(1).cuda()\n"


def keys(*pressed: str) -> Iterator[str]:
    yield from pressed


def hunks(*paths: str) -> list[Hunk]:
    return [Hunk(path, 0, 1, ("a\n",), ("b\n",), ((), ()), ()) for path in paths]


@pytest.mark.parametrize(
    ("pressed", "expected"),
    [
        ("yny", [True, False, True]),
        ("ay", [True, True, True]),
        ("dn", [False, False, False]),
        ("nA", [False, True, True]),
        (("y", "up", "n", "y", "y"), [False, True, True]),
        (("down", "y", "y", "n"), [False, True, True]),
    ],
)
def test_the_keys(pressed: str, expected: list[bool]) -> None:
    given = keys(*pressed)
    assert answers(hunks("a.py", "a.py", "b.py"), lambda: next(given)) == expected


def test_to_end_writes_nothing() -> None:
    with pytest.raises(click.Abort):
        answers(hunks("a.py"), lambda: "q")


def test_what_is_taken_is_written_and_listed(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "train.py").write_text(SOURCE)
    arguments = ["review", "-i", str(tmp_path / "p"), "-o", str(tmp_path / "out"), "-v", "2.1.0"]
    done = CliRunner().invoke(cli, arguments, input="y\nn\ny\n")
    assert done.exit_code == 0, done.output
    written = tmp_path / "out" / "p_msft"
    assert (written / "train.py").read_text() == (
        "import torch\nimport torch_npu\n\nx = torch.zeros(1).cuda()\n\n\ny = torch.ones(1).npu()\n"
    )
    listed = (written / "change_list.csv").read_text().splitlines()[1:]
    assert [line.split(",")[1] for line in listed] == ["1", "6"]


def test_changes_below_a_form_feed_are_listed_with_their_hunk(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SOURCE.replace("\n\n\n", "\n\x0c\n\x0c\n"))
    arguments = ["review", "-i", str(tmp_path / "train.py"), "-o", str(tmp_path / "out"), "-v", "2.1.0"]
    done = CliRunner().invoke(cli, arguments, input="n\nn\ny\n")
    assert done.exit_code == 0, done.output
    listed = (tmp_path / "out" / "train_msft" / "change_list.csv").read_text().splitlines()[1:]
    assert [line.split(",")[1] for line in listed] == ["6"]
