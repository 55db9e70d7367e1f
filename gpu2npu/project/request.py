"""The user's request, and the checks that it can be carried out: nothing is written before every check has passed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from gpu2npu.codemods.choice import DEFAULT_CHOICE, CodemodChoice
from gpu2npu.formats.kinds import HEAD_BYTES, OTHER_KINDS, kind_of
from gpu2npu.near_names import did_you_mean
from gpu2npu.project.errors import UsageError
from gpu2npu.rulebook.select import RuleChoice
from gpu2npu.support.releases import known_torch_npu, known_version, release_of, unknown_version


@dataclass(frozen=True)
class Request:
    """One migration: a folder or one file, written for PyTorch `version`. `output` is None for a diff only.
    `rules` are files of the user's own rules, `only_rules` the ids of the only rules to apply (none: all), `skip_rules`
    of those not to. What fits a pattern of `exclude`, or is of a kind in `skip_kinds` (see formats/kinds.py), is copied
    as it is. `jobs` is the number of worker processes, None for one a CPU. `command` is what
    run_distributed_npu.sh starts for each NPU, a word each; none: it is written for a project on several cards only, to
    be filled in. `codemods` are the structural rewrites. `torch_npu` is the release of torch_npu, "" for the
    newest of the version. `file_timeout` is how many seconds the work on one file may take, None for as long as it
    likes. `chips` are families of chips (of limits.CHIPS), none for the usual one."""

    source: Path
    version: str
    output: Path | None = None
    rules: tuple[Path, ...] = ()
    jobs: int | None = None
    force: bool = False
    log_level: str = "info"
    only_rules: tuple[str, ...] = ()
    skip_rules: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    skip_kinds: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    codemods: CodemodChoice = DEFAULT_CHOICE
    torch_npu: str = ""
    file_timeout: float | None = None
    chips: tuple[str, ...] = ()

    @property
    def release(self) -> str:
        """The release of torch_npu whose facts are used; only for a request that was checked."""
        chosen = known_torch_npu(self.torch_npu) if self.torch_npu else known_version(self.version)
        return chosen or self.version

    @property
    def choice(self) -> RuleChoice:
        """The rules to apply."""
        return RuleChoice(self.rules, self.only_rules, self.skip_rules)

    @property
    def suffix(self) -> str:
        """The ending of the name of the folder that is written."""
        return "msft" if self.codemods.main is None else "msft_multi"

    def excludes(self, path: str) -> bool:
        """Return whether a path in the project, with forward slashes, or a folder above it fits a pattern to exclude.

        `*` also stands for slashes.
        """
        patterns = (pattern.rstrip("/") for pattern in self.exclude)
        return any(fnmatchcase(path, pattern) or fnmatchcase(path, f"{pattern}/*") for pattern in patterns)


@dataclass(frozen=True)
class Place:
    """The places that a migration reads and writes.

    `root` is the folder of the project's files, resolved; `only` the one file of it that is migrated, if the source is
    a file; `destination` the folder to write.
    """

    root: Path
    name: str
    only: str | None
    destination: Path | None


def check_request(request: Request, suffix: str = "msft") -> Place:
    """Check the request and return where it reads and writes: the folder OUT/<name>_<suffix>.

    Raises UsageError with the first reason why the request cannot be carried out.
    """
    if known_version(request.version) is None:
        raise UsageError(f"{unknown_version(request.version)}.")
    if request.torch_npu:
        chosen = known_torch_npu(request.torch_npu)
        if chosen is None:
            raise UsageError(f"--torch-npu: {unknown_version(request.torch_npu)}.")
        if release_of(chosen) != release_of(request.version):
            raise UsageError(f"--torch-npu {request.torch_npu} is not for PyTorch {request.version}; leave one out.")
    for kind in request.skip_kinds:
        if kind not in OTHER_KINDS:
            hint = did_you_mean(kind, OTHER_KINDS) or f"the kinds are {', '.join(OTHER_KINDS)}."
            raise UsageError(f"There is no kind of files {kind!r} to skip; {hint}")
    for rule_file in request.rules:
        if not rule_file.is_file():
            raise UsageError(f"The rule file '{rule_file}' does not exist or is not a file.")
    source = _check_source(request.source)
    only = None if source.is_dir() else source.name
    name = source.name if only is None else source.stem
    if not name:
        raise UsageError(f"The input '{request.source}' has no name to call the output by; give a project's folder.")
    root = source if only is None else source.parent
    destination = None
    if request.output is not None:
        destination = _check_output(request.output, request.source, source) / f"{name}_{suffix}"
        _check_destination(destination, source, request.force)
    return Place(root, name, only, destination)


def _check_source(source: Path) -> Path:
    """The resolved source."""
    try:
        if source.is_symlink():
            raise UsageError(f"The input '{source}' is a symbolic link; give the folder or file it points to.")
        if source.is_dir():
            with os.scandir(source):
                pass
        elif source.is_file():
            with source.open("rb") as file:
                head = file.read(HEAD_BYTES)
            if kind_of(source.name, head) is None:
                raise UsageError(f"The input '{source}' is not a Python file (.py), nor of another kind it migrates.")
        else:
            raise UsageError(f"The input '{source}' does not exist or is neither a folder nor a file.")
        return source.resolve(strict=True)
    except OSError as error:
        raise UsageError(f"The input '{source}' cannot be read: {error.strerror}.") from error


def _check_output(output: Path, shown_source: Path, source: Path) -> Path:
    """The resolved output folder, which need not exist yet."""
    try:
        resolved = output.resolve()
    except (OSError, RuntimeError) as error:
        raise UsageError(f"The output folder '{output}' cannot be used: {error}.") from error
    if source.is_dir() and resolved.is_relative_to(source):
        raise UsageError(f"The output folder '{output}' lies inside the input '{shown_source}'; choose one outside it.")
    existing = next(folder for folder in (resolved, *resolved.parents) if os.path.lexists(folder))
    if not existing.is_dir():
        raise UsageError(f"The output folder '{output}' cannot be made, because '{existing}' is not a folder.")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise UsageError(f"The output folder '{output}' cannot be written to: no permission to write in '{existing}'.")
    return resolved


def _check_destination(destination: Path, source: Path, force: bool) -> None:
    if source.is_relative_to(destination):
        raise UsageError(f"The output '{destination}' would replace the folder that the input is in; choose another.")
    if not os.path.lexists(destination):
        return
    if destination.is_symlink() or not destination.is_dir():
        raise UsageError(f"The output '{destination}' exists and is not a folder; move it away or choose another.")
    if not force:
        raise UsageError(f"The output '{destination}' exists; give --force to replace it, or choose another folder.")
