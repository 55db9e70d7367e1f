"""The fixtures of the engine's tests: a kind of rule is tested by what becomes of a text."""

from tests.engine.conftest import migrate, migrate_with, project, rulebook

__all__ = ["migrate", "migrate_with", "project", "rulebook"]
