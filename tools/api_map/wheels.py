"""Single files out of wheels on PyPI, by HTTP range requests: a wheel of 100 MB costs a few hundred kilobytes."""

from __future__ import annotations

import io
import os
import re
import urllib.request
import zipfile
from dataclasses import dataclass
from urllib.parse import urljoin

_INDEX = "https://pypi.org/simple"
_TIMEOUT_SECONDS = 60
_BLOCK = 1 << 18


class WheelError(Exception):
    """A wheel cannot be read from the index; the message says which and why."""


@dataclass(frozen=True)
class Listed:
    """A wheel as the index lists it: its file name, its address, and the SHA-256 of its content."""

    filename: str
    url: str
    sha256: str


def listed(project: str) -> list[Listed]:
    """The wheels of a project ("torch-npu") on PyPI. Raises WheelError when the index cannot be reached."""
    page = f"{os.environ.get('PIP_INDEX_URL', _INDEX).rstrip('/')}/{project}/"
    request = urllib.request.Request(page, headers={"Accept": "text/html, */*;q=0.1"})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
            links = re.findall(r'href="([^"#]+/([^/"#]+\.whl))#sha256=(\w+)"', response.read().decode())
    except OSError as error:
        raise WheelError(f"the wheels of {project} cannot be listed from {page}: {error}") from error
    return [Listed(filename, urljoin(page, url), sha256) for url, filename, sha256 in links]


def torch_wheel(wheels: list[Listed], release: str) -> Listed:
    """A wheel of torch for a minor release ("2.1.0"): any of macOS, which are the smallest; the sources are the same.

    Raises WheelError when there is none.
    """
    minor = ".".join(release.split(".")[:2])
    found = [each for each in wheels if re.match(rf"torch-{minor}\.\d+-.*macosx.*arm64", each.filename)]
    if not found:
        raise WheelError(f"PyPI lists no wheel of torch {minor} for macOS on arm64")
    return min(found, key=lambda each: each.filename)


def open_wheel(wheel: Listed) -> zipfile.ZipFile:
    """The wheel as an archive whose members are fetched as they are read. Raises WheelError when it is not one."""
    try:
        return zipfile.ZipFile(_Remote(wheel.url))
    except (OSError, zipfile.BadZipFile) as error:
        raise WheelError(f"{wheel.filename} cannot be read from {wheel.url}: {error}") from error


class _Remote(io.RawIOBase):
    """A file at an address, read block by block."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._at = 0
        self._blocks: dict[int, bytes] = {}
        request = urllib.request.Request(url, method="HEAD")
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
            self._size = int(response.headers["Content-Length"])

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._size, self._at + size)
        content = bytearray()
        while self._at < end:
            number, offset = divmod(self._at, _BLOCK)
            piece = self._block(number)[offset : offset + end - self._at]
            content += piece
            self._at += len(piece)
        return bytes(content)

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            last = min(self._size, (number + 1) * _BLOCK) - 1
            request = urllib.request.Request(self._url, headers={"Range": f"bytes={number * _BLOCK}-{last}"})
            with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
                if response.status != 206:
                    raise OSError(f"{self._url} does not answer requests for a range")
                self._blocks[number] = response.read()
        return self._blocks[number]
