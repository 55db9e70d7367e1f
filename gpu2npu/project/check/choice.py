"""The choices of a check, and what follows from the settings of the projects that it looks at."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gpu2npu.project.config import read_config
from gpu2npu.project.errors import UsageError
from gpu2npu.project.location import Location, locate
from gpu2npu.project.session import Session
from gpu2npu.project.settings import Settings
from gpu2npu.support.cann import chip_problem
from gpu2npu.support.chips import DEFAULT_CHIP, chip_families
from gpu2npu.support.releases import RELEASES, known_torch_npu


class CheckChoice(Struct, frozen=True):
    """The choices of a check, beside its settings. `select` and `ignore` are ids of rules, or patterns such as
    "cuda-*", to report and not to report. `cache` is the folder of the cache, None for no cache. `diffs` asks for the
    diff of each file. `settings_of` is the folder whose own settings count, None for those of each source; `root` the
    folder that paths are from, None for one that suits the sources."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    baseline: Path | None = None
    update_baseline: bool = False
    cache: Path | None = None
    diffs: bool = False
    settings_of: Path | None = None
    root: Path | None = None


DEFAULT_CHOICE = CheckChoice()


class SourceTree(Struct, frozen=True):
    """One source of a check: `prefix` is what is put before its paths to make them paths from the root of the check;
    `excluded_above` patterns are about paths from the folder that is `above` it and has the settings."""

    settings: Settings
    location: Location
    prefix: str
    above: Path
    excluded_above: tuple[str, ...]

    def excludes(self, path: str) -> bool:
        if self.settings.excludes(path):
            return True
        outer = os.path.relpath(self.location.root / path, self.above)
        return replace(self.settings, exclude=self.excluded_above).excludes(outer)


def named_chips(names: Sequence[str]) -> tuple[str, ...]:
    """The families of chips that a user named. Raises UsageError for a name of no family."""
    try:
        return chip_families(names)
    except ValueError as error:
        raise UsageError(f"soc: {error}.") from None


def source_trees(
    sources: Sequence[Path], settings: Settings, choice: CheckChoice
) -> tuple[list[SourceTree], Path, bool]:
    """The trees to check, the folder that all paths are relative to, and whether the version was chosen here: without
    one in the settings it is that of the sources' own, or else the latest.

    Raises UsageError where a source cannot be checked, or their settings name different versions.
    """
    if not sources:
        raise UsageError("Nothing to check: give a folder or a file.")
    own = [settings_above(choice.settings_of or source) for source in sources]
    versions = {each.version for each, _ in own if each.version}
    if not settings.version and len(versions) > 1:
        raise UsageError(f"The sources are written for different versions, {', '.join(sorted(versions))}; give -v.")
    releases = {each.torch_npu for each, _ in own if each.torch_npu}
    if not settings.version and not settings.torch_npu and len(releases) > 1:
        raise UsageError(f"The sources are for different torch_npu, {', '.join(sorted(releases))}; give --torch-npu.")
    torch_npu = settings.torch_npu or ("" if settings.version else next(iter(releases), ""))
    chosen = settings.version or settings.torch_npu or next(iter(versions), "") or torch_npu or RELEASES[-1]
    trees = []
    for source, (config, above) in zip(sources, own, strict=True):
        filled = replace(settings, version=chosen, torch_npu=torch_npu).or_else(replace(config, exclude=()))
        filled = replace(filled, chips=filled.chips or (DEFAULT_CHIP,))
        if problem := next(
            filter(None, (chip_problem(known_torch_npu(torch_npu) or chosen, chip) for chip in filled.chips)), ""
        ):
            raise UsageError(f"soc: {problem}.")
        trees.append(SourceTree(filled, locate(source, filled), "", above, config.exclude))
    outermost = [tree for tree in trees if not any(_inside(tree.location, other.location) for other in trees)]
    unique = list({(tree.location.root, tree.location.only): tree for tree in outermost}.values())
    root = choice.root or _common_root([tree.location for tree in unique])
    trees = [replace(tree, prefix=_prefix(tree.location, root)) for tree in unique]
    return trees, root, not (settings.version or settings.torch_npu or versions or releases)


def settings_above(source: Path) -> tuple[Settings, Path]:
    """The settings of the nearest folder of a source that has some, and that folder."""
    resolved = Path(os.path.realpath(source))
    folder = resolved if resolved.is_dir() else resolved.parent
    for above in (folder, *folder.parents):
        config = read_config(above)
        if config.file is not None or (above / ".git").exists():
            return config, above
    return Settings(), folder


def _inside(place: Location, other: Location) -> bool:
    """Return whether the other place holds all of this one."""
    if other.only is not None or (place.only is None and place.root == other.root):
        return False
    return place.root.is_relative_to(other.root)


def _common_root(places: Sequence[Location]) -> Path:
    """The current folder where everything is below it; else the nearest folder that holds everything."""
    here = Path(os.path.realpath(Path.cwd()))
    if all(place.root.is_relative_to(here) for place in places):
        return here
    return Path(os.path.commonpath([str(place.root) for place in places]))


def _prefix(place: Location, root: Path) -> str:
    relative = place.root.relative_to(root).as_posix()
    return "" if relative == "." else f"{relative}/"


class TreeFiles(Struct, frozen=True):
    """A tree with its session, and the contents of files by path: `others` are those of other kinds than Python that a
    migration looks into, `native` those that may hold C++ or CUDA code."""

    tree: SourceTree
    choice: CheckChoice
    session: Session
    others: Mapping[str, bytes]
    native: Mapping[str, bytes]

    @property
    def wanted(self) -> dict[str, bytes]:
        """The files that are looked into."""
        return self.session.wanted | {**self.others}
