"""The fixtures of the engine's tests: a kind of rule is tested by what becomes of a text."""

from tests.engine.conftest import migrate, migrate_with, project, rulebook

__all__ = ["migrate", "migrate_with", "project", "rulebook"]


def text_of(result, before: str) -> str:
    assert result.failure is None
    return before if result.content is None else result.content.decode()
