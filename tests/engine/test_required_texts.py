import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu2npu.engine.required_texts import required_texts


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (rb"torch\.cuda\.", [{b"torch.cuda."}]),
        (rb"\bCUDA (?:error|oom)\b", [{b"cuda "}, {b"error", b"oom"}]),
        (rb"(?:ab)?cd*e", [{b"c"}, {b"e"}]),
        (rb"(?:ab)+", [{b"ab"}]),
        (rb"(?i:NCCL)/\d", [{b"nccl"}, {b"/"}]),
        (rb"(?=cuda)\w+", []),
        (rb"one|\w+", []),
        (rb"[ab]c", [{b"c"}]),
        (rb"[^]x]]y", [{b"]y"}]),
        (rb"a\x62c\.d", [{b"a"}, {b"c.d"}]),
        (rb"ab?c{0,2}d{2}e{", [{b"a"}, {b"d"}, {b"e{"}]),
        (rb"(?#no)a(?!b\))c(?P<n>d)(?P=n)", [{b"a"}, {b"c"}, {b"d"}]),
        (rb"(?x) a b", []),
        (rb"a\u0062c\U00000064\N{SPACE}e", [{b"a"}, {b"c"}, {b"e"}]),
        ("像镜*Я\\镜b".encode(), [{"像".encode()}, {"镜b".encode()}]),
    ],
)
def test_texts_are_those_of_every_match(pattern, expected):
    assert [set(texts) for texts in required_texts(pattern)] == expected


PIECES = st.sampled_from(
    [
        *("cuda", "Nv", r"\d", "(?:ab|c)", "(?:x|y)?", "[ab]", "q*", "z+", r"\w", "(?i:KL)", "(?=c)", "(?<!d)"),
        *("a{2}", r"\x6b", r"\.", "[]a]", "(?#b)"),
    ]
)


@given(st.lists(PIECES, min_size=1, max_size=5).map("".join), st.text("abcdkluvxyzNKLq1", max_size=12))
def test_what_lacks_a_text_is_no_match(pattern, text):
    source = text.encode()
    if re.search(pattern.encode(), source):
        lowered = source.lower()
        assert all(any(needed in lowered for needed in texts) for texts in required_texts(pattern.encode()))


@given(st.data())
def test_a_string_made_from_the_pattern_has_them(data):
    pattern = data.draw(st.lists(PIECES, min_size=1, max_size=5).map("".join))
    source = data.draw(st.from_regex(pattern.encode()))
    assert all(any(needed in source.lower() for needed in texts) for texts in required_texts(pattern.encode()))
