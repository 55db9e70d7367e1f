"""ARCHITECTURE.md leads a newcomer to files and functions that are there, in eight steps."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
STEPS = re.findall(r"^(\d+)\. (.*?)(?=^\d+\. |^## )", TEXT, re.MULTILINE | re.DOTALL)


def test_every_file_and_folder_is_there() -> None:
    named = set(re.findall(r"`([\w/]+(?:\.py|/))`", TEXT))
    assert len(named) > 40
    assert [path for path in sorted(named) if not (ROOT / "gpu2npu" / path).exists()] == []


def test_the_steps_are_eight_and_name_what_is_in_their_files() -> None:
    assert [int(number) for number, _ in STEPS] == list(range(1, 9))
    for number, step in STEPS:
        files = [ROOT / "gpu2npu" / path for path in re.findall(r"`([\w/]+\.py)`", step)]
        spelled = {word for file in files for word in re.findall(r"\w+", file.read_text())}
        if files:
            named = set(re.findall(r"`([a-zA-Z_]+)(?:\.\w+)?`", step)) - {"ast"}
            assert named <= spelled, (number, named - spelled)
