"""`gpu2npu --watch SRC`: the diff of a migration, shown anew whenever the project or a rule file is saved."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import click

from gpu2npu.cli.language import say
from gpu2npu.cli.migrate import show_diff
from gpu2npu.cli.signals import EndedBySignal
from gpu2npu.project.config import CONFIG_NAME
from gpu2npu.project.errors import UsageError
from gpu2npu.project.location import locate
from gpu2npu.project.settings import Settings
from gpu2npu.project.tree.discovery import discover

_SECONDS = 0.5
_REST = 5  # times as long as it takes to look at all files
# The time of the last change and the size of each file.
Stamps = Mapping[Path, tuple[int, int]]


def watch(source: Path, settings: Settings, quiet: bool, pause: Callable[[float], None] = time.sleep) -> int:
    """Show the diff again and again, until Ctrl-C; returns the exit code. `pause` waits for some seconds."""
    seen: Stamps = {}
    try:
        while True:
            started = time.perf_counter()
            seen = show_if_saved(source, settings, quiet, seen)
            pause(max(_SECONDS, _REST * (time.perf_counter() - started)))
    except KeyboardInterrupt:
        return 0
    except EndedBySignal as ended:
        if ended.number != signal.SIGINT:
            raise
        return 0


def show_if_saved(source: Path, settings: Settings, quiet: bool, seen: Stamps) -> Stamps:
    """Show the diff if files are not as they were `seen`; gives what they are now."""
    stamps = _stamps(source, settings)
    if stamps == seen:
        return seen
    if sys.stdout.isatty():
        click.clear()
    try:
        show_diff(source, settings, quiet)
    except UsageError as error:
        say(f"Error: {error}", err=True)
    if not quiet:
        say("Waiting for a file to be saved; Ctrl-C ends.", err=True)
    return stamps


def _stamps(source: Path, settings: Settings) -> Stamps:
    place = locate(source, settings)
    tree = discover(place.root, place.only)
    project = (place.root / path for path in (*tree.python, *tree.others))
    found = ((path, _stamp(path)) for path in (*project, place.root / CONFIG_NAME, *settings.rules))
    return {path: stamp for path, stamp in found if stamp is not None}


def _stamp(path: Path) -> tuple[int, int] | None:
    """The last change of a file, None where it is gone."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size
