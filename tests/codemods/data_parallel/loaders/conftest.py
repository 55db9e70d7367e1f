"""Shares out the loaders of a program."""

import ast
from textwrap import dedent

import pytest

from gpu2npu.codemods.data_parallel.loaders.sharding import shard_loaders
from gpu2npu.codemods.program.files import TrainingProgram
from gpu2npu.engine import ProjectContext
from gpu2npu.records import FileRewrite
from tests.codemods.edited import after_edits

HEAD = "import torch\nimport torch.distributed as dist\nfrom torch.utils.data import DataLoader, DistributedSampler\n"


@pytest.fixture
def shard():
    """`shard(files, entries)`: the files after the rewrite, and what was found, by path.

    The result parses, and stays under a second rewrite.
    """

    def call(files, entries=("train.py",)):
        files = {path: dedent(text) for path, text in files.items()}
        rewrites = rewrites_of(files, entries)
        after = {path: after_edits(text, rewrites.get(path, FileRewrite()).edits) for path, text in files.items()}
        for text in after.values():
            ast.parse(text)
        assert not any(rewrite.edits for rewrite in rewrites_of(after, entries).values())
        return after, {path: rewrite.found for path, rewrite in rewrites.items() if rewrite.found}

    return call


def rewrites_of(files, entries):
    sources = {path: text.encode() for path, text in files.items()}
    return shard_loaders(TrainingProgram.of(sources, ProjectContext(files=frozenset(sources))), entries)


@pytest.fixture
def shard_one(shard):
    """`shard_one(text)`: the text of one program below its imports after the rewrite, and the messages."""

    def call(before):
        after, findings = shard({"train.py": HEAD + before})
        assert after["train.py"].startswith(HEAD)
        return after["train.py"][len(HEAD) :], [finding.message for finding in findings.get("train.py", ())]

    return call
