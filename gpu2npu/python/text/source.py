"""Bytes -> text and back, exactly: encoding cookies, byte order marks and line ends survive."""

from __future__ import annotations

import codecs
import re
import tokenize
from functools import lru_cache

from msgspec import Struct

_LINE = re.compile(rb"[^\r\n]*(?:\r\n?|\n|$)")
# The longer marks first: that of UTF-16 is the beginning of one of UTF-32.
_WIDE_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32", "utf-32-le"),
    (codecs.BOM_UTF32_BE, "UTF-32", "utf-32-be"),
    (codecs.BOM_UTF16_LE, "UTF-16", "utf-16-le"),
    (codecs.BOM_UTF16_BE, "UTF-16", "utf-16-be"),
)


class SourceReadError(ValueError):
    """The bytes are not the text their encoding says; the message is for the user."""


class SourceFile(Struct, frozen=True):
    """A decoded file: `text` without the byte order mark, and how to encode it again."""

    path: str
    text: str
    encoding: str
    bom: bytes

    def encode(self, text: str) -> bytes:
        """The bytes of `text` in this file's own encoding, byte order mark included."""
        return self.bom + text.encode(self.encoding)


# Every byte that is not of a word becomes a space.
_APART = bytes(byte if chr(byte).isascii() and (chr(byte).isalnum() or byte == ord("_")) else 32 for byte in range(256))


@lru_cache(maxsize=1)  # several callers read one file after the other
def words(data: bytes) -> frozenset[bytes]:
    """The words of a file, as `\\w+` finds them in bytes, and several times as fast."""
    return frozenset(data.translate(_APART).split())


@lru_cache(maxsize=1)
def vocabulary(text: str) -> str:
    """The words of a text, each once and in a line of its own, which is shorter to search."""
    return b"\n".join(words(text.encode("utf-8", "surrogatepass"))).decode("ascii")


def read_settings(data: bytes, path: str) -> SourceFile:
    """Decode a file that is not Python: by its byte order mark, as UTF-16 where one of the first two bytes is null,
    else as UTF-8, or by Latin-1, which keeps every byte."""
    bom, encoding = _spelled(data)
    try:
        text = data[len(bom) :].decode(encoding)
    except UnicodeDecodeError:  # what is written is ASCII: any encoding that keeps the other bytes will do
        encoding = "latin-1"
        text = data[len(bom) :].decode(encoding)
    return SourceFile(path, text, encoding, bom)


def _spelled(data: bytes) -> tuple[bytes, str]:
    """The byte order mark and the encoding that the first bytes of a file state."""
    for mark, _, encoding in (*_WIDE_MARKS, (codecs.BOM_UTF8, "UTF-8", "utf-8")):
        if data.startswith(mark):
            return mark, encoding
    first, second = data[:1] == b"\0", data[1:2] == b"\0"
    return b"", {(True, False): "utf-16-be", (False, True): "utf-16-le"}.get((first, second), "utf-8")


def read_source(data: bytes, path: str) -> SourceFile:
    """Decode by PEP 263: byte order mark, cookie in the first two lines, else UTF-8. Raises SourceReadError: the cookie
    names no known encoding, or the bytes do not fit the encoding."""
    for mark, name, _ in _WIDE_MARKS:
        if data.startswith(mark):
            raise SourceReadError(f"it is {name}, which is not an encoding of Python files: save it as UTF-8")
    try:
        encoding = _encoding(data)
    except SyntaxError as error:
        raise SourceReadError(f"unknown encoding: {error.msg}") from error
    bom = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    if bom:
        encoding = "utf-8"
    try:
        text = data[len(bom) :].decode(encoding)
    except UnicodeDecodeError as error:
        raise SourceReadError(f"byte {error.start + len(bom)} is not {encoding} ({error.reason})") from error
    except (LookupError, UnicodeError) as error:  # rot13 is a codec, but not of text
        raise SourceReadError(f"its encoding {encoding} cannot be read") from error
    if text.encode(encoding) != data[len(bom) :]:
        raise SourceReadError(f"its {encoding} bytes have more than one spelling and would not survive a rewrite")
    return SourceFile(path, text, encoding, bom)


def declared_encoding(data: bytes) -> str:
    """The encoding of a Python file by its byte order mark or its cookie; UTF-8 where that is not an encoding."""
    try:
        return _encoding(data)
    except SyntaxError:
        return "utf-8"


def _encoding(data: bytes) -> str:
    """As for Python itself, a carriage return alone ends a line too. Raises SyntaxError."""
    lines = (match[0] for match in _LINE.finditer(data))
    try:
        return tokenize.detect_encoding(lambda: next(lines, b""))[0]
    except SyntaxError as error:
        if data.startswith(codecs.BOM_UTF8) and error.msg == "encoding problem: utf-8":
            raise SyntaxError("its byte order mark says UTF-8, and its coding line says otherwise") from error
        if error.msg == "invalid or missing encoding declaration":
            return "utf-8"  # and the byte that is not will be named
        raise
