"""The page of `gpu2npu verify --html` in a real browser: numbers at the axes, a heat map, the code of a chosen cell."""

import json
from importlib.resources import files

import jsonschema
import pytest

from gpu2npu.report.webpage import verify_page

SCHEMA = json.loads((files("gpu2npu.verify") / "report.schema.json").read_text())


@pytest.fixture
def file(tmp_path, diverged):
    jsonschema.validate(diverged, SCHEMA)
    written = tmp_path / "verified.html"
    written.write_text(verify_page(diverged, "project"), encoding="utf-8")
    return written


def test_the_axes_have_numbers(file, visit, diverged):
    page = visit(file)
    words = page.locator("#losses text").all_text_contents()
    assert words == ["1.2", "1.4", "1.6", "1.8", "2", "2.2", "2", "4", "6", "8", "10", "12", "step"]
    curves = [page.locator(f"polyline[data-side={side}]") for side in ("original", "migrated")]
    points = [curve.get_attribute("points").split() for curve in curves]
    assert [len(each) for each in points] == [diverged["steps"], diverged["steps"] - 1]
    assert float(points[0][0].split(",")[1]) < float(points[0][-1].split(",")[1])  # the loss falls, so the curve does


def test_a_cell_shows_numbers_and_code_of_both_sides(file, visit, diverged):
    page = visit(file)
    assert page.locator("#heat tr").count() == 2 and page.locator("#heat button").count() == diverged["steps"] + 1
    colours = page.locator("#heat button").evaluate_all("all => all.map(each => each.style.background)")
    assert colours[0] != colours[6] and colours[0] == colours[5]
    cell = page.locator("#heat button").nth(6)
    cell.click()
    middle = (
        "(it) => { const box = it.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }"
    )
    assert cell.evaluate(f"(it) => document.elementFromPoint(...({middle})(it)) === it")
    assert "output of Net.fc, step 7: error 0.001" in page.inner_text("#chosen h3")
    assert "first 0.25, nan" in page.inner_text("#chosen")
    original, migrated = page.locator("#chosen pre").all()
    assert original.locator("span").count() == 7 and migrated.locator(".here").inner_text().endswith("npu line 10")
    text = diverged["sources"]["original"]["model.py"]["9"]
    assert text.strip() in original.locator(".here").inner_text()


def test_a_phone_shows_all_of_it(file, visit):
    page = visit(file, viewport={"width": 375, "height": 700}, color_scheme="dark")
    page.locator("#heat button").first.click()
    widths = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert widths[0] <= widths[1]
