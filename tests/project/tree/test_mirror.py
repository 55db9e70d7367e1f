import os
from pathlib import Path

import pytest

from gpu2npu.project.tree.discovery import discover
from gpu2npu.project.tree.mirror import finish_folders, mirror, read_files, remove_tree, replace_content
from gpu2npu.records import PathNote


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    (root / "a.py").write_bytes(b"one\r\n")
    (root / "bin" / "run.sh").write_bytes(b"#!/bin/sh\n")
    (root / "bin" / "run.sh").chmod(0o751)
    (root / "empty").mkdir()
    (root / "latest").symlink_to("bin")
    return root.resolve()


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    copy = tmp_path / "copy"
    copy.mkdir()
    return copy


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file of another user's")
def test_a_copy_does_not_run_with_the_rights_of_its_new_owner(root: Path, copy: Path) -> None:
    for name, user, group in (("ours", 0, 0), ("group", 0, 1000), ("other", 1000, 1000)):
        file = root / name
        file.touch()
        os.chown(file, user, group)
        file.chmod(0o6755)
    mirror(discover(root), root, copy)
    modes = {name: oct((copy / name).stat().st_mode & 0o7777) for name in ("ours", "group", "other")}
    assert modes == {"ours": "0o6755", "group": "0o4755", "other": "0o755"}


def test_a_mirror_has_everything_with_modes_and_times(root: Path, copy: Path) -> None:
    assert mirror(discover(root), root, copy) == []
    assert {path.relative_to(copy).as_posix() for path in copy.rglob("*")} == {
        "a.py",
        "bin",
        "bin/run.sh",
        "empty",
        "latest",
    }
    ours, theirs = (copy / "bin" / "run.sh").stat(), (root / "bin" / "run.sh").stat()
    assert ours.st_mode == theirs.st_mode and ours.st_mtime_ns == theirs.st_mtime_ns
    assert (copy / "latest").readlink() == Path("bin")


def test_folders_get_their_modes_last(root: Path, copy: Path) -> None:
    (root / "bin").chmod(0o555)
    tree = discover(root)
    mirror(tree, root, copy)
    finish_folders(tree, root, copy)
    assert (copy / "bin").stat().st_mode & 0o777 == 0o555
    assert (copy / "bin").stat().st_mtime_ns == (root / "bin").stat().st_mtime_ns


def test_content_is_replaced_and_the_mode_stays(copy: Path) -> None:
    file = copy / "a.py"
    file.write_bytes(b"before")
    file.chmod(0o555)
    replace_content(file, b"after")
    assert file.read_bytes() == b"after"
    assert file.stat().st_mode & 0o777 == 0o555


def test_a_file_that_cannot_be_read_is_noted(root: Path, copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_open = Path.open

    def refuse(path: Path, *args: object, **kwargs: object) -> object:
        if path.name == "run.sh":
            raise PermissionError(13, "Permission denied")
        return real_open(path, *args, **kwargs)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", refuse)
    note = PathNote("bin/run.sh", "the file cannot be read: Permission denied", failed=True)
    assert mirror(discover(root), root, copy) == [note]
    assert not (copy / "bin" / "run.sh").exists() and (copy / "a.py").exists()


def test_read_files(root: Path) -> None:
    contents, notes = read_files(root, ["a.py", "gone.py"])
    assert contents == {"a.py": b"one\r\n"}
    assert notes == [PathNote("gone.py", "the file cannot be read: No such file or directory", failed=True)]


def test_trees_that_forbid_writing_can_be_removed(root: Path) -> None:
    (root / "bin").chmod(0o500)
    root.chmod(0o500)
    remove_tree(root)
    assert not root.exists()
