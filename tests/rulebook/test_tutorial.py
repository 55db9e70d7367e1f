"""The tutorial is executed: its files are written and its commands run, in order, and print what it shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "writing-rules.md"
BLOCK = re.compile(
    r"(?:<!-- file: (?P<file>\S+) -->\n)?^```(?P<language>\w+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)


def commands(body: str) -> Iterator[tuple[str, str]]:
    """The commands of a console block, each with the output that is shown."""
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def test_the_tutorial(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "gpu2npu").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gpu2npu "$@"\n')
    (programs / "gpu2npu").chmod(0o755)
    folder = tmp_path / "tutorial"
    folder.mkdir()
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(PAGE.parents[1])}
    ran, written = 0, 0
    for block in BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
        if block["file"]:
            path = folder / block["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block["body"], encoding="utf-8")
            written += 1
        elif block["language"] == "console":
            for command, output in commands(block["body"]):
                done = subprocess.run(
                    command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False
                )
                assert (command, done.stdout, done.stderr) == (command, output, "")
                ran += 1
    assert (ran, written) == (10, 4)


def test_it_names_every_kind_of_match_and_every_action() -> None:
    from gpu2npu.rulebook.builtin import schema

    text = PAGE.read_text(encoding="utf-8")
    definitions = schema()["$defs"]
    kinds = {key for choice in definitions["match"]["oneOf"] for key in choice["properties"]}
    assert [word for word in (*kinds, *definitions["then"]["properties"]) if f'"{word}":' not in text] == []
