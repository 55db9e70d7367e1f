"""What the engine may know of the project around a file, gathered once before any file is migrated."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpu2npu.rulebook.rule import MethodMatch, NameMatch, Rulebook


def _nothing(path: str) -> bytes:
    raise FileNotFoundError(path)


@dataclass(frozen=True)
class ProjectContext:
    """Facts shared by every file of one migration; picklable, so that workers can have it.

    `version` is the source's PyTorch version. `files` are the project's Python files, relative, with forward slashes,
    and `read` gives the bytes of one. `root` is where they lie on disk (None: nowhere, and jedi is not asked).
    `own_methods` are methods of rules, such as `cuda`, that some class of the project defines itself.
    `taken_names` are names that some file imports from another module of the project: they must go on existing.
    """

    version: str = "2.1.0"
    files: frozenset[str] = frozenset()
    read: Callable[[str], bytes] = _nothing
    root: Path | None = None
    own_methods: frozenset[str] = frozenset()
    taken_names: frozenset[str] = frozenset()
    _modules: dict[str, str] = field(default_factory=dict, compare=False, repr=False)

    def module_path(self, module: str, importer: str) -> str | None:
        """The project file that `module` (dotted, relative with leading dots) means in `importer`, or None."""
        stripped = module.lstrip(".")
        parts = stripped.split(".") if stripped else []
        level = len(module) - len(stripped)
        package = importer.split("/")[:-1]
        if level:
            bases = [package[: len(package) - (level - 1)]] if level - 1 <= len(package) else []
        else:
            # An absolute import starts at the root, at a folder on the way to the importer (scripts put their
            # own folder on sys.path), or at a conventional source folder.
            bases = [package[:depth] for depth in range(len(package), -1, -1)] + [["src"]]
        for base in bases:
            stem = "/".join((*base, *parts))
            for candidate in (f"{stem}.py", f"{stem}/__init__.py".lstrip("/")):
                if candidate in self.files:
                    return candidate
        return None


def scan_project(
    files: Mapping[str, bytes],
    rulebook: Rulebook,
    version: str,
    read: Callable[[str], bytes] = _nothing,
    root: Path | None = None,
) -> ProjectContext:
    """Gather the context from the bytes of the project's Python files, by a few searches and no parsing."""
    methods = {rule.match.method for rule in rulebook.rules if isinstance(rule.match, MethodMatch)}
    leaves = {rule.match.name.rpartition(".")[2] for rule in rulebook.rules if isinstance(rule.match, NameMatch)}
    return ProjectContext(
        version=version,
        files=frozenset(files),
        read=read,
        root=root,
        own_methods=_first_groups(rf"\bdef[ \t]+({_either(methods)})[ \t]*\(", files),
        taken_names=_taken_names(leaves, files),
    )


def _either(words: set[str]) -> str:
    return "|".join(map(re.escape, sorted(words))) or r"(?!)"


def _first_groups(pattern: str, files: Mapping[str, bytes]) -> frozenset[str]:
    compiled = re.compile(pattern.encode())
    return frozenset(group.decode() for data in files.values() for group in compiled.findall(data))


def _taken_names(leaves: set[str], files: Mapping[str, bytes]) -> frozenset[str]:
    """The leaves of rule names (`cuda`) that a file takes from a module other than torch, by import or attribute.

    It looks no closer than that: to keep a name alive that nobody needs costs an `as`, to lose one costs a bug.
    """
    word = re.compile(_either(leaves).encode())
    statement = re.compile(rb"^[ \t]*from[ \t]+(?!torch\b)([.\w]+)[ \t]+import[ \t]*(\([^)]*\)|[^\n]*)", re.MULTILINE)
    taken: set[str] = set()
    for data in files.values():
        if not word.search(data):
            continue
        for _, names in statement.findall(data):
            taken.update(leaf.decode() for leaf in re.findall(rb"\w+", names) if leaf.decode() in leaves)
    return frozenset(taken)
