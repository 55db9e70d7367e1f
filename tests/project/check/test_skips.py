from pathlib import Path

from click.testing import CliRunner

from gpu2npu.cli.main import cli

SOURCE = '''import torch

torch.cuda.nvtx.mark("x")
text = """
torch
""", torch.cuda.comm.broadcast(1, 2)
torch.cuda.comm.broadcast(1, 2)  # gpu2npu: skip=other
'''


def check(folder: Path, *options: str) -> tuple[int, str]:
    arguments = ["check", str(folder), "-v", "2.1.0", "--no-cache", "--format", "lines", "--fail-on", "any", *options]
    done = CliRunner().invoke(cli, arguments)
    return done.exit_code, done.output


def test_todays_findings_are_silenced_and_the_program_stays_the_same(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text(SOURCE)
    code, before = check(tmp_path)
    assert code == 1 and "torch.cuda.comm.broadcast" in before
    code, output = check(tmp_path, "--add-skips")
    assert code == 0 and "2 lines marked" in output
    assert "skip=other," in file.read_text() or ",other" in file.read_text()
    assert [line.partition("  # gpu2npu")[0] for line in file.read_text().splitlines()] == [
        line.partition("  # gpu2npu")[0] for line in SOURCE.splitlines()
    ]
    assert "a.py:" not in check(tmp_path)[1]


def test_where_no_comment_can_be_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('import torch\nx = torch.cuda.comm.broadcast(1, \\\n    """\n"""\n)\n')
    assert "No comment can be written at a.py:2" in check(tmp_path, "--add-skips")[1]


def test_a_form_feed_ends_no_line(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("import torch\n\x0c\ntorch.cuda.comm.broadcast(1, 2)\nx = 1\n")
    check(tmp_path, "--add-skips")
    assert "broadcast(1, 2)  # gpu2npu: skip=" in file.read_text()
