"""The file of a project's own settings: `[tool.gpu2npu]` in its pyproject.toml, or the file gpu2npu.toml beside it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu2npu.formats.kinds import OTHER_KINDS
from gpu2npu.language import LANGUAGES
from gpu2npu.project.errors import UsageError
from gpu2npu.project.settings import Settings
from gpu2npu.support.chips import chip_families
from gpu2npu.support.releases import known_version, unknown_torch_npu, unknown_version

CONFIG_NAME = "gpu2npu.toml"
MAX_BYTES = 1024 * 1024


def read_config(source: Path) -> Settings:
    """The settings for a project's folder, or for a file from the folder it is in. gpu2npu.toml wins over pyproject.
    Raises UsageError: a file cannot be read or is not TOML; a key is unknown; a value is of the wrong type."""
    folder = source if source.is_dir() else source.parent
    own = folder / CONFIG_NAME
    if own.is_file():
        return _checked(_read_toml(own), own, "")
    pyproject = folder / "pyproject.toml"
    if pyproject.is_file() and _mentions_us(pyproject):
        tools = _read_toml(pyproject).get("tool", {})
        if isinstance(tools, dict) and "gpu2npu" in tools:
            return _checked(tools["gpu2npu"], pyproject, "tool.gpu2npu")
    return Settings()


def _mentions_us(pyproject: Path) -> bool:
    """A cheap look, so that a pyproject.toml that is none of our business can be as wrong as it likes."""
    try:
        return b"gpu2npu" in pyproject.read_bytes()[:MAX_BYTES]
    except OSError as error:
        raise UsageError(f"{pyproject}: cannot be read: {error.strerror}.") from error


def project_name(folder: Path) -> str:
    """The name of the project that a folder's pyproject.toml gives; "" where there is none that can be read."""
    try:
        project = _read_toml(folder / "pyproject.toml").get("project")
    except UsageError:
        return ""
    name = project.get("name") if isinstance(project, dict) else None
    return name if isinstance(name, str) else ""


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise UsageError(f"{path}: is too large for a configuration (the limit is 1 MiB).")
        return toml_of(data)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is not UTF-8 (byte {error.start}).") from error
    except RecursionError as error:
        raise UsageError(f"{path}: is nested too deeply.") from error
    except ValueError as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"{path}: is not TOML: {error}.") from error


def toml_of(data: bytes) -> dict[str, Any]:
    """The content of a TOML file. Raises ValueError, or RecursionError where it is nested too deeply."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    content: dict[str, Any] = tomllib.loads(data.decode("utf-8-sig"))
    return content


_TEXTS = "a list of texts"
_TEXT = "a text"
_KEYS = {
    "version": _TEXT,
    "torch-npu": _TEXT,
    "rules": _TEXTS,
    "skip-rules": _TEXTS,
    "exclude": _TEXTS,
    "skip-kinds": _TEXTS,
    "soc": _TEXTS,
    "lang": _TEXT,
}


def _rules(path: Path, names: Sequence[str]) -> tuple[Path, ...]:
    """The rule files of the settings in `path`; names are paths from its folder, or packs."""
    if not names:
        return ()
    from gpu2npu.rulebook.packs import PREFIX, rule_files
    from gpu2npu.rulebook.rule import RuleError  # with all of the rule book, which few settings need

    try:
        found = rule_files(Path(name) if name.startswith(PREFIX) else path.parent / name for name in names)
    except RuleError as error:
        raise UsageError(f"{path}: rules: {error}") from error
    for file in filter(Path.is_file, found):
        if b'"codemod"' in file.read_bytes():  # looking at a project must not run code because the project says so
            raise UsageError(f"{path}: rules: {file.name} has a rule that runs code ('codemod'): give it with -r.")
    return found


def _checked(table: object, path: Path, prefix: str) -> Settings:
    if not isinstance(table, Mapping):
        raise UsageError(f"{path}: {prefix}: must be a table, [{prefix}].")
    for key, value in table.items():
        place = f"{prefix}.{key}".lstrip(".")
        if key not in _KEYS:
            raise UsageError(f"{path}: {place}: is an unknown key; known: {', '.join(_KEYS)}.")
        texts = isinstance(value, list) and all(isinstance(item, str) for item in value)
        if not (texts if _KEYS[key] is _TEXTS else isinstance(value, str)):
            raise UsageError(f"{path}: {place}: must be {_KEYS[key]}.")
    for key in ("version", "torch-npu"):
        if key in table and known_version(table[key]) is None:
            place = f"{prefix}.{key}".lstrip(".")
            unknown = unknown_version if key == "version" else unknown_torch_npu
            raise UsageError(f"{path}: {place}: {unknown(table[key])}.")
    if "lang" in table and table["lang"] not in LANGUAGES:
        place = f"{prefix}.lang".lstrip(".")
        raise UsageError(f"{path}: {place}: there is no language {table['lang']!r}; there are {', '.join(LANGUAGES)}.")
    for kind in table.get("skip-kinds", ()):
        if kind not in OTHER_KINDS:
            place = f"{prefix}.skip-kinds".lstrip(".")
            raise UsageError(f"{path}: {place}: {kind!r} is not a kind of files; known: {', '.join(OTHER_KINDS)}.")
    return Settings(
        file=path,
        version=table.get("version", ""),
        torch_npu=table.get("torch-npu", ""),
        rules=_rules(path, table.get("rules", ())),
        skip_rules=tuple(table.get("skip-rules", ())),
        exclude=tuple(table.get("exclude", ())),
        skip_kinds=tuple(table.get("skip-kinds", ())),
        chips=_chips(table.get("soc", ()), path, f"{prefix}.soc".lstrip(".")),
        lang=table.get("lang", ""),
    )


def _chips(names: Sequence[str], path: Path, place: str) -> tuple[str, ...]:
    try:
        return chip_families(names)
    except ValueError as error:
        raise UsageError(f"{path}: {place}: {error}.") from None
