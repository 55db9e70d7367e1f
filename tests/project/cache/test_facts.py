"""Facts of files on disk, by their content."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec
import pytest

from gpu2npu.project.cache.store import Store, StoredFacts, content_digests
from gpu2npu.project.facts import read_all_facts
from gpu2npu.project.pool import Pool
from gpu2npu.python.facts import reading
from gpu2npu.python.facts.reading import read_facts

FILES = {
    "a.py": b"import torch  # of the store\n",
    "b.py": b"from a import torch as th\n",
    "broken.py": b"(  # stored\n",
}


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the path of each file parsed for its facts."""
    paths: list[str] = []
    parse = reading.parsed_file

    def recorded(source):
        paths.append(source.path)
        return parse(source)

    monkeypatch.setattr(reading, "parsed_file", recorded)
    return paths


def read(folder: Path, files: dict[str, bytes]) -> dict[str, bytes]:
    """Read the facts as a process does that has read nothing before."""
    reading._known.clear()
    return read_all_facts(files, Pool(), StoredFacts(Store(folder), content_digests(files)))


def test_only_a_changed_file_is_parsed_again(tmp_path: Path, parsed: list[str]) -> None:
    first = read(tmp_path, FILES)
    assert sorted(parsed) == sorted(FILES) and sorted(first) == sorted(FILES)
    parsed.clear()
    moved = {"c.py": FILES["a.py"], "b.py": b"from c import torch\n", "broken.py": FILES["broken.py"]}
    second = read(tmp_path, moved)
    assert parsed == ["b.py"]
    assert second["c.py"] == first["a.py"]
    facts = read_facts(moved["c.py"], "c.py")
    assert facts is not None and facts.imports == {"torch"} and read_facts(moved["broken.py"], "broken.py") is None


@pytest.mark.parametrize("content", [b"\xc1", msgspec.msgpack.encode({"names": 1}), msgspec.msgpack.encode([1])])
def test_a_damaged_record_is_read_anew(tmp_path: Path, parsed: list[str], content: bytes) -> None:
    first = read(tmp_path, FILES)
    with sqlite3.connect(Store(tmp_path).file) as connection:
        connection.execute("UPDATE records SET content = ?", (content,))
    connection.close()
    parsed.clear()
    assert read(tmp_path, FILES) == first
    assert sorted(parsed) == sorted(FILES)
