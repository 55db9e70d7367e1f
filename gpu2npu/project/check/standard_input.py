"""A check of text that is not in a file, such as what an editor has not saved yet."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path, PurePath

from msgspec.structs import replace

from gpu2npu.formats.kinds import HEAD_BYTES, kind_of
from gpu2npu.project.check.choice import CheckChoice
from gpu2npu.project.check.session import check_project
from gpu2npu.project.errors import OutputError, UsageError
from gpu2npu.project.progress import Progress, no_progress
from gpu2npu.project.settings import Settings
from gpu2npu.report.check.result import CheckResult


def check_text(
    text: bytes, name: str, settings: Settings, choice: CheckChoice, progress: Progress = no_progress
) -> tuple[CheckResult, bool]:
    """The result for a text as if it were the only file of the current folder, called `name`, and as check_project
    says, whether the version was chosen here. The settings are those of the place that `name` is for.

    Raises UsageError where no file of that name is looked into, or a baseline is asked for.
    """
    place = Path(os.path.relpath(name))
    path = PurePath(place.name) if ".." in place.parts else PurePath(place)
    if kind_of(path.name, text[:HEAD_BYTES]) is None:
        raise UsageError(f"Files named {name!r} are not checked; give a name such as train.py or run.sh.")
    if choice.baseline is not None:
        raise UsageError("A baseline is about files; standard input has none.")
    with tempfile.TemporaryDirectory(prefix="gpu2npu-") as folder:
        root = Path(os.path.realpath(folder))
        _write(root / path, text)
        choice = replace(choice, settings_of=place.parent, root=root)
        result, chosen = check_project((root / path,), settings, choice, progress)
    return replace(result, name=path.as_posix(), root=os.path.realpath(Path.cwd()), shown_root=""), chosen


def _write(file: Path, text: bytes) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text)
    except OSError as error:
        raise OutputError(f"Standard input could not be stored for the check: {error.strerror}.") from error
