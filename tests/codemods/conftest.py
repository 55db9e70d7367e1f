"""Plans the codemods of a program."""

import pytest

from gpu2npu.codemods import plan_codemods
from gpu2npu.codemods.choice import DEFAULT_CHOICE
from gpu2npu.engine import ProjectContext
from gpu2npu.python.text.offsets import Lines
from tests.codemods.edited import after_edits


@pytest.fixture
def plan():
    """`plan(files, choice)`: the plan of all codemods."""

    def call(files, choice=DEFAULT_CHOICE):
        sources = {path: text.encode() for path, text in files.items()}
        return plan_codemods(sources, ProjectContext(files=frozenset(sources)), choice)

    return call


@pytest.fixture
def after(plan):
    """`after(files, choice)`: the text of each file that is rewritten."""

    def call(files, choice=DEFAULT_CHOICE):
        return {
            path: after_edits(files[path], rewrite.edits)
            for path, rewrite in plan(files, choice).rewrites.items()
            if rewrite.edits
        }

    return call


@pytest.fixture
def findings(plan):
    """`findings(files)`: the places and messages of all findings."""

    def call(files):
        return [
            (path, Lines.of(files[path]).span(*finding.place).start_line, finding.message)
            for path, rewrite in plan(files).rewrites.items()
            for finding in rewrite.found
        ]

    return call
