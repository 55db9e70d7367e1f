"""requirements.txt and constraints files, and the packages built for CUDA in the lock files of uv, Poetry and PDM."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpu2npu.distributions import normalised
from gpu2npu.engine.knowledge import Knowledge
from gpu2npu.engine.marks import Mark
from gpu2npu.formats.marks import of_environment
from gpu2npu.formats.nodes import Items, Mapping, Node, Scalar, entry
from gpu2npu.formats.required_packages import (
    ADDED,
    BUILT_FOR_CUDA,
    FOR_CUDA,
    missing_release,
    npu_requirements,
    requirement,
    requirement_marks,
)
from gpu2npu.python.text.templates import plain
from gpu2npu.records import Edit, FindingKind, Found, Severity
from gpu2npu.rulebook.in_code import CUDA_BUILD, TORCH_NPU
from gpu2npu.support.cann import CPU_INDEX

# A line with those that continue it.
_LINE = re.compile(r"(?:[^\\\n]|\\(?!\r?\n)|\\\r?\n)+")
_COMMENT = re.compile(r"(?:^|\s)#.*", re.DOTALL)
# A comment, and no option: a setup.py often takes its requirements from this file.
_INDEX = f"  # with PyTorch's build for the CPU: pip install --extra-index-url {CPU_INDEX}"


def requirements_marks(text: str, knowledge: Knowledge, installs: bool = True) -> list[Mark]:
    """Return the marks for a requirements file: its edits and findings.

    One that installs nothing (a constraints file), or nothing on machines with NPUs, gets no new line.
    """
    found = []
    marks: list[Mark] = []
    for start, line in _lines(text):
        marks += knowledge.patterns(line, start)
        required = requirement(line, start)
        if required is not None:
            found.append(required)
            marks += requirement_marks(required, knowledge)
    hashed = "--hash" in text
    marks += _hashed_edits(text, marks) if hashed else []
    marks += missing_release(found, knowledge)
    wanted, new = npu_requirements(found if installs else (), knowledge)
    for torch in wanted:
        if hashed:
            message = f"{ADDED} Add {new} with its hash: pip checks hashes for this file."
            marks.append(of_environment(torch.place, TORCH_NPU, FindingKind.REVIEW, torch.name, message))
            continue
        marks.append(_new_line(text, torch.start, new + torch.marker + ("" if CPU_INDEX in text else _INDEX)))
    return marks


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Each logical line with its place, without its comment."""
    for match in _LINE.finditer(text):
        line = _COMMENT.sub("", match[0])
        if line.strip():
            yield match.start(), line


def _hashed_edits(text: str, marks: list[Mark]) -> list[Mark]:
    notes: list[Mark] = []
    for mark in marks:
        line_end = next((m.end() for m in _LINE.finditer(text) if m.start() <= mark.place[0] < m.end()), len(text))
        if isinstance(mark, Edit) and "--hash" in text[mark.place[0] : line_end]:
            message = "The hashes beside this requirement are those of its old version: replace them."
            notes.append(of_environment(mark.place, mark.rule, FindingKind.REVIEW, "--hash", message))
    return notes


def _new_line(text: str, after: int, line: str) -> Edit:
    newline = "\r\n" if "\r\n" in text else "\n"
    logical = next(match for match in _LINE.finditer(text) if match.start() <= after < match.end())
    end = logical.end() - (text[: logical.end()].endswith("\r"))
    if text.startswith(("\n", "\r\n"), end):
        at = end + len(newline if text.startswith("\r\n", end) else "\n")
        return Edit((at, at), plain(line + newline), TORCH_NPU, ADDED)
    return Edit((end, end), plain(newline + line), TORCH_NPU, ADDED)


# Libraries of CUDA, which nothing but code for NVIDIA's GPUs links; not those that ask for the state of a GPU.
_LIBRARY = re.compile(r"nvidia-(?!ml-)[\w-]+")
_LOCAL_BUILD = re.compile(r"\+cu\d")  # faster-conv 1.0+cu121
# They come with PyTorch itself, whose own requirement says what to do.
_WITH_TORCH = re.compile(r"torch|torchvision|torchaudio|triton|(?:nvidia|cuda)-.*")


def lock_marks(root: Node, knowledge: Knowledge) -> Iterator[Mark]:
    """Yield a finding for each locked package that is built for CUDA and that no rule is about."""
    packages = root.entries if isinstance(root, Mapping) else ()
    for key, package in packages:
        name = entry(package, "name")
        if key.value != "package" or not isinstance(name, Scalar) or not name.value:
            continue
        known = normalised(name.value)
        reason = None if known in knowledge.distributions or _WITH_TORCH.fullmatch(known) else _reason(known, package)
        if reason is not None:
            place, kind = (name.start, name.end), FindingKind.UNSUPPORTED
            message = f"{reason}. {FOR_CUDA}"
            yield Found(place, CUDA_BUILD, kind, known, message, Severity.ENVIRONMENT, FOR_CUDA)


def _reason(name: str, package: Node) -> str | None:
    """Return what says that a package is built for CUDA; None where nothing does."""
    if BUILT_FOR_CUDA.fullmatch(name):
        return "Its name says so"
    version = entry(package, "version")
    if isinstance(version, Scalar) and _LOCAL_BUILD.search(version.value or ""):
        return f"Version {version.value} says so"
    library = next((each for each in _required(package) if _LIBRARY.fullmatch(each)), None)
    return f"It requires {library}" if library is not None else None


def _required(package: Node) -> Iterator[str]:
    """The names that a locked package requires: a table of Poetry's, inline tables of uv's, strings of PDM's."""
    dependencies = entry(package, "dependencies")
    if isinstance(dependencies, Mapping):
        names: list[Node | None] = [key for key, _ in dependencies.entries]
    else:
        items = dependencies.items if isinstance(dependencies, Items) else ()
        names = [entry(item, "name") if isinstance(item, Mapping) else item for item in items]
    for name in names:
        if isinstance(name, Scalar) and name.value:
            yield normalised(re.split(r"[\s;<>=!~\[]", name.value)[0])
