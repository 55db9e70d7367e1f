"""The tutorial is executed: its files are written and its commands run, in order, and print what it shows."""

from __future__ import annotations

import contextlib
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpu2npu.cli.main import main
from gpu2npu.rulebook.schema import schema

PAGE = Path(__file__).parents[2] / "docs" / "writing-rules.md"
BLOCK = re.compile(
    r"(?:<!-- file: (?P<file>\S+) -->\n)?^```(?P<language>\w+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)


def commands(body: str) -> Iterator[tuple[str, str]]:
    """The commands of a console block, each with the output that is shown."""
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Callable[[str], str]]:
    """Runs a command in the current folder, gpu2npu itself in this process, and gives back all that it prints."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}

    def run_command(command: str) -> str:
        if command.startswith("gpu2npu "):
            monkeypatch.setattr(sys, "argv", shlex.split(command))
            with contextlib.suppress(SystemExit):
                main()
            sys.stdout.flush()
            sys.stderr.flush()
        else:
            subprocess.run(command, shell=True, check=True)
        return "".join(capfd.readouterr())

    yield run_command
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[[str], str]) -> None:
    monkeypatch.chdir(tmp_path)
    ran, written = 0, 0
    for block in BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
        if block["file"]:
            path = tmp_path / block["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block["body"], encoding="utf-8")
            written += 1
        elif block["language"] == "console":
            for command, output in commands(block["body"]):
                assert (command, run(command)) == (command, output)
                ran += 1
    assert (ran, written) == (11, 5)


def test_it_names_every_kind_of_match_and_every_action() -> None:
    text = PAGE.read_text(encoding="utf-8")
    definitions = schema()["$defs"]
    kinds = {key for choice in definitions["match"]["oneOf"] for key in choice["properties"]}
    assert [word for word in (*kinds, *definitions["then"]["properties"]) if f'"{word}":' not in text] == []
