"""The page of `gpu2npu verify --html` in a real browser: numbers at the axes, a heat map, the code of a chosen cell."""

import json
from importlib.resources import files

import jsonschema
import pytest

from gpu2npu.report.verify_page import verify_page

SCHEMA = json.loads((files("gpu2npu.verify") / "report.schema.json").read_text())
STEPS = 12
TEXT = "    x = self.fc(x)  # </script><b>"


def tensor(line):
    return {
        "shape": [2, 3],
        "dtype": "float32",
        "norm": 1.5,
        "largest": 1.0,
        "unfinite": 0,
        "first": [0.25, "nan"],
        "stack": [f"model.py:{line}", "train.py:3"],
    }


def cell(step, units):
    numbers = {"step": step, "units": units, "error": 1e-3, "tolerance": 1e-4}
    return numbers | {"original": tensor(9), "migrated": tensor(10)}


def diverged():
    """The report of a program whose loss falls from 2.3 to 1.2 and whose copy leaves it at step 7."""
    numbers = range(1, STEPS + 1)
    losses = [{"step": step, "original": 2.4 - step / 10, "migrated": 2.4 - step / 10} for step in numbers]
    losses[-1]["migrated"] = "nan"
    document = {
        "version": 1,
        "verdict": "diverged",
        "steps": STEPS,
        "compared": 24,
        "hf32": ["conv"],
        "compile_switched_off": False,
        "rank": 0,
        "ranks": 1,
        "losses": losses,
        "first": None,
        "differences": [],
        "places": [
            {"kind": "output", "name": "Net.fc", "steps": [cell(at, 0.1 if at < 7 else 30.0) for at in numbers]},
            {"kind": "loss", "name": "loss", "steps": [cell(12, "inf")]},
        ],
        "sources": {
            "original": {"model.py": {str(line): TEXT if line == 9 else f"line {line}" for line in range(6, 30)}},
            "migrated": {"model.py": {str(line): f"npu line {line}" for line in range(7, 14)}},
        },
        "baseline": None,
    }
    jsonschema.validate(document, SCHEMA)
    return document


@pytest.fixture
def file(tmp_path):
    written = tmp_path / "verified.html"
    written.write_text(verify_page(diverged(), "project"), encoding="utf-8")
    return written


def test_the_axes_have_numbers(file, visit):
    page = visit(file)
    words = page.locator("#losses text").all_text_contents()
    assert words == ["1.2", "1.4", "1.6", "1.8", "2", "2.2", "2", "4", "6", "8", "10", "12", "step"]
    curves = [page.locator(f"polyline[data-side={side}]") for side in ("original", "migrated")]
    points = [curve.get_attribute("points").split() for curve in curves]
    assert [len(each) for each in points] == [STEPS, STEPS - 1]
    assert float(points[0][0].split(",")[1]) < float(points[0][-1].split(",")[1])  # the loss falls, so the curve does


def test_a_cell_shows_numbers_and_code_of_both_sides(file, visit):
    page = visit(file)
    assert page.locator("#heat tr").count() == 2 and page.locator("#heat button").count() == STEPS + 1
    colours = page.locator("#heat button").evaluate_all("all => all.map(each => each.style.background)")
    assert colours[0] != colours[6] and colours[0] == colours[5]
    page.locator("#heat button").nth(6).click()
    assert "output of Net.fc, step 7: error 0.001" in page.inner_text("#chosen h3")
    assert "first 0.25, nan" in page.inner_text("#chosen")
    original, migrated = page.locator("#chosen pre").all()
    assert original.locator("span").count() == 7 and migrated.locator(".here").inner_text().endswith("npu line 10")
    assert TEXT.strip() in original.locator(".here").inner_text()


def test_a_phone_shows_all_of_it(file, visit):
    page = visit(file, viewport={"width": 375, "height": 700}, color_scheme="dark")
    page.locator("#heat button").first.click()
    widths = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert widths[0] <= widths[1]
