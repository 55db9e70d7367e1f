"""The benchmark's tree: counting it, and the copy that PaConvert gets."""

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import benchmarks.parse_tree
from benchmarks.tree import PROJECT, VERSION, Size, copy_without_match, fetch_tree, measure


def test_python_lines_of_the_whole_tree_are_counted(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "one.py").write_bytes(b"a = 1\r\nb = 2\r\n")
    (tmp_path / "package" / "two.py").write_bytes(b"c = 3\nd = '\xff'")
    (tmp_path / "package" / "empty.py").write_bytes(b"")
    (tmp_path / "notes.txt").write_bytes(b"not\nPython\n")
    assert measure(tmp_path) == Size(files=3, lines=4)


def test_files_with_a_match_statement_are_left_out_of_the_copy(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    (source / "old.py").write_text("match = 1\n")
    (source / "new.py").write_text("def f(x):\n    match x:\n        case 1: pass\n")
    assert copy_without_match(source, target) == ["new.py"]
    assert [path.name for path in target.iterdir()] == ["old.py"]
    assert (source / "new.py").exists()


def test_the_tree_is_downloaded_once(tmp_path, monkeypatch):
    downloads = []

    def download(command, check):
        downloads.append(command[-1])
        wheel = io.BytesIO()
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("megatron/__init__.py", "")
        (tmp_path / f"megatron_core-{VERSION}-cp311-any.whl").write_bytes(wheel.getvalue())

    monkeypatch.setattr(subprocess, "run", download)
    tree = fetch_tree(tmp_path)
    assert fetch_tree(tmp_path) == tree
    assert (tree / "megatron" / "__init__.py").exists()
    assert downloads == [f"{PROJECT}=={VERSION}"]


@pytest.mark.parametrize("parser", ["ast", "libcst"])
def test_bare_parsing_prints_its_seconds(tmp_path, parser):
    (tmp_path / "one.py").write_text("a = 1\n")
    script = Path(benchmarks.parse_tree.__file__)
    printed = subprocess.run(
        [sys.executable, script, parser, tmp_path], capture_output=True, text=True, check=True
    ).stdout
    assert 0 < float(printed) < 60
