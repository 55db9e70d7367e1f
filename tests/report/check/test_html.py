"""The page of a check as text; `make test-browser` looks at it in a browser."""

import json
import re
from html.parser import HTMLParser

import pytest

from gpu2npu import language
from gpu2npu.records import Change, Finding, FindingKind, Operation, Severity, Span
from gpu2npu.report import webpage
from gpu2npu.report.check.html import page
from gpu2npu.report.check.result import (
    Cause,
    CheckedFile,
    CheckedFinding,
    CheckedRepository,
    CheckResult,
    Effort,
    Part,
    Readiness,
    Reason,
    Verdict,
)
from gpu2npu.report.check.rollup_tables import rollup_page

EVIL = "</script><img src=x onerror=alert(1)> {{ 7 * 7 }}"
BLOCKER = Cause(
    "0" * 8,
    Severity.BLOCKER,
    FindingKind.UNSUPPORTED,
    EVIL,
    EVIL,
    (("torch.x", 1),),
    ("r",),
    1,
    1,
    ("a.py:1",),
    ((Part.PROGRAM, 1),),
)
READINESS = Readiness(Verdict.BLOCKED, 6, 3, 1, Effort((Reason("places", 4, 2.0, 8.0, "1 h each"),)), (BLOCKER,))


class Elements(HTMLParser):
    def __init__(self):
        super().__init__()
        self.names, self.urls, self.ids = [], [], []

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        values = dict(attrs)
        self.ids += [values["id"]] if "id" in values else []
        self.urls += [value for key, value in attrs if key in {"src", "href"}]


def parsed(text):
    elements = Elements()
    elements.feed(text)
    return elements


def result():
    span = Span(1, 0, 1, 4)
    finding = Finding(span, "r", FindingKind.UNSUPPORTED, "torch.x", EVIL)
    known = CheckedFinding(finding, 1, EVIL, (EVIL,), 1, "", "0" * 32, known=True)
    files = (
        CheckedFile("a.py", 3, (Change(span, "r", Operation.MODIFY, "m", "a", "b"),), (known,), None, "--- a\n+++ b\n"),
        CheckedFile(EVIL, 2, (), (CheckedFinding(finding, 1, EVIL, (EVIL,), 1, "", "1" * 32),)),
        CheckedFile("broken.py", 1, failure="syntax error at line 1"),
        CheckedFile("quiet.py", 9),
    )
    return CheckResult("proj", "2.1.0", "torch_npu-2.1.0", "0.1", "/p", "", files, READINESS)


def test_the_page_shows_what_the_result_says_and_fetches_nothing():
    text = page(result())
    elements = parsed(text)
    assert "img" not in elements.names
    assert set(elements.urls) == {"data:,"}
    assert {"search", "files", "data", "verdict"} <= set(elements.ids)
    assert "{{ 7 * 7 }}" in text
    assert not re.search(r"https?://", text)
    assert "syntax error at line 1" in text
    assert "1 other file with nothing to change" in text
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert [file["path"] for file in data] == ["a.py", EVIL, "broken.py"]
    assert [len(file["findings"]) for file in data] == [0, 1, 0]
    assert data[1]["findings"][0]["code"] == [EVIL]


@pytest.mark.parametrize(("name", "percent"), [("automatic", "60.00"), ("review", "30.00"), ("blocking", "10.00")])
def test_the_bar_is_as_long_as_the_shares(name, percent):
    assert f'<span class="{name}" style="width: {percent}%">' in page(result())


def test_the_roll_up_has_a_row_for_each_repository_and_sums():
    good = CheckedRepository("/r/good", "good", "2.1.0", 3, 100, 6, readiness=READINESS)
    bad = CheckedRepository("/r/bad", "bad", error="it does not exist")
    text = rollup_page([good, bad], {}, {})
    elements = parsed(text)
    assert elements.names.count("tr") == 3
    assert "it does not exist" in text
    assert "<b>0 to 1</b>person-days together" in text
    assert '<div class="blocked"><b>1</b>blocked</div>' in text
    assert set(elements.urls) == {"data:,"}


def test_no_uses_are_no_division():
    nothing = Readiness(Verdict.NO_CUDA, 0, 0, 0, Effort())
    empty = CheckResult("proj", "2.1.0", "e", "0.1", "/p", "", (), nothing)
    assert "Uses of CUDA: 0" in page(empty)


def test_every_variable_text_of_a_chinese_page_has_a_translation(monkeypatch):
    """The collector reads no variable: what `_(label)` shows has to be in the catalogue by its own place."""
    english = []

    def shown(text):
        translation = language.shown(text)
        english.extend([text] if translation == text and re.search("[a-z]{3}", text) else [])
        return translation

    monkeypatch.setattr(webpage, "shown", shown)
    good = CheckedRepository("/r/good", "good", "2.1.0", 3, 100, 6, readiness=READINESS)
    with language.restored():
        language.use("zh")
        page(result())
        rollup_page([good, CheckedRepository("/r/bad", "bad", error="it is nested too deeply")], {}, {})
    assert set(english) <= {EVIL, "places", "1 h each", "syntax error at line 1"}
