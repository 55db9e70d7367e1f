"""The kind of a file, known by its name and, where the name says nothing, by its first line."""

from __future__ import annotations

import re
from enum import Enum


class FileKind(str, Enum):
    """The kinds of files that are migrated.

    All but Python can be switched off; a file of no kind is copied as it is.
    """

    PYTHON = "python"
    SHELL = "shell"
    YAML = "yaml"
    JSON = "json"
    TOML = "toml"
    INI = "ini"
    REQUIREMENTS = "requirements"
    DOCKERFILE = "dockerfile"
    NOTEBOOK = "notebook"


# The names of the kinds that can be switched off.
OTHER_KINDS = tuple(kind.value for kind in FileKind if kind is not FileKind.PYTHON)
# How much of a file `kind_of` may want to see.
HEAD_BYTES = 128
# A larger configuration may be one of data, of which only records with a word of a rule are looked at.
SMALL = 50_000

_BY_SUFFIX = {
    FileKind.PYTHON: ("py",),
    FileKind.SHELL: ("sh", "bash", "zsh", "ksh", "slurm", "sbatch", "pbs", "env", "mk"),
    FileKind.YAML: ("yaml", "yml"),
    FileKind.JSON: ("json", "jsonc", "json5"),
    FileKind.TOML: ("toml",),
    FileKind.INI: ("cfg", "ini"),
    FileKind.DOCKERFILE: ("dockerfile",),
    FileKind.NOTEBOOK: ("ipynb",),
}
# The kinds that are keys and values, by the function of formats that reads their text, `module:function`.
TREES = {
    FileKind.YAML: "yaml_reader:read_yaml",
    FileKind.JSON: "json_reader:read_json",
    FileKind.TOML: "toml_reader:read_toml",
}
_SUFFIXES = {suffix: kind for kind, suffixes in _BY_SUFFIX.items() for suffix in suffixes}
_NAMES = {
    "Dockerfile": FileKind.DOCKERFILE,
    "Containerfile": FileKind.DOCKERFILE,
    "Makefile": FileKind.SHELL,
    "makefile": FileKind.SHELL,
    "GNUmakefile": FileKind.SHELL,
    "Pipfile": FileKind.TOML,
    "uv.lock": FileKind.TOML,
    "poetry.lock": FileKind.TOML,
    "pdm.lock": FileKind.TOML,
    ".env": FileKind.SHELL,
}
# What other package managers write and read: an edit would make it inconsistent.
_LOCKS = frozenset({"package-lock.json", "pnpm-lock.yaml", "conda-lock.yml", "conda-lock.yaml", "composer.lock"})
_FORMS = "ISSUE_TEMPLATE"  # the folder of what GitHub shows to those who report an issue
_REQUIREMENTS = re.compile(r"(?:.*[-_.])?(?:requirements?|constraints?)(?:[-_.].*)?\.(?:txt|in|pip)", re.IGNORECASE)
_SHELL_LINE = re.compile(rb"#!.*\b(?:ba|z|k|da)?sh\b")
_MAKEFILE = re.compile(r"(?:GNUm|M|m)akefile(?:\..*)?|.*\.mk")


def kind_of(path: str, head: bytes = b"") -> FileKind | None:
    """The kind of the file at `path` (forward slashes), whose first bytes are `head`; None for a file of no kind."""
    folder, _, name = path.rpartition("/")
    home = folder.rpartition("/")[2]
    if name in _LOCKS or home == _FORMS or path.endswith(".py"):
        return FileKind.PYTHON if path.endswith(".py") else None
    if name in _NAMES:
        return _NAMES[name]
    stem, dot, suffix = name.rpartition(".")
    suffix = suffix.lower() if dot else ""
    listed = home == "requirements" and suffix in ("txt", "in")
    if listed or _REQUIREMENTS.fullmatch(name):
        return FileKind.REQUIREMENTS
    if stem and suffix in _SUFFIXES and suffix != "py":
        return _SUFFIXES[suffix]
    if re.match(r"(?:Docker|Container)file[._-]", name):
        return FileKind.DOCKERFILE
    if is_environment_file(name):
        return FileKind.SHELL
    if not suffix and _SHELL_LINE.match(head.split(b"\n", 1)[0]):
        return FileKind.SHELL
    return None


def needs_head(path: str) -> bool:
    """Return whether the name says nothing, so that the kind may be in the first line."""
    return "." not in path.rpartition("/")[2]


def is_lock(path: str) -> bool:
    """Return whether a package manager has written a file of the kind TOML: it is read, and never edited."""
    return path.endswith(".lock")


def is_makefile(path: str) -> bool:
    """Return whether a file of the kind shell is a makefile, whose recipes are shell."""
    return _MAKEFILE.fullmatch(path.rpartition("/")[2]) is not None


def is_environment_file(path: str) -> bool:
    """Return whether a file of the kind shell holds the variables that Docker or dotenv hand to a program."""
    return re.fullmatch(r"(?:.*/)?(?:[^/]*\.env|\.env\.[\w.-]+)", path) is not None
