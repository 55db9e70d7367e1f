"""A headless Chromium for the tests of pages."""

import os
import shutil

import pytest
from playwright.sync_api import sync_playwright

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser():
    path = os.environ.get("BROWSER_PATH") or next(filter(None, map(shutil.which, NAMES)), None)
    assert path, f"no browser: install one of {', '.join(NAMES)}, or name it in BROWSER_PATH"
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def visit(browser):
    """Opens a page; at the end nothing may have been logged as an error, and nothing fetched but the page."""
    problems, contexts = [], []

    def open_page(file, **options):
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: problems.append(request.url) if request.url != page_url else None)
        page_url = file.as_uri()
        page.goto(page_url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []


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


@pytest.fixture(scope="session")
def diverged():
    """The report of a program whose loss falls from 2.3 to 1.2 and whose copy leaves it at step 7."""
    numbers = range(1, STEPS + 1)
    losses = [{"step": step, "original": 2.4 - step / 10, "migrated": 2.4 - step / 10} for step in numbers]
    losses[-1]["migrated"] = "nan"
    return {
        "version": 1,
        "verdict": "diverged",
        "steps": STEPS,
        "compared": 24,
        "hf32": ["conv"],
        "behaviour": {"sort-float32": 3},
        "compile_switched_off": False,
        "unplayed": [],
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
