"""The part of a project that a file belongs to, by its path."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from gpu2npu.python.flow.reachability import TEST_FILE, is_called_later
from gpu2npu.records import NativeKind, NativePlace
from gpu2npu.report.check.result import Part

_FOLDERS = (
    (Part.CI, re.compile(r"\.(github|gitlab|circleci|buildkite|ci|azure.*)|ci|jenkins")),
    (Part.TESTS, re.compile(r"(\w+_)?tests?(_utils|_data|_scripts)?|testing")),
    (Part.EXAMPLES, re.compile(r"(\w+_)?(examples?|demos?|tutorials?|samples?|benchmarks?)")),
    (Part.DOCS, re.compile(r"docs?|documentation")),
    (Part.NOTEBOOKS, re.compile(r"notebooks?")),
)
_FILES = (
    (Part.NOTEBOOKS, re.compile(r".+\.ipynb")),
    (Part.TESTS, re.compile(rf"{TEST_FILE}|conftest\.py|testing(_utils)?\.py")),
    (
        Part.CI,
        re.compile(r"\.gitlab-ci.*|\.travis\.yml|\.?appveyor\.yml|azure-pipelines.*|jenkinsfile|tox\.ini|noxfile\.py"),
    ),
)


def parts_of(paths: Iterable[str]) -> Callable[[str], Part]:
    """The part of each file of a project. One that has no other Python code than tests, examples and the like is a
    collection of programs: none of them is apart."""
    listed = tuple(paths)
    scripts = _script_folders(listed)

    def part(path: str) -> Part:
        named = _part(path)
        return Part.EXAMPLES if named is Part.PROGRAM and path.partition("/")[0] in scripts else named

    is_collection = not any(path.endswith(".py") and part(path) is Part.PROGRAM for path in listed)
    return lambda path: Part.PROGRAM if is_collection and _part(path) is not Part.CI else part(path)


def _script_folders(paths: Iterable[str]) -> frozenset[str]:
    """The folders at the top, beside a larger package, whose names have a hyphen, so that nothing can import them:
    scripts that use the package, as `sota-implementations` beside `torchrl`."""
    python = [path.removeprefix("src/") for path in paths if path.endswith(".py")]
    counted = Counter(path.partition("/")[0] for path in python if "/" in path)
    packages = {path.removesuffix("/__init__.py") for path in python if path.endswith("/__init__.py")}
    largest = max((counted[package] for package in packages if "/" not in package), default=0)
    return frozenset(folder for folder, count in counted.items() if "-" in folder and count < largest)


def _part(path: str) -> Part:
    *folders, name = path.lower().split("/")
    named = ((part, pattern, name) for part, pattern in _FILES)
    placed = ((part, pattern, folder) for folder in folders for part, pattern in _FOLDERS)
    return next((part for part, pattern, text in (*named, *placed) if pattern.fullmatch(text)), Part.PROGRAM)


def kernels_apart(places: Iterable[NativePlace], files: Mapping[str, bytes]) -> int:
    """The CUDA kernels that are not in the program itself: all of them where nothing but some call builds them."""
    listed = tuple(places)
    part = parts_of(files)
    builds = [place for place in listed if place.kind is NativeKind.BUILD and part(place.path) is Part.PROGRAM]
    on_demand = bool(builds) and all(is_called_later(files[place.path], place.line) for place in builds)
    kernels = [place for place in listed if place.kind is NativeKind.KERNEL]
    return sum(on_demand or part(place.path) is not Part.PROGRAM for place in kernels)
