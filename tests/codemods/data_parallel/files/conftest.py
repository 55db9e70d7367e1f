"""Has rank 0 write the files of a program."""

import ast
from textwrap import dedent

import pytest

from gpu2npu.codemods.data_parallel.files.rank_zero import on_rank_zero
from gpu2npu.codemods.program.files import TrainingProgram
from gpu2npu.engine import ProjectContext
from gpu2npu.records import FileRewrite
from tests.codemods.edited import after_edits

MODULES = ("csv", "json", "logging", "os", "shutil", "torch", "torch.distributed as dist")
HEAD = "".join(f"import {module}\n" for module in MODULES) + "\n"


@pytest.fixture
def gate():
    """`gate(files, entries)`: the files after the rewrite, and the messages of what was found.

    The result parses, and stays when done again.
    """

    def call(files, entries=("train.py",)):
        rewrites = rewrites_of(files, entries)
        after = {path: after_edits(text, rewrites.get(path, FileRewrite()).edits) for path, text in files.items()}
        for text in after.values():
            ast.parse(text)
        assert not any(rewrite.edits for rewrite in rewrites_of(after, entries).values())
        return after, [finding.message for rewrite in rewrites.values() for finding in rewrite.found]

    return call


def rewrites_of(files, entries):
    sources = {path: text.encode() for path, text in files.items()}
    return on_rank_zero(TrainingProgram.of(sources, ProjectContext(files=frozenset(sources))), entries)


@pytest.fixture
def gate_one(gate):
    """`gate_one(text)`: the same for the text of one program below its imports."""

    def call(before):
        after, messages = gate({"train.py": HEAD + dedent(before)})
        assert after["train.py"].startswith(HEAD)
        return after["train.py"][len(HEAD) :], messages

    return call
