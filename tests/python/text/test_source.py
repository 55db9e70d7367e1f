import codecs

import pytest

from gpu2npu.python.text.source import SourceReadError, declared_encoding, read_source

CODE = "import torch\n"


@pytest.mark.parametrize(
    ("source", "encoding"),
    [
        (b"x = 1\n", "utf-8"),
        (b"\xef\xbb\xbfx = 1\n", "utf-8-sig"),
        (b"#!/usr/bin/python\n# -*- coding: gbk -*-\n", "gbk"),
        (b"# coding: no-such-thing\n", "utf-8"),
        (b"\xff\xfe", "utf-8"),
        (b"#!python\r# coding: latin-1\rx = 2\r\xe9", "iso-8859-1"),
        (b"#!python\r#\r# coding: latin-1\r", "utf-8"),
    ],
)
def test_declared_encoding(source: bytes, encoding: str) -> None:
    assert declared_encoding(source) == encoding


def test_the_cookie_of_a_file_whose_lines_end_in_carriage_returns() -> None:
    data = b"#!/usr/bin/python\r# -*- coding: latin-1 -*-\rx = '\xe9'\r"
    source = read_source(data, "a.py")
    assert source.text.endswith("x = '\u00e9'\r")
    assert source.encode(source.text) == data


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (CODE.encode("utf-16"), "it is UTF-16, which is not an encoding of Python files: save it as UTF-8"),
        (codecs.BOM_UTF16_BE + CODE.encode("utf-16-be"), "it is UTF-16, which is not"),
        (CODE.encode("utf-32"), "it is UTF-32, which is not"),
        (
            codecs.BOM_UTF8 + b"# coding: latin-1\n",
            "its byte order mark says UTF-8, and its coding line says otherwise",
        ),
        (b"# coding: no-such-thing\n", "unknown encoding: no-such-thing"),
        (b"x = '\xff'\n", "byte 5 is not utf-8"),
    ],
)
def test_what_cannot_be_decoded_gets_its_sentence(data: bytes, reason: str) -> None:
    with pytest.raises(SourceReadError, match=reason):
        read_source(data, "a.py")
