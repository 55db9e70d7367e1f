"""The pages of `gpu2npu check --format html` in a real browser: they load and filter, nothing fails or is fetched.

Run by `make test-browser`. BROWSER_PATH, or the PATH, has a Chromium.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parents[1] / "fixtures"
# A path, a call and a message that would be something else if they were not escaped.
HOSTILE = "import torch\ntorch.cuda.check_error('</script><script>document.title=\"broken\"</script>')\n"
PHONE = {"width": 390, "height": 844}


def check(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "gpu2npu", "check", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode in {0, 1}, done.stderr


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    project = folder / "project"
    shutil.copytree(FIXTURES / "ddp_imagenet", project)
    (project / "a <b> & 'c'.py").write_text(HOSTILE)
    (project / "broken.py").write_text("def f(:\n    x.cuda()\n")
    check(project, "-v", "2.1.0", "--format", "html", "-o", folder / "check.html")
    (folder / "repositories.txt").write_text(f"{project}\n{FIXTURES / 'mnist_cnn'}\n{folder / 'nowhere'}\n")
    everything = ("--repos", folder / "repositories.txt", "-v", "2.1.0")
    check(*everything, "-o", folder / "last.jsonl")
    (project / "model.py").write_text("import flash_attn\n")  # worse than in the last run
    check(*everything, "--format", "html", "-o", folder / "rollup.html", "--last", folder / "last.jsonl")
    return folder


def shown(page, table):
    return page.locator(f"#{table} tbody tr:not([hidden])")


def open_file(page, path):
    page.locator("#files button", has_text=path).click()


def test_search_and_kinds_choose_files(pages, visit):
    page = visit(pages / "check.html")
    everything = shown(page, "files").count()
    assert everything >= 3
    page.fill("#search", "MAIN.py")
    assert shown(page, "files").locator("button").all_inner_texts() == ["main.py"]
    assert page.inner_text("#shown") == f"files shown: 1 of {everything}"
    page.fill("#search", "")
    page.check(".kind[value=unsupported]")
    kinds = [row.get_attribute("data-kinds") for row in shown(page, "files").all()]
    assert 0 < len(kinds) < everything
    assert all("unsupported" in each.split() for each in kinds)


def test_a_file_opens_to_its_findings_and_a_diff_side_by_side(pages, visit):
    page = visit(pages / "check.html")
    open_file(page, "main.py")
    assert page.locator(".finding").count() > 0
    assert page.locator(".finding .here").count() == page.locator(".finding").count()
    removed, added = page.locator(".diff td.removed"), page.locator(".diff td.added")
    assert any("cuda" in text for text in removed.all_inner_texts())
    assert any("npu" in text for text in added.all_inner_texts())
    open_file(page, "main.py")
    assert page.locator(".finding").count() == 0


def test_text_of_the_project_is_only_text(pages, visit):
    page = visit(pages / "check.html")
    assert page.title() == "project on an NPU"
    open_file(page, "a <b> & 'c'.py")
    assert "</script><script>" in page.locator(".finding pre").first.inner_text()
    assert "def f" not in page.inner_text("#verdict")
    assert "broken.py" in page.inner_text("main")


@pytest.mark.parametrize("name", ["check.html", "rollup.html"])
def test_a_phone_in_the_dark_shows_all_of_it(pages, visit, name):
    page = visit(pages / name, viewport=PHONE, color_scheme="dark")
    widths = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert widths[0] <= widths[1]
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert dark != visit(pages / name).evaluate("getComputedStyle(document.body).backgroundColor")


def test_repositories_are_sorted_and_searched(pages, visit):
    page = visit(pages / "rollup.html")
    assert shown(page, "repositories").count() == 3
    page.click("text=Lines")
    lines = [int(row.locator("td").last.inner_text()) for row in shown(page, "repositories").all()]
    assert lines == sorted(lines, reverse=True)
    page.click("text=Repository")
    names = shown(page, "repositories").locator("b").all_inner_texts()
    assert names == sorted(names)
    page.fill("#search", "mnist")
    assert shown(page, "repositories").locator("b").all_inner_texts() == ["mnist_cnn"]


def test_repositories_are_chosen_by_verdict_and_sorted_by_cost(pages, visit):
    page = visit(pages / "rollup.html")
    verdicts = [row.get_attribute("data-verdict") for row in shown(page, "repositories").all()]
    assert sorted(verdicts) == ["failed", "ready", "review"]
    page.select_option("#only", "ready")
    assert shown(page, "repositories").locator("b").all_inner_texts() == ["mnist_cnn"]
    page.select_option("#only", "")
    page.click("text=Hours")
    page.click("text=Hours")
    assert shown(page, "repositories").locator("b").all_inner_texts()[0] == "project"  # the costliest


def test_a_repository_has_its_trend_and_its_page(pages, visit):
    page = visit(pages / "rollup.html")
    row = shown(page, "repositories").filter(has_text="project").first
    assert "worse" in row.inner_text()
    linked = pages / row.locator("a").first.get_attribute("href")
    assert linked.is_file()
    assert visit(linked).title() == "project on an NPU"
