"""The places of the built-in rule files and of the published schema."""

from __future__ import annotations

from pathlib import Path

SCHEMA_NAME = "rule.schema.json"


def builtin_rules_dir() -> Path:
    """The folder of the built-in rules: inside an installed wheel, or `rules/` of the checkout."""
    package = Path(__file__).resolve().parent
    installed = package / "rules"
    return installed if installed.is_dir() else package.parent / "rules"


def builtin_files() -> list[Path]:
    """The built-in rule files, sorted by name."""
    return sorted(path for path in builtin_rules_dir().glob("*.json") if path.name != SCHEMA_NAME)


def schema_path() -> Path:
    """The published JSON Schema of rule files."""
    return builtin_rules_dir() / SCHEMA_NAME
