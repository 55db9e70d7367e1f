from __future__ import annotations

from collections.abc import Callable

import pytest

from gpu2npu.engine import ProjectContext
from gpu2npu.formats.dispatch import migrate_file
from gpu2npu.project.migrator import Migrator
from gpu2npu.project.settings import RuleChoice
from gpu2npu.python.project.project import EVERY_FILE
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


@pytest.fixture
def after(tmp_path):
    """The texts of a project's files after the migration, and the lines that have findings of each."""

    def run(**files: str) -> dict[str, tuple[str, list[int]]]:
        named = {name.replace("_", "."): text for name, text in files.items()}
        for name, text in named.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        python = {name: text.encode() for name, text in named.items() if name.endswith(".py")}
        others = {name: text.encode() for name, text in named.items() if name not in python}
        migrator = Migrator.load(RuleChoice(), "2.7.1", tmp_path, python, others=others)
        found = {name: migrator(text.encode(), name) for name, text in named.items()}
        project = migrator.context.project
        files = {
            each for each in set().union(*project.consulted.values()) if not each.startswith(EVERY_FILE)
        }  # "*name"
        assert files <= {*project.files, *project.data}
        reads = [name for name, text in named.items() if "c.json" in text]
        is_renamed = "c.json" in found and found["c.json"].content is not None
        assert not is_renamed or all("c.json" in project.consulted[name] for name in reads)
        return {
            name: ((one.content or named[name].encode()).decode(), [each.span.start_line for each in one.findings])
            for name, one in found.items()
        }

    return run
