"""The picture of a diff in the README: `python -m tools.diff_picture docs/diff.svg`."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

COMMAND = ("gpu2npu", "-i", "mnist_cnn", "-v", "2.1.0", "--diff")
_FIXTURES = Path(__file__).parents[1] / "fixtures"
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
_HUNKS = 2
_COLUMNS = 88


def picture() -> str:
    """The first hunks of the diff of a small project as an SVG image."""
    diff = subprocess.run(
        [sys.executable, "-m", *COMMAND, "-q"], cwd=_FIXTURES, capture_output=True, text=True, check=True
    ).stdout
    hunks = diff.split("\n@@")[: _HUNKS + 1]
    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), color_system="truecolor")
    console.print(Text(f"$ {' '.join(COMMAND)}", "bold"))
    for line in "\n@@".join(hunks).splitlines():
        style = "bold" if line.startswith(("---", "+++")) else _COLOURS.get(line[:1], "")
        console.print(Text(line, style), soft_wrap=False, overflow="ellipsis", no_wrap=True)
    return console.export_svg(title="gpu2npu", unique_id="gpu2npu")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(picture(), encoding="utf-8")
