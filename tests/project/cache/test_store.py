"""The file of the cache: damaged, locked, too large, written by several processes at once, and by a killed one."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from gpu2npu.project.cache.store import Store, default_cache_dir, name_of, program_facts


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


@pytest.mark.parametrize("first", [lambda store: store.find("a", str), lambda store: store.put({"b": "text"})])
def test_a_file_with_other_tables_is_replaced(tmp_path: Path, first: Callable[[Store], object]) -> None:
    store = Store(tmp_path)
    with sqlite3.connect(store.file) as connection:
        connection.execute("CREATE TABLE records (other TEXT)")
    connection.close()
    assert first(store) is None
    store.put({"a": "text"})
    assert store.find("a", str) == "text"


Connections = Callable[[str], list[str]]


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> Connections:
    """`connections(statement)`: each connection from now on begins with a statement, and is counted in the result."""
    connect = sqlite3.connect

    def begin_with(statement: str) -> list[str]:
        made = []

        def counted(file: Path, timeout: float) -> sqlite3.Connection:
            made.append(file.name)
            connection = connect(file, timeout=timeout)
            connection.execute(statement)
            return connection

        monkeypatch.setattr(sqlite3, "connect", counted)
        return made

    return begin_with


def test_a_locked_file_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connections: Connections
) -> None:
    monkeypatch.setattr("gpu2npu.project.cache.store._PATIENCE", 0.01)
    store = Store(tmp_path)
    store.put({"a": "text"})
    connection = sqlite3.connect(store.file)
    connection.execute("BEGIN EXCLUSIVE")
    made = connections("SELECT 1")
    store.put({"b": "text"})
    assert store.get(["a", "b"], str) == {}
    connection.close()
    assert store.get(["a", "b"], str) == {}
    assert len(made) == 1
    assert Store(tmp_path).get(["a", "b"], str) == {"a": "text"}


@pytest.mark.parametrize(
    ("state", "message"),
    [("PRAGMA max_page_count = 1", "database or disk is full"), ("PRAGMA query_only = 1", "readonly database")],
)
def test_a_file_that_cannot_be_written_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connections: Connections, state: str, message: str
) -> None:
    Store(tmp_path).put({"a": "text"})
    connections(state)
    connection = sqlite3.connect(Store(tmp_path).file, timeout=0)
    with pytest.raises(sqlite3.Error, match=message):
        connection.execute("INSERT INTO records VALUES ('b', 0, zeroblob(100000))")
    connection.close()
    Store(tmp_path).put({"b": "x" * 100_000})
    assert Store(tmp_path).get(["a", "b"], str) == {"a": "text"}
    monkeypatch.undo()
    assert Store(tmp_path).get(["a", "b"], str) == {"a": "text"}


def test_a_folder_that_cannot_be_used_has_no_records(tmp_path: Path) -> None:
    for folder in (tmp_path / ("x" * 300) / "gpu2npu", tmp_path / "file" / "gpu2npu"):
        (tmp_path / "file").touch()
        store = Store(folder)
        store.put({"a": "text"})
        assert store.find("a", str) is None


def test_a_folder_that_may_not_be_searched_has_no_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, status = Store(tmp_path), Path.stat

    def refused(path: Path, **options: bool) -> os.stat_result:
        if path == store.file:
            raise PermissionError(13, "Permission denied")
        return status(path, **options)

    store.put({"a": "text"})
    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", refused)
        assert store.find("a", str) is None
    assert store.find("a", str) == "text"


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    pwd = pytest.importorskip("pwd")
    monkeypatch.setenv("HOME", "/home/one")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert default_cache_dir() == Path("/home/one/.cache/gpu2npu")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    assert default_cache_dir() is None
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache")
    assert default_cache_dir() == Path("/var/cache/gpu2npu")


WITHOUT_SQLITE = """
import sys
sys.modules["_sqlite3"] = None
from pathlib import Path
import gpu2npu.project.migrator
from gpu2npu.project.cache.store import Store
store = Store(Path(sys.argv[1]))
store.put({"a": "other"})
print(store.find("a", str))
"""


def test_a_python_without_sqlite_has_no_cache(tmp_path: Path) -> None:
    Store(tmp_path).put({"a": "text"})
    command = [sys.executable, "-c", WITHOUT_SQLITE, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("None\n", "")


@pytest.mark.parametrize("used", ["soon", b"\xff", 3])
def test_a_row_with_another_type_of_time_is_read(tmp_path: Path, used: object) -> None:
    store = Store(tmp_path)
    store.put({"a": "text", "b": "text"})
    with sqlite3.connect(store.file) as connection:
        connection.execute("UPDATE records SET used = ? WHERE name = 'a'", (used,))
        connection.execute("UPDATE records SET content = CAST(x'ff' AS TEXT) WHERE name = 'b'")
    connection.close()
    assert store.get(["a", "b"], str) == {"a": "text"}
    with sqlite3.connect(store.file) as connection:
        assert connection.execute("SELECT used > 1e9 FROM records WHERE name = 'a'").fetchall() == [(1,)]
    connection.close()


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
from gpu2npu.project.cache import store as module
from gpu2npu.project.cache.store import Store
module._PATIENCE = 60.0  # a busy machine loses nothing either
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
    """A pickle is not a record."""
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
