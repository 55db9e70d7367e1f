"""The migration that `gpu2npu -i SRC -o OUT -v VERSION` runs, and `--watch SRC`, which shows its diff anew whenever the
project or a rule file is saved. Imported only when there is something to migrate."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from gpu2npu.cli.bug_error import BugError, is_of_stdout
from gpu2npu.cli.console import progress_shown, show_outcome, write_diff
from gpu2npu.cli.file_options import refuse_missing_package, write_report
from gpu2npu.cli.language import prefer, say
from gpu2npu.cli.rules.options import split_ids
from gpu2npu.cli.signals import EndedBySignal, end_cleanly_on_signals
from gpu2npu.codemods.choice import CODEMODS, Codemod, CodemodChoice, CodemodError, imported
from gpu2npu.language import message, shown
from gpu2npu.project.config import CONFIG_NAME, read_config
from gpu2npu.project.errors import OutputError, UsageError
from gpu2npu.project.location import Output, locate
from gpu2npu.project.migration import migrate_project, preview_project
from gpu2npu.project.settings import Settings
from gpu2npu.project.tree.discovery import discover
from gpu2npu.python.text.source import declared_encoding
from gpu2npu.report.diff import unified_diff
from gpu2npu.report.summary import finding_lines, next_steps
from gpu2npu.support.releases import RELEASES

if TYPE_CHECKING:
    import pandas as pd

    from gpu2npu.records import Outcome


EXIT_COMPLETE = 0
EXIT_INCOMPLETE = 1


def carry_out(
    options: Mapping[str, Any],
    command: tuple[str, ...],
    choose_codemods: Callable[[Path], CodemodChoice] | None = None,
) -> int:
    """Run the migration that the options of `gpu2npu` ask for, and show what was done; returns the exit code.

    `command` is what run_distributed_npu.sh is to start, if that is known. `choose_codemods` chooses, for the source,
    which structural rewrites a mode asks for besides.
    """
    source, folder = _places(options, command)
    settings = _settings(options, source, choose_codemods)
    main, quiet, form = settings.codemods.main, options["quiet"], options["report"]
    refuse_missing_package(form)
    try:
        if options["watch"] is not None:
            return watch(source, settings, quiet)
        if folder is None:
            return show_diff(source, settings, quiet, options["findings"])
        started = command or (("python", main) if main is not None else ())
        output = Output(folder, options["force"], options["log_level"].lower(), started)
        end_cleanly_on_signals()
        with progress_shown(quiet) as progress:
            outcome, destination = migrate_project(source, settings, output, progress)
        if form is not None:
            place = destination.parent / f"{destination.name}_tables"
            write_report(lambda: frames_of(outcome), form, place, quiet)
        steps = next_steps(outcome, str(source), str(destination))
        show_outcome(outcome, str(destination), sys.stdout, quiet, steps)
    except (UsageError, OutputError, BrokenPipeError):
        raise
    except Exception as error:
        if is_of_stdout(error):
            raise
        raise BugError(error, traceback_wanted=options["log_level"].lower() == "debug") from error
    return EXIT_COMPLETE if outcome.complete else EXIT_INCOMPLETE


def frames_of(outcome: Outcome) -> dict[str, pd.DataFrame]:
    """The tables of a migration; pandas is loaded only for them."""
    from gpu2npu.report.frames import frames_of_migration

    return frames_of_migration(outcome)


def show_diff(source: Path, settings: Settings, quiet: bool, findings: bool = False) -> int:
    """Print the diff of the migration, and its findings if asked for; write nothing. Returns the exit code."""
    end_cleanly_on_signals()
    with progress_shown(quiet) as progress:
        preview = preview_project(source, settings, progress)
    for file in preview.outcome.files:
        if file.content is not None:
            before = preview.before[file.path]
            diff = unified_diff(file.path, before, file.content, _sections(file.path, before))
            write_diff(diff, declared_encoding(before))
    if findings:
        for place, words in finding_lines(preview.outcome):
            click.echo(f"{place}: {shown(words)}", err=True)
    show_outcome(preview.outcome, message("(nothing written)"), sys.stderr, quiet)
    return EXIT_COMPLETE if preview.outcome.complete else EXIT_INCOMPLETE


def _sections(path: str, source: bytes) -> list[tuple[int, str]]:
    """Return the first line and the name of each cell of a notebook; nothing for other files."""
    if not path.endswith(".ipynb"):
        return []
    from gpu2npu.formats.notebook import cell_lines

    return [(line, f"cell {number}") for number, line in cell_lines(source.decode("utf-8-sig"))]


def _places(options: Mapping[str, Any], command: tuple[str, ...]) -> tuple[Path, Path | None]:
    """The source, and the folder to write to, None where nothing is written. Raises click.UsageError."""
    source, output, watched = options["source"], options["output"], options["watch"]
    diff = options["diff"] or watched is not None
    if watched is not None and (source is not None or output is not None):
        raise click.UsageError("The option --watch takes the project itself and writes nothing: leave out -i and -o.")
    source = source if watched is None else watched
    if source is None:
        raise click.UsageError("The option -i/--input is missing: give the project's folder or .py file.")
    if output is None and not diff:
        raise click.UsageError(
            "The option -o/--output is missing: give the folder to write to, or --diff to write nothing."
        )
    if options["findings"] and not options["diff"]:
        raise click.UsageError("--findings is for --diff: a migration writes its findings to files.")
    if options["report"] is not None and diff:
        raise click.UsageError("--report writes files, and --diff and --watch write none.")
    if command and diff:
        option = "--diff" if watched is None else "--watch"
        raise click.UsageError(f"The command after -- is for run_distributed_npu.sh, and {option} writes nothing.")
    return source, None if diff else output


def _settings(
    options: Mapping[str, Any], source: Path, choose_codemods: Callable[[Path], CodemodChoice] | None
) -> Settings:
    given = Settings(
        version=options["version"] or "",
        torch_npu=options["torch_npu"] or "",
        rules=options["rules"],
        only_rules=split_ids(options["only_rules"]),
        skip_rules=split_ids(options["skip_rules"]),
        exclude=options["exclude"],
        skip_kinds=split_ids(options["skip_kinds"]),
        jobs=options["jobs"],
        file_timeout=options["file_timeout"],
    )
    settings = given.or_else(read_config(source))
    prefer(settings.lang)
    if not settings.version and options["watch"] is None:
        raise click.UsageError(
            "The option -v/--version is missing: give the PyTorch version the project is written for."
        )
    codemods = replace(
        choose_codemods(source) if choose_codemods is not None else settings.codemods,
        options={each.name: _requested(each, value) for each in CODEMODS if (value := options.get(each.name))},
    )
    # Rules that are tried are for the oldest version, as their examples.
    return replace(settings, codemods=codemods, version=settings.version or RELEASES[0])


def _requested(codemod: Codemod, given: Any) -> Any:
    """Return what a codemod takes of the value of its option. Raises click.UsageError."""
    if codemod.option is None or not codemod.option.reads:
        return given
    try:
        return imported(codemod.option.reads)(split_ids(given))
    except CodemodError as error:
        raise click.UsageError(str(error)) from error


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
