"""One rulebook for all engine tests, and the shortest way to migrate a text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpu2npu.engine import ProjectContext, migrate_source, scan_project
from gpu2npu.records import MigratedFile
from gpu2npu.rulebook import Rulebook, load_rulebook


@pytest.fixture(scope="session")
def rulebook() -> Rulebook:
    return load_rulebook()


@pytest.fixture
def migrate(rulebook: Rulebook) -> Callable[[str], str]:
    """Text in, migrated text out; a failure is an error."""

    def run(text: str) -> str:
        result = migrate_source(text.encode(), "train.py", rulebook, ProjectContext())
        assert result.failure is None, result.failure
        return text if result.content is None else result.content.decode()

    return run


@pytest.fixture
def migrate_with(tmp_path: Path) -> Callable[..., MigratedFile]:
    """Rules as they are in a file, then a text: what becomes of it under these rules before the built-in ones."""

    def run(rules: list[dict[str, Any]], text: str, path: str = "train.py") -> MigratedFile:
        document = [{"why": "Because.", "examples": [{"keep": ""}], **rule} for rule in rules]
        file = tmp_path / "own.json"
        file.write_text(json.dumps({"rules": document}), encoding="utf-8")
        return migrate_source(text.encode(), path, load_rulebook([file]), ProjectContext())

    return run


@pytest.fixture
def project(rulebook: Rulebook) -> Callable[..., dict[str, MigratedFile]]:
    """A project as path -> text; what becomes of each file."""

    def run(files: Mapping[str, str], version: str = "2.1.0") -> dict[str, MigratedFile]:
        data = {path: text.encode() for path, text in files.items()}
        context = scan_project(data, rulebook, version, read=data.__getitem__)
        return {path: migrate_source(content, path, rulebook, context) for path, content in data.items()}

    return run
