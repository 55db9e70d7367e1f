"""Packages from PyPI, pinned by the hash of their archive: fetched once, unpacked, and never built or run.

pip would run the setup.py of a source distribution to download it, so archives are taken from the index directly.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from urllib.parse import urldefrag, urljoin

_DEFAULT_INDEX = "https://pypi.org/simple"
_COMMIT = "https://github.com/{}/archive/{}.tar.gz"
_TIMEOUT_SECONDS = 60


class ArchiveError(Exception):
    """An archive cannot be had; the message says which, from where, and why."""


@dataclass(frozen=True)
class Package:
    """A release on PyPI: `archive` is the name of its wheel or source distribution, `sha256` that file's hash. Without
    an archive it is a repository on GitHub, `owner+name`, at the commit that is its version."""

    name: str
    version: str
    archive: str
    sha256: str


def tree_of(package: Package, folder: Path) -> Path:
    """The place of the unpacked archive below `folder`, if it was fetched."""
    return folder / f"{package.name}-{package.version}-{package.sha256[:8]}"


def fetch_package(package: Package, folder: Path) -> Path:
    """The unpacked archive below `folder`, without the top folder of a source distribution; fetched if not there yet.

    Raises ArchiveError when the index cannot be reached, or does not have the archive as it was pinned.
    """
    tree = tree_of(package, folder)
    if tree.is_dir():
        return tree
    folder.mkdir(parents=True, exist_ok=True)
    # Several processes may come here at once: each works in its own folder, and the first to finish wins.
    with tempfile.TemporaryDirectory(dir=folder, prefix=".fetching-") as scratch:
        archive = Path(scratch) / (package.archive or "commit.tar.gz")
        archive.write_bytes(_download(package) if package.archive else _commit(package))
        _unpack(archive, Path(scratch) / "tree")
        try:
            (Path(scratch) / "tree").rename(tree)
        except OSError:
            if not tree.is_dir():
                raise
    return tree


def _download(package: Package) -> bytes:
    page = _page(_index_url(), package.name)
    try:
        links = _Links(page)
        links.feed(_read(page).decode())
        url = next((link for link in links.found if PurePosixPath(urldefrag(link).url).name == package.archive), None)
        if url is None:
            raise ArchiveError(f"{package.archive} is not listed at {page}")
        content = _read(url)
    except (OSError, ValueError) as error:  # urllib's errors are OSErrors
        reason = getattr(error, "reason", error)
        raise ArchiveError(
            f"{package.archive} cannot be fetched from {page}: {reason}; it is needed once, and the network with it"
        ) from error
    found = hashlib.sha256(content).hexdigest()
    if found != package.sha256:
        raise ArchiveError(f"{package.archive} from {page} has the hash {found}, not {package.sha256}")
    return content


def _commit(package: Package) -> bytes:
    """The files of a repository at a commit, which is named by the hash of its content."""
    address = _COMMIT.format(package.name.replace("+", "/"), package.version)
    try:
        return _read(address)
    except OSError as error:
        raise ArchiveError(f"{address} cannot be fetched: {getattr(error, 'reason', error)}") from error


def _page(index: str, name: str) -> str:
    return f"{index.rstrip('/')}/{name.replace('_', '-')}/"


def _index_url() -> str:
    """The index that pip is set to use here."""
    from_environment = os.environ.get("PIP_INDEX_URL")
    if from_environment:
        return from_environment
    pip = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    return subprocess.run(pip, capture_output=True, text=True, check=False).stdout.strip() or _DEFAULT_INDEX


def _read(url: str) -> bytes:
    request = urllib.request.Request(url, headers={"Accept": "text/html, */*;q=0.1"})
    with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
        content: bytes = response.read()
    return content


class _Links(HTMLParser):
    """The addresses that a page of the index links to."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self._page = page
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get("href")
        if tag == "a" and address:
            self.found.append(urljoin(self._page, address))


def _unpack(archive: Path, target: Path) -> None:
    """Regular files only: links and devices in an archive are nobody's source code."""
    target.mkdir()
    for name, content in _members(archive):
        parts = PurePosixPath(name).parts
        if PurePosixPath(name).is_absolute() or ".." in parts:
            raise ArchiveError(f"{archive.name} holds the unsafe path {name}")
        path = target.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _members(archive: Path) -> Iterator[tuple[str, bytes]]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for entry in wheel.infolist():
                if not entry.is_dir():
                    yield entry.filename, wheel.read(entry)
    else:
        with tarfile.open(archive) as source:
            for member in source:
                data = source.extractfile(member) if member.isfile() else None
                if data is not None:
                    yield member.name.partition("/")[2], data.read()
