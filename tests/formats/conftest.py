from __future__ import annotations

from collections.abc import Callable

import pytest

from gpu2npu.engine import ProjectContext
from gpu2npu.formats.dispatch import migrate_file
from gpu2npu.records import MigratedFile
from gpu2npu.rulebook import Rulebook, load_rulebook


@pytest.fixture(scope="session")
def rulebook() -> Rulebook:
    return load_rulebook()


@pytest.fixture(scope="session")
def migrate(rulebook: Rulebook) -> Callable[..., MigratedFile]:
    """Migrates a text as a file of some name, by the built-in rules."""

    def run(text: str | bytes, path: str, version: str = "2.1.0") -> MigratedFile:
        source = text if isinstance(text, bytes) else text.encode()
        return migrate_file(source, path, rulebook, ProjectContext(version=version))

    return run


@pytest.fixture(scope="session")
def migrated(migrate: Callable[..., MigratedFile]) -> Callable[..., str]:
    """The text after the migration, which a second migration leaves as it is."""

    def run(text: str, path: str, version: str = "2.1.0") -> str:
        result = migrate(text, path, version)
        assert result.failure is None
        if result.content is None:
            assert not result.changes
            return text
        assert migrate(result.content, path, version).content is None
        return result.content.decode()

    return run
