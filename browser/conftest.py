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
