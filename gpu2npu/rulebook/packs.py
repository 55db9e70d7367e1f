"""Rule packs: the rule files that a folder holds, or that an installed package offers.

A package offers them by an entry point of the group `gpu2npu.rules`, whose value is a package that holds the files:

    [project.entry-points."gpu2npu.rules"]
    fastlib = "fastlib_rules"

Nothing of the package is imported: its folder is found by its name. The exception is a rule with a codemod, whose
module is imported when the rule applies; `check_codemods` refuses one that is not of a pack.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from gpu2npu.near_names import did_you_mean
from gpu2npu.rulebook.rule import Rule, RuleError
from gpu2npu.system import holds

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "gpu2npu.rules"
PREFIX = "pack:"


class Pack(Struct, frozen=True):
    """One pack that is installed: its name, its distribution with the version, and its rule files."""

    name: str
    distribution: str
    files: tuple[Path, ...]
    package: str = ""


def check_codemods(path: Path, rules: Iterable[Rule]) -> None:
    """Refuse rules that run code, unless they are in a file of a pack, and the code is in the package of that. Raises
    RuleError: one does so."""
    for rule in (rule for rule in rules if rule.then.codemod is not None):
        packs = [pack for pack in installed_packs() if path.resolve() in [file.resolve() for file in pack.files]]
        if not packs:
            raise RuleError(
                f"{path}: rule '{rule.id}' runs code ('codemod'), which only a rule of an installed pack may."
            )
        packages = {pack.package.partition(".")[0] for pack in packs}
        if (rule.then.codemod or "").partition(":")[0].partition(".")[0] not in packages:
            raise RuleError(
                f"{path}: rule '{rule.id}': the code of a codemod must be in the package of its pack, {min(packages)}, "
                f"not in {rule.then.codemod}."
            )


def installed_packs() -> tuple[Pack, ...]:
    """The packs that installed packages offer, by name."""
    from importlib.metadata import entry_points  # slow to import, and most runs ask for no pack

    found = {point.name: point for point in entry_points(group=GROUP)}
    return tuple(_pack(point) for _, point in sorted(found.items()))


def rule_files(sources: Iterable[Path]) -> tuple[Path, ...]:
    """The rule files that sources stand for: `pack:NAME`, a folder with rule files, or a file. Raises RuleError: no
    such pack is installed, or a pack or folder holds no rule file."""
    return tuple(file for source in sources for file in _files_of(source))


def _files_of(source: Path) -> tuple[Path, ...]:
    name = str(source)
    if name.startswith(PREFIX):
        return _pack_called(name.removeprefix(PREFIX)).files
    if not holds(source.is_dir):
        return (source,)
    if files := _files_in(source):
        return files
    raise RuleError(f"{source}: the folder holds no rule file (.json).")


def _pack_called(name: str) -> Pack:
    packs = {pack.name: pack for pack in installed_packs()}
    if name not in packs:
        none = f"no package that offers rules is installed beside gpu2npu in {sys.prefix}."
        known = f"the packs are {', '.join(packs)}." if packs else none
        raise RuleError(f"No rule pack is called {name!r}; {did_you_mean(name, packs) or known}")
    if not packs[name].files:
        raise RuleError(f"{PREFIX}{name}: {packs[name].distribution} holds no rule file (.json) where it says so.")
    return packs[name]


def _pack(point: EntryPoint) -> Pack:
    distribution = f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.name
    folder = _folder_of(point.module)
    return Pack(point.name, distribution, _files_in(folder) if folder is not None else (), point.module)


def _folder_of(package: str) -> Path | None:
    """The folder of a package; None if it is not found. `a.b` is looked for in the folder of `a`."""
    top, *inner = package.split(".")
    spec = PathFinder.find_spec(top)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)), *inner)


def _files_in(folder: Path) -> tuple[Path, ...]:
    files = folder.glob("*.json") if folder.is_dir() else ()
    return tuple(sorted(path for path in files if not path.name.endswith(".schema.json")))
