"""Files that are not rule files at all: each is refused in one sentence, without reading or waiting for ever."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpu2npu.rulebook import RuleError
from gpu2npu.rulebook.document import MAX_BYTES, read_document


def refusal(path: Path) -> str:
    with pytest.raises(RuleError) as caught:
        read_document(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path}:") and message.endswith(".")
    return message


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"rules": [\n  {,\n', ":2:4: is not JSON"),
        (b"", ":1:1: is not JSON"),
        (b"rules: []", ":1:1: is not JSON"),
        (b"\xff\xfe\x00", "is not UTF-8 (byte 0)"),
        (b'{"rules": []\n, "rules": []}', ":2: the key 'rules' appears twice"),
        (b'{"a": {"x": 1}, "b": {"x": 1}, "c": {"x": 1, "x": 2}}', "the key 'x' appears twice"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'{"rules": NaN}', "number"),
        (b"1" * 10_000, "number"),
        (b'{"why": "\\ud800"}', "surrogate"),
    ],
)
def test_content(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "rules.json"
    path.write_bytes(content)
    assert reason in refusal(path)


def test_a_byte_order_mark_is_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "rules.json"
    path.write_bytes(b"\xef\xbb\xbf{}")
    assert read_document(path) == {}


def test_a_huge_file_is_refused_by_its_size(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(50 * 1024 * 1024)
    assert "is too large for a rule file (50.0 MiB; the limit is 4 MiB)" in refusal(path)
    assert MAX_BYTES == 4 * 1024 * 1024


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "is not an ordinary file" in refusal(tmp_path / "pipe")
    assert "is a folder" in refusal(tmp_path)
    assert "cannot be read (No such file or directory)" in refusal(tmp_path / "none.json")
    assert "is not an ordinary file" in refusal(Path("/dev/zero"))


def test_a_name_that_no_file_can_have() -> None:
    with pytest.raises(RuleError, match="cannot be read"):
        read_document(Path("a\0b.json"))
