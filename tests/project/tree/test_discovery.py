import os
import socket
from pathlib import Path

import pytest

from gpu2npu.project.errors import UsageError
from gpu2npu.project.tree.discovery import Link, Tree, discover
from gpu2npu.records import PathNote


def make(root: Path, *files: str) -> Path:
    for file in files:
        path = root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return root.resolve()


def test_files_are_sorted_into_kinds(tmp_path: Path) -> None:
    root = make(tmp_path, "b.py", "a/x.py", "a/y.pyi", "a.txt", "script", "z.PY", "a/b/c.ipynb")
    (root / "empty").mkdir()
    assert discover(root) == Tree(
        folders=("a", "a/b", "empty"),
        python=("a/x.py", "b.py"),
        others=("a.txt", "a/b/c.ipynb", "a/y.pyi", "script", "z.PY"),
    )


def test_version_control_caches_and_environments_are_skipped(tmp_path: Path) -> None:
    root = make(tmp_path, "a.py", ".git/hooks/x.py", "p/__pycache__/a.pyc", "env/pyvenv.cfg", "env/lib/x.py")
    make(root, "tools/conda/conda-meta/history", "tools/conda/lib/y.py", "sub/.git", ".github/workflow.py", ".hg/x")
    tree = discover(root)
    assert tree.skipped == (".git", ".hg", "env", "p/__pycache__", "sub/.git", "tools/conda")
    assert tree.python == (".github/workflow.py", "a.py")
    assert tree.folders == (".github", "p", "sub", "tools")


def test_a_project_that_lies_in_an_environment_of_its_own(tmp_path: Path) -> None:
    assert discover(make(tmp_path, "pyvenv.cfg", "a.py")).python == ("a.py",)


def test_one_file(tmp_path: Path) -> None:
    assert discover(make(tmp_path, "a.py", "b.py"), "a.py") == Tree(python=("a.py",))


def test_no_python_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no Python file"):
        discover(make(tmp_path, "a.txt", "venv/pyvenv.cfg", "venv/x.py"))


def link(root: Path, path: str, text: str) -> None:
    (root / path).symlink_to(text)


def test_links_that_stay_inside_are_listed_with_their_text(tmp_path: Path) -> None:
    root = make(tmp_path, "a.py", "data/train.bin", "pkg/m.py")
    for path, text in [("latest", "./data"), ("pkg/up.py", "../a.py"), ("data/dangling", "not//there"), ("me", ".")]:
        link(root, path, text)
    tree = discover(root)
    assert tree.links == (
        Link("data/dangling", "not//there"),
        Link("latest", "./data"),
        Link("me", "."),
        Link("pkg/up.py", "../a.py"),
    )
    assert tree.python == ("a.py", "pkg/m.py")
    assert tree.notes == ()


def test_links_whose_text_leads_to_the_source_are_made_relative(tmp_path: Path) -> None:
    root = make(tmp_path / "proj", "a.py", "data/train.bin", "deep/er/x.py")
    link(root, "deep/er/absolute", str(root / "data"))
    link(root, "roundabout", "../proj/data/train.bin")
    assert discover(root).links == (Link("deep/er/absolute", "../../data"), Link("roundabout", "data/train.bin"))


def test_links_that_leave_the_tree_are_reported(tmp_path: Path) -> None:
    make(tmp_path, "shared/util.py", "proj2/x.py")
    root = make(tmp_path / "proj", "a.py", ".git/config")
    link(root, "passwords", "/etc/passwd")
    link(root, "util.py", "../shared/util.py")
    link(root, "chain", "passwords")
    link(root, "sibling", "../proj2")
    link(root, "config", ".git/config")
    tree = discover(root)
    assert tree.links == ()
    assert [(note.path, note.failed) for note in tree.notes] == [
        ("chain", False),
        ("config", False),
        ("passwords", False),
        ("sibling", False),
        ("util.py", True),
    ]
    assert "'/etc/passwd'" in tree.notes[2].reason


def test_a_circle_of_links(tmp_path: Path) -> None:
    root = make(tmp_path, "a.py")
    link(root, "one", "two")
    link(root, "two", "one")
    assert discover(root).links == (Link("one", "two"), Link("two", "one"))


def test_sockets_and_pipes_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make(tmp_path, "a.py")
    os.mkfifo(root / "pipe")
    monkeypatch.chdir(root)  # a socket's path may have 100 characters
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        assert discover(root).notes == (
            PathNote("pipe", "a named pipe, which is not copied", failed=False),
            PathNote("socket", "a socket, which is not copied", failed=False),
        )


def test_a_folder_that_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make(tmp_path, "a.py", "shut/b.py")
    scandir = os.scandir

    def refuse(path: str | Path) -> object:
        if str(path).endswith("shut"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr("os.scandir", refuse)
    tree = discover(root)
    assert tree.folders == ("shut",)
    assert tree.notes == (PathNote("shut", "the folder cannot be read: Permission denied", failed=True),)


def test_names_that_are_no_unicode(tmp_path: Path) -> None:
    root = make(tmp_path, "caf\udce9.py", "two words.py", "new\nline.py")
    assert discover(root).python == ("caf\udce9.py", "new\nline.py", "two words.py")
