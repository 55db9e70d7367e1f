import hashlib
import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.archives import ArchiveError, Package, fetch_package

FILES = {"pkg/a.py": b"x.cuda()\n", "README.md": b"cuda\n"}


def index_of(folder: Path, archive: str, content: bytes, project: str = "my-pkg") -> str:
    """A package index of one file on this disk; its address."""
    page = folder / "simple" / project
    page.mkdir(parents=True)
    (page / archive).write_bytes(content)
    (page / "index.html").write_text(f'<a href="./index.html">x</a> <a href="{archive}#sha256=0">{archive}</a>')
    return (folder / "simple").as_uri()


def wheel() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)
    return data.getvalue()


def source_distribution(top: str = "my_pkg-1.0/") -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name, content in FILES.items():
            entry = tarfile.TarInfo(top + name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        link = tarfile.TarInfo(top + "link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return data.getvalue()


@pytest.fixture
def fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    def run(archive: str, content: bytes, sha256: str | None = None) -> Path:
        address = index_of(tmp_path, archive, content)
        # A file index has no page at the folder's own address.
        monkeypatch.setattr("benchmarks.archives._page", lambda index, name: f"{address}/my-pkg/index.html")
        package = Package("my_pkg", "1.0", archive, sha256 or hashlib.sha256(content).hexdigest())
        return fetch_package(package, tmp_path / "cache")

    return run


@pytest.mark.parametrize(
    ("archive", "content"),
    [("my_pkg-1.0-py3-none-any.whl", wheel()), ("my_pkg-1.0.tar.gz", source_distribution())],
    ids=["wheel", "source distribution"],
)
def test_an_archive_is_fetched_once_and_unpacked(
    fetch: Callable[..., Path], tmp_path: Path, archive: str, content: bytes
) -> None:
    tree = fetch(archive, content)
    found = {path.relative_to(tree).as_posix(): path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    assert found == FILES
    assert not any(path.is_symlink() for path in tree.rglob("*"))
    (tmp_path / "simple" / "my-pkg" / archive).unlink()
    package = Package("my_pkg", "1.0", archive, hashlib.sha256(content).hexdigest())
    assert fetch_package(package, tmp_path / "cache") == tree
    assert list((tmp_path / "cache").iterdir()) == [tree]


def test_a_repository_is_fetched_by_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = source_distribution("repo-c0ffee/")
    addresses: list[str] = []
    monkeypatch.setattr("benchmarks.archives._read", lambda address: (addresses.append(address), content)[1])
    tree = fetch_package(Package("owner+repo", "c0ffee", "", ""), tmp_path / "cache")
    assert {path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file()} == set(FILES)
    assert addresses == ["https://github.com/owner/repo/archive/c0ffee.tar.gz"]


def test_another_archive_than_the_pinned_one_is_refused(fetch: Callable[..., Path]) -> None:
    with pytest.raises(ArchiveError, match=r"has the hash .*, not 00"):
        fetch("my_pkg-1.0.tar.gz", source_distribution(), "00")


def test_paths_that_lead_out_are_refused(fetch: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="unsafe path"):
        fetch("my_pkg-1.0.tar.gz", source_distribution("my_pkg-1.0/../../"))
    assert not list((tmp_path / "cache").iterdir())


def test_an_index_that_cannot_be_reached_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(
        ArchiveError, match=r"^my_pkg-1\.0\.tar\.gz cannot be fetched from http://127\.0\.0\.1:9/"
    ) as error:
        fetch_package(Package("my_pkg", "1.0", "my_pkg-1.0.tar.gz", "00"), tmp_path)
    assert "\n" not in str(error.value)
