"""Many repositories at once: each is checked by itself, summed up in a record, and none can stop the others."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from gpu2npu import __version__
from gpu2npu.project.check.choice import DEFAULT_CHOICE, CheckChoice
from gpu2npu.project.check.session import check_project
from gpu2npu.project.errors import OutputError, UsageError
from gpu2npu.project.pool import Pool
from gpu2npu.project.settings import Settings
from gpu2npu.report.check.causes import causes_of
from gpu2npu.report.check.html import page
from gpu2npu.report.check.json import FORMAT
from gpu2npu.report.check.result import CheckedRepository, Verdict
from gpu2npu.report.check.rollup import LastRun

if TYPE_CHECKING:
    from concurrent.futures import Executor

# An address of git: https://..., git@host:...
_URL = re.compile(r"[a-z][a-z0-9+.-]*://|\w[\w.-]*@[\w.-]+:")
_LONGEST_PATH = 4096
_MAX_BYTES = 16 * 1024 * 1024


class RepositoryTask(Struct, frozen=True):
    """One repository to check. `program` is the version of gpu2npu that asks: a worker of another one refuses."""

    path: str
    settings: Settings
    choice: CheckChoice
    program: str = __version__


def read_repositories(listed: Path) -> tuple[str, ...]:
    """The paths in a file, one a line, each once; "#" starts a comment line. A relative path is from the file's folder;
    the file "-" is standard input, whose paths are from the current folder.

    Raises UsageError where the file cannot be read or lists nothing.
    """
    if str(listed) == "-":
        return _listed(sys.stdin.buffer.read(_MAX_BYTES), Path.cwd(), "on standard input")
    try:
        if not listed.is_file():
            raise UsageError(f"The list of repositories '{listed}' is not a file; it has one folder a line.")
        with listed.open("rb") as opened:
            content = opened.read(_MAX_BYTES)
    except OSError as error:
        raise UsageError(f"The list of repositories '{listed}' cannot be read: {error.strerror}.") from error
    return _listed(content, listed.absolute().parent, f"'{listed}'")


def _listed(content: bytes, folder: Path, shown: str) -> tuple[str, ...]:
    lines = (line.strip() for line in content.decode("utf-8-sig", "surrogateescape").splitlines())
    named = [line for line in lines if line and not line.startswith("#")]
    for line in named:
        if _URL.match(line):
            raise UsageError(
                f"The list of repositories {shown} names the address {line}: clone it first, and name the folder."
            )
        if "\0" in line or len(os.fsencode(line)) > _LONGEST_PATH:
            raise UsageError(f"The list of repositories {shown} has a line that is not a path: {line[:40]!r}...")
    paths = dict.fromkeys(str(folder / line) for line in named)
    if not paths:
        raise UsageError(f"The list of repositories {shown} names none; write one path a line.")
    return tuple(paths)


def check_repositories(
    paths: tuple[str, ...],
    settings: Settings,
    choice: CheckChoice = DEFAULT_CHOICE,
    *,
    jobs: int = 1,
    executor: Executor | None = None,
) -> Generator[CheckedRepository, None, None]:
    """The record of each, as it is done: `jobs` repositories at a time, each by one process."""
    tasks = [RepositoryTask(path, replace(settings, jobs=1), choice) for path in paths]
    with closing(Pool(jobs, executor).answers(check_repository, tasks, apart=True)) as checked:
        for task, answer in checked:
            if isinstance(answer, BaseException):
                name = Path(task.path).name
                yield CheckedRepository(task.path, name, error=f"not checked ({type(answer).__name__}: {answer})")
            else:
                yield answer


def check_repository(task: RepositoryTask) -> CheckedRepository:
    """Check one, in whatever process; what is wrong with it becomes its error. It has a page where diffs are wanted."""
    name = Path(task.path).name
    if task.program != __version__:
        error = f"the worker has gpu2npu {__version__}, and the caller {task.program}; install the same version on both"
        return CheckedRepository(task.path, name, error=error)
    started = time.perf_counter()
    owner = owner_of(Path(task.path))
    try:
        result, _ = check_project((Path(task.path),), task.settings, task.choice)
    except (UsageError, OutputError) as error:
        return CheckedRepository(task.path, name, seconds=time.perf_counter() - started, error=str(error), owner=owner)
    except Exception as error:
        text = f"an internal error of gpu2npu ({type(error).__name__}: {error})"
        return CheckedRepository(task.path, name, seconds=time.perf_counter() - started, error=text, owner=owner)
    return CheckedRepository(
        path=task.path,
        name=result.name,
        version=result.version,
        files=len(result.files),
        lines=sum(file.lines for file in result.files),
        changes=sum(len(file.changes) for file in result.files),
        counts=tuple(result.counts.items()),
        severities=tuple(result.severities.items()),
        failures=len(result.failures),
        readiness=result.readiness,
        owner=owner,
        causes=causes_of(result.places()),
        page=page(result) if task.choice.diffs else "",
        seconds=time.perf_counter() - started,
    )


# Where GitHub and GitLab look for it, in their order.
_CODEOWNERS = (".github/CODEOWNERS", ".gitlab/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS")
_EVERY_FILE = ("*", "/*", "**", "/**", "/")
# `url = git@host:owner/name.git` or `url = https://host/owner/name`; the owner may have several parts.
_REMOTE = re.compile(r"^\s*url\s*=\s*(?:\w+://[^/\s]+/|[^/\s:]+:)/?(?P<owner>[^\s]+)/[^/\s]+$", re.MULTILINE)
_MAX_CHARACTERS = 1_000_000


def owner_of(repository: Path) -> str:
    """The first owner of all files, such as "@org/team", or that in the address of its remote; "" if neither is."""
    for place in _CODEOWNERS:
        lines = [line.split("#", 1)[0].split() for line in _read(repository / place).splitlines()]
        owners = [words[1] for words in lines if len(words) > 1 and words[0] in _EVERY_FILE]
        if owners:
            return owners[-1]  # the last line that fits counts
    remote = _REMOTE.search(_read(repository / ".git" / "config"))
    return remote["owner"] if remote is not None else ""


def _read(file: Path) -> str:
    """The text of a file, "" where there is none."""
    try:
        if not file.is_file():
            return ""
        with file.open(encoding="utf-8", errors="replace") as opened:
            return opened.read(_MAX_CHARACTERS)
    except OSError:
        return ""


_VERDICTS = {verdict.value for verdict in Verdict}


def read_last_run(file: Path) -> dict[str, LastRun]:
    """The result of each repository, by path. Raises UsageError where the file cannot be read or is something else."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"The last run '{file}' cannot be read: {reason}.") from error
    found = {}
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                path, last = _entry(json.loads(line))
            except (ValueError, LookupError, TypeError, RecursionError) as error:
                hint = "give a file that `gpu2npu check --repos` wrote as lines of JSON"
                raise UsageError(f"Line {number} of '{file}' is not a repository of this format; {hint}.") from error
            found[path] = last
    return found


def _entry(line: Any) -> tuple[str, LastRun]:
    if line["format"] != FORMAT:
        raise ValueError("another format")
    ready = line["readiness"]
    if ready is None:
        return str(line["path"]), LastRun("", 0, 0.0)
    if ready["verdict"] not in _VERDICTS:
        raise ValueError("another verdict")
    return str(line["path"]), LastRun(ready["verdict"], int(ready["blocking"]), float(ready["effort_hours"][1]))
