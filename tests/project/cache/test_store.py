"""The file of the cache: damaged, locked, too large, written by several processes at once, and by a killed one."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from gpu2npu.project.cache.store import Store, name_of, program_facts


def test_what_is_stored_is_found_by_those_of_its_kind(tmp_path: Path) -> None:
    store = Store(tmp_path / "new/folder")
    assert store.get(["a"], str) == {}
    store.put({"a": "one", "b": {"two": 2}, "c": "three"})
    assert store.get(["a", "b", "missing"], str) == {"a": "one"}
    assert store.find("b", dict[str, int]) == {"two": 2}
    store.put({"a": "other"})
    assert store.find("a", str) == "other"


def test_text_that_is_no_unicode_is_left_out(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put({"bad": "\udcff", "good": "text"})
    assert store.get(["bad", "good"], str) == {"good": "text"}


def middle(content: bytes) -> bytes:
    """Put other bytes into all but the first page."""
    return content[:4096] + b"\xa5" * (len(content) - 4096)


@pytest.mark.parametrize(
    "damaged",
    [
        lambda content: b"no database",
        lambda content: b"",
        lambda content: content[:5000],
        lambda content: content[:40] + b"\xff" * 60 + content[100:],
        middle,
    ],
    ids=["text", "empty", "cut", "head", "pages"],
)
def test_a_damaged_file_has_no_records_and_is_replaced(tmp_path: Path, damaged) -> None:
    store = Store(tmp_path)
    store.put({f"name {number}": "x" * 3000 for number in range(10)})
    content = store.file.read_bytes()
    assert len(content) > 20_000
    store.file.write_bytes(damaged(content))
    assert store.find("name 1", str) in (None, "x" * 3000)
    for _ in range(2):  # the first may delete the file
        store.put({"new": "text"})
    assert store.find("new", str) == "text"


def test_a_file_with_other_tables_is_replaced(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with sqlite3.connect(store.file) as connection:
        connection.execute("CREATE TABLE records (other TEXT)")
    connection.close()
    assert store.find("a", str) is None
    store.put({"a": "text"})
    assert store.find("a", str) == "text"


def test_a_locked_file_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu2npu.project.cache.store._PATIENCE", 0.01)
    store = Store(tmp_path)
    store.put({"a": "text"})
    connection = sqlite3.connect(store.file)
    connection.execute("BEGIN EXCLUSIVE")
    store.put({"b": "text"})
    assert store.get(["a", "b"], str) == {}
    connection.close()
    assert store.get(["a", "b"], str) == {"a": "text"}


def test_the_records_that_were_not_used_for_longest_go_first(tmp_path: Path) -> None:
    store = Store(tmp_path, largest=100_000)
    for number in range(8):
        store.put({str(number): b"x" * 10_000})
        with sqlite3.connect(store.file) as connection:
            connection.execute("UPDATE records SET used = ? WHERE name = ?", (number, str(number)))
        connection.close()
    assert store.find("1", bytes) is not None  # which is a use of it
    store.put({"last": b"x" * 30_000})
    names = [*map(str, range(8)), "last"]
    assert set(store.get(names, bytes)) == {"1", "last", "5", "6", "7"}
    assert Store(tmp_path).file.stat().st_size < 150_000


def test_room_that_deleted_records_left_is_used_again(tmp_path: Path) -> None:
    store = Store(tmp_path, largest=1_000_000)
    for number in range(7):  # the sixth is too many, the seventh takes the place of those that went for it
        store.put({str(number): b"x" * 180_000})
    assert len(store.get(map(str, range(7)), bytes)) == 5


WRITER = """
import sys
from pathlib import Path
from gpu2npu.project.cache.store import Store
store, who = Store(Path(sys.argv[1])), sys.argv[2]
number = 0
while number != int(sys.argv[3]):
    store.put({f"{who} {number}": [who, number, "x" * 5000], f"{who} ends": number})
    number += 1
    if number == 3:
        print("running", flush=True)
"""


def writer(folder: Path, who: str, records: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(folder), who, str(records)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_several_processes_write_at_once(tmp_path: Path) -> None:
    writers = [writer(tmp_path, who, 20) for who in "abc"]
    assert [each.communicate() and each.wait() for each in writers] == [0, 0, 0]
    names = [f"{who} {number}" for who in "abc" for number in range(20)]
    found = Store(tmp_path).get(names, tuple[str, int, str])
    assert {name: f"{who} {number}" for name, (who, number, _) in found.items()} == {name: name for name in names}


def test_a_killed_writer_leaves_a_file_that_is_used_on(tmp_path: Path) -> None:
    for round_, pause in enumerate((0.0, 0.013, 0.031)):
        killed = writer(tmp_path, str(round_), -1)
        assert killed.stdout is not None and killed.stdout.readline() == "running\n"
        time.sleep(pause)
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait()
        killed.stdout.close()
        store = Store(tmp_path)
        last = store.find(f"{round_} ends", int)
        assert last is not None and last >= 2
        assert store.find(f"{round_} {last}", tuple[str, int, str]) is not None  # a transaction is whole or not there
        assert store.find("0 ends", int) is not None


def test_nothing_in_the_file_is_run(tmp_path: Path) -> None:
    """A pickle is no record."""
    store = Store(tmp_path)
    store.put({"a": "text"})
    with sqlite3.connect(store.file) as connection:
        connection.execute("UPDATE records SET content = ?", (b"cos\nsystem\n(S'touch run'\ntR.",))
    connection.close()
    assert store.find("a", str) is None
    with pytest.raises(msgspec.DecodeError):
        msgspec.msgpack.decode(b"cos\nsystem\n(S'touch run'\ntR.")


def test_another_parser_is_another_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def facts_with(version: str) -> list[object]:
        site = tmp_path / version
        (site / "libcst").mkdir(parents=True)
        (site / "libcst/__init__.py").touch()
        (site / f"libcst-{version}.dist-info").mkdir()
        monkeypatch.delitem(sys.modules, "libcst", raising=False)
        monkeypatch.syspath_prepend(str(site))
        return program_facts.__wrapped__()

    assert program_facts.__wrapped__() == program_facts.__wrapped__()
    assert facts_with("1.8.0") != facts_with("1.9.0")
    assert name_of(1) == name_of(1) != name_of(2)
