"""The request for a check, and what follows from the settings of the projects that it looks at."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpu2npu.project.config import Config, read_config, with_config
from gpu2npu.project.errors import UsageError
from gpu2npu.project.request import Place, Request, check_request
from gpu2npu.support.limits import DEFAULT_CHIP, chip_families
from gpu2npu.support.releases import RELEASES


@dataclass(frozen=True)
class CheckRequest:
    """`sources` are folders and files. An empty `version` means that of the settings, or else the latest. `select` and
    `ignore` are ids of rules, or patterns such as "cuda-*", to report and not to report. `cache` is the folder of the
    cache, None for no cache. `diffs` asks for the diff of each file. `torch_npu` is a release of torch_npu, "" for that
    of the settings, or else the newest. `file_timeout` is that of a migration (see Request). `chips` are families of
    chips (of limits.CHIPS), none for those of the settings, or else the usual one. `settings` is the folder whose
    settings count, None for those of each source; `root` the folder that paths are from, None for one that suits the
    sources."""

    sources: tuple[Path, ...]
    version: str = ""
    torch_npu: str = ""
    rules: tuple[Path, ...] = ()
    exclude: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    baseline: Path | None = None
    update_baseline: bool = False
    cache: Path | None = None
    diffs: bool = False
    jobs: int | None = None
    file_timeout: float | None = None
    chips: tuple[str, ...] = ()
    settings: Path | None = None
    root: Path | None = None


@dataclass(frozen=True)
class SourceTree:
    """One source of a check: `prefix` is what goes before its paths to make them paths from the root of the check;
    `excluded_above` patterns are about paths from the folder that is `above` it and has the settings."""

    request: Request
    place: Place
    prefix: str
    above: Path
    excluded_above: tuple[str, ...]

    def excludes(self, path: str) -> bool:
        if self.request.excludes(path):
            return True
        outer = os.path.relpath(self.place.root / path, self.above)
        return replace(self.request, exclude=self.excluded_above).excludes(outer)


def named_chips(names: Sequence[str]) -> tuple[str, ...]:
    """The families of chips that a user named. Raises UsageError for a name of no family."""
    try:
        return chip_families(names)
    except ValueError as error:
        raise UsageError(f"soc: {error}.") from None


def source_trees(request: CheckRequest) -> tuple[list[SourceTree], Path, bool]:
    """The trees to check, the folder that all paths are relative to, and whether the version was chosen here.

    Raises UsageError where a source cannot be checked, or their settings name different versions.
    """
    if not request.sources:
        raise UsageError("Nothing to check: give a folder or a file.")
    found = [(source, *_settings(request.settings or source)) for source in request.sources]
    versions = {config.version for _, config, _ in found if config.version}
    if not request.version and len(versions) > 1:
        raise UsageError(f"The sources are written for different versions, {', '.join(sorted(versions))}; give -v.")
    releases = {config.torch_npu for _, config, _ in found if config.torch_npu}
    if not request.version and not request.torch_npu and len(releases) > 1:
        raise UsageError(f"The sources are for different torch_npu, {', '.join(sorted(releases))}; give --torch-npu.")
    torch_npu = request.torch_npu or ("" if request.version else next(iter(releases), ""))
    chosen = request.version or request.torch_npu or next(iter(versions), "") or torch_npu or RELEASES[-1]
    places = []
    for source, config, above in found:
        base = Request(source, chosen, rules=request.rules, jobs=request.jobs, torch_npu=torch_npu, chips=request.chips)
        own = replace(config, exclude=())
        asked = with_config(base, own)
        asked = replace(asked, exclude=request.exclude, chips=asked.chips or (DEFAULT_CHIP,))
        places.append((asked, check_request(asked), above, config.exclude))
    kept = [each for each in places if not any(_inside(each[1], other[1]) for other in places if other is not each)]
    unique = list({(place.root, place.only): (asked, place, above, out) for asked, place, above, out in kept}.values())
    root = request.root or _common_root([place for _, place, _, _ in unique])
    trees = [SourceTree(asked, place, _prefix(place, root), above, out) for asked, place, above, out in unique]
    return trees, root, not (request.version or request.torch_npu or versions or releases)


def _settings(source: Path) -> tuple[Config, Path]:
    """The settings of the nearest folder of a source that has some, and that folder."""
    resolved = Path(os.path.realpath(source))
    folder = resolved if resolved.is_dir() else resolved.parent
    for above in (folder, *folder.parents):
        config = read_config(above)
        if config.file is not None or (above / ".git").exists():
            return config, above
    return Config(), folder


def _inside(place: Place, other: Place) -> bool:
    """Return whether the other place holds all of this one."""
    if other.only is not None or (place.only is None and place.root == other.root):
        return False
    return place.root.is_relative_to(other.root)


def _common_root(places: Sequence[Place]) -> Path:
    """The current folder where everything lies below it; else the nearest folder that holds everything."""
    here = Path(os.path.realpath(Path.cwd()))
    if all(place.root.is_relative_to(here) for place in places):
        return here
    return Path(os.path.commonpath([str(place.root) for place in places]))


def _prefix(place: Place, root: Path) -> str:
    relative = place.root.relative_to(root).as_posix()
    return "" if relative == "." else f"{relative}/"
