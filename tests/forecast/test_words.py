"""The words of a forecast: in Chinese, in units that show a size, and no times where a chip has no figures for them."""

import dataclasses
import re

import pytest

from gpu2npu import language
from gpu2npu.emulator.shapes.figures import figures
from gpu2npu.emulator.soc import SOCS
from gpu2npu.forecast.plan import CATEGORIES, CHIP, GUESSES, WAITS, make
from gpu2npu.forecast.runs import page
from gpu2npu.forecast.text import lines, readable
from gpu2npu.language import shown

# English words, without names, options, numbers with units, and code; and what Chinese writers leave English.
_NAME = re.compile(r"[\w/*.-]*[\d_/*#:.\[\]-][\w/*.:#\[\]-]*|`[^`]*`|[A-Z]\w*")
_WORD = re.compile(r"[A-Za-z]{2,}")
_ALSO_CHINESE = {"batch", "float", "dtype"}
SIZES = {
    0: "0 B",
    4: "4 B",
    2_048: "2.0 KiB",
    51_200: "50.0 KiB",
    1 << 20: "1.0 MiB",
    400_000: "0.4 MiB",
    3 << 29: "1.50 GiB",
}


def plan_of(soc, **fields):
    """A plan with something in each of its parts."""
    tensor = {"size": 4, "shape": [], "dtype": "float32", "category": "activations", "line": "train.py:3"}
    npu = {"index": 0, "reserved": 9, "allocated": 8, "end": 1, "line": "train.py:4", "step": 1, "largest": [tensor]}
    step = {"seconds": 1.0, "compute_seconds": 0.5, "operators": 4, "small": 1, "operations": 2.0, "bytes": 3}
    process = {
        "rank": 0,
        "npus": [{**npu, "parts": dict.fromkeys(CATEGORIES, 9)}],
        "chip": {"name": soc.name, "memory": soc.memory, **dataclasses.asdict(figures(soc))},
        "refusal": {"size": 9, "npu": 0, "allocated": 9, "line": "train.py:4"},
        "guesses": [{"kind": kind, "what": "float32", "line": f"train.py:{kind}", "count": 2} for kind in GUESSES] * 4,
        "steps": [step],
        "waits": [{"for": kind, "line": "train.py:5", "count": 3} for kind in WAITS],
        "checkpoints": [{"path": "last.pt", "bytes": 9, "line": "train.py:6"}],
        "files": [{"path": "a.csv", "written": True}, {"path": "b.csv", "written": False}],
        "collectives": [],
        "operators": [{"operator": f"aten::{by}", "by": by, "calls": 3} for by in ("npu", "cpu", "refused")],
        "behaviour": {},
        **fields,
    }
    found = make(["train.py"], [process], 1)
    names = ("batch", "gradient accumulation", "activation checkpointing", "16-bit floats", "sharding (FSDP)")
    outcomes = ((9, True), (9, False), (None, False), (None, None), (9, None))
    found["variants"] = [
        {"name": name, "words": ["--an-option"], "reserved": reserved, "fits": fits}
        for name, (reserved, fits) in zip(names, outcomes, strict=True)
    ]
    return found


def english(text):
    """The English words of a text."""
    return {word for word in _WORD.findall(_NAME.sub(" ", text)) if word not in _ALSO_CHINESE}


@pytest.mark.parametrize("soc", SOCS.values(), ids=SOCS)
def test_a_chinese_forecast_has_no_english_words(soc):
    plans = [
        {**plan_of(soc), "largest_batch": largest, "batch_too_large": too_large, **changed}
        for largest, too_large in ((3, 4), (0, 1), (None, 4), (None, None))
        for changed in ({}, {"refusals": []}, {"step": None}, {"fits": True}, {"fits": None}, {"ranks": []})
    ]
    with language.restored():
        language.use("zh")
        texts = [shown(line) for plan in plans for line in lines(plan)]
        pages = [re.sub(r"(?s)<(style|script).*?</\1>|<[^>]*>", " ", page(plan)) for plan in plans]
    assert {text: english(text) for text in (*texts, *pages) if english(text)} == {}
    assert not [text for text in texts if re.search(r"[\u4e00-\u9fff]\s*[,;]|[\u4e00-\u9fff]:", text)]


def test_the_words_are_found_where_a_text_is_english():
    assert english("  Peak at train.py:4 (step 2)") == {"at", "step"}


@pytest.mark.parametrize(("size", "text"), SIZES.items())
def test_a_size_is_in_a_unit_that_shows_it(size, text):
    assert readable(size) == text


def test_each_figure_of_a_chip_has_its_words_and_its_source():
    for soc in SOCS.values():
        assert figures(soc).sources.keys() == CHIP.keys()


def test_no_time_is_modelled_for_a_chip_without_published_figures():
    found = {name: plan_of(soc) for name, soc in SOCS.items()}
    untimed = {name for name, plan in found.items() if not plan["step"]["modelled"]}
    assert untimed == {name for name in SOCS if re.match(r"Ascend910A|Ascend910Pr|Ascend310B", name)}
    for name in untimed:
        step = found[name]["step"]
        assert [step[key] for key in ("seconds", "compute", "memory", "launch", "collectives", "small")] == [None] * 6
        stated = f"  No time of a step is modelled: the bandwidth of {name}'s memory has no published source."
        assert stated in list(lines(found[name]))
        assert stated.strip() in page(found[name]).replace("&#39;", "'")
