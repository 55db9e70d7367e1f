"""Each page for everyone: nothing wider than its place, readable in light and dark, English and Chinese, and without a
violation that axe-core finds. AXE names its script, which `make test-browser` takes from npm."""

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpu2npu import language as languages
from gpu2npu.report.webpage import verify_page

FIXTURES = Path(__file__).parents[1] / "fixtures"
AXE = Path(os.environ.get("AXE", "node_modules/axe-core/axe.min.js"))
# Cards do not scroll sideways but in boxes that say so. Tables fold on a phone, and fit on a wide screen; the one of
# verify has a column for each step.
OVERFLOW = """() => ({
  page: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  tables: [...document.querySelectorAll(".scroll")].map((box) => box.scrollWidth - box.clientWidth),
})"""
# What people read on a page that is no code.
TEXTS = """() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode())
    if (!walker.currentNode.parentElement.closest("pre, .diff, script")) texts.push(walker.currentNode.data.trim());
  return texts;
}"""
ENGLISH = re.compile(r"^[ -~]*\b(?:a|an|the|are|no|of|to|by|that|it|on|each|than)\b[ -~]*$")
CASES = list(itertools.product(("en", "zh"), ("check", "rollup", "verify"), (390, 768, 1280), ("light", "dark")))


@pytest.fixture(scope="module")
def pages(tmp_path_factory, diverged):
    folder = tmp_path_factory.mktemp("everyone")
    projects = [FIXTURES / name for name in ("ddp_imagenet", "mixed_package", "mnist_cnn")]
    (folder / "list.txt").write_text("".join(f"{project}\n" for project in projects))
    for language in ("en", "zh"):
        for name, what in (("check", projects[:2]), ("rollup", ["--repos", folder / "list.txt"])):
            options = ["-v", "2.1.0", "--format", "html", "--lang", language, "-o", folder / f"{name}-{language}.html"]
            command = [sys.executable, "-m", "gpu2npu", "check", *map(str, [*what, *options])]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode in {0, 1}, done.stderr
        with languages.restored():
            languages.use(language)
            text = verify_page(diverged, "project")
        (folder / f"verify-{language}.html").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(("language", "name", "width", "scheme"), CASES)
def test_a_page_is_for_everyone(pages, visit, language, name, width, scheme):
    page = visit(
        pages / f"{name}-{language}.html",
        viewport={"width": width, "height": 900},
        color_scheme=scheme,
        bypass_csp=True,
    )
    assert page.get_attribute("html", "lang") == {"en": "en", "zh": "zh-CN"}[language]
    if name != "rollup":
        page.locator("#files button, #heat button").first.click()
    if language == "zh":
        assert [text for text in page.evaluate(TEXTS) if ENGLISH.match(text)] == []
    measured = page.evaluate(OVERFLOW)
    assert measured["page"] <= 0
    if width >= 1280 or name != "verify":
        assert all(over <= 0 for over in measured["tables"]), measured
    page.add_script_tag(content=AXE.read_text(encoding="utf-8"))
    found = page.evaluate(
        "async () => (await axe.run()).violations.map((each) => [each.id, each.nodes.map((n) => n.html)])"
    )
    assert found == []
