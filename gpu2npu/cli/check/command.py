"""`gpu2npu check`: what will not work on an NPU and what it will cost, in a form that a CI can act on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpu2npu.cli.check import repositories as check_repos
from gpu2npu.cli.check.output import FORMATS, Shown, show
from gpu2npu.cli.check.repositories import Rollup
from gpu2npu.cli.file_options import (
    FilledPath,
    file_timeout_option,
    jobs_option,
    refuse_missing_package,
    report_option,
    torch_npu_option,
    write_report,
)
from gpu2npu.cli.language import prefer, say
from gpu2npu.cli.rules.options import rule_files, split_ids
from gpu2npu.language import message
from gpu2npu.language import shown as translated
from gpu2npu.near_names import did_you_mean

if TYPE_CHECKING:
    from gpu2npu.project.check.choice import CheckChoice
    from gpu2npu.project.settings import Settings
    from gpu2npu.report.check.result import CheckResult


# What --fail-on takes: a kind or a severity, each with what is worse, from the worst; "any" kind, or "never".
BARS = ("unsupported", "unknown", "fallback", "any", "blocker", "change", "environment", "advice", "note", "never")

_STDIN = Path("-")

_EPILOG = """\
\b
Examples:
  gpu2npu check .                                  check the current folder for the latest torch_npu
  gpu2npu check src tools/train.py -v 2.7.1 --fail-on change --format lines
  gpu2npu check . --soc 910A --soc Ascend910B2     what fails on one of these chips, too
  gpu2npu check . --cann 8.3.RC1                   for the torch_npu that belongs to the machine's CANN
  gpu2npu check . --format sarif -o gpu2npu.sarif  for code scanning; --format github annotates a pull request
  gpu2npu check . --format gitlab -o gl-code-quality-report.json
  git show HEAD:train.py | gpu2npu check -         a file from standard input
  gpu2npu check . --statistics                     the numbers of findings and edits by rule
  gpu2npu check . --baseline .gpu2npu-baseline.json --update-baseline    accept present findings, report new ones
  gpu2npu check --repos repositories.txt -j 8 --format html -o all.html --last last.jsonl
  gpu2npu check --repos repositories.txt --format csv --by cause -o causes.csv

The severities of findings, from the worst: blocker (cannot run, and nothing takes its place as it is), change (a line
to write), environment (a package, an image, a variable), advice (works, and could be better), note. Their kinds:
unsupported (does not work), unknown (no table knows it), fallback (runs on the CPU, slowly), review (a person has to
look). --fail-on fails for the severity or kind it names and the worse ones. Only blockers in the program itself make a
project "blocked": tests, examples, notebooks, docs, CI and imports inside functions count apart.

\b
Exit codes:
  0   clean: nothing at or above the bar of --fail-on
  1   findings at or above the bar, or a file that could not be read or parsed
  2   the command line, a path, a rule file or a baseline is wrong
"""


def _print_schema(ctx: click.Context, _option: click.Parameter, requested: bool) -> None:
    if requested:
        from gpu2npu.report.check.json import json_schema

        click.echo(json_schema(), nl=False)
        ctx.exit()


def _url(_ctx: click.Context, _option: click.Parameter, url: str | None) -> str:
    if url and (not url.startswith(("https://", "http://")) or any(character.isspace() for character in url)):
        raise click.BadParameter(f"{url!r} is not the address of a site, such as https://example.org/docs.")
    return url or ""


if TYPE_CHECKING:
    _Words = click.Choice[str]
else:
    _Words = click.Choice


class NearChoice(_Words):
    """As click's Choice, with a question at the end of its refusal where a word is near."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return str(super().convert(value, param, ctx))
        except click.BadParameter as error:
            hint = did_you_mean(str(value), self.choices)
            self.fail(f"{error.message} {hint[:1].upper()}{hint[1:]}".strip(), param, ctx)


@click.command(epilog=_EPILOG)
@click.argument("sources", nargs=-1, type=FilledPath(path_type=Path), metavar="SRC...")
@click.option(
    "--stdin-filename",
    "stdin_name",
    default="stdin.py",
    show_default=True,
    metavar="NAME",
    help="The file name of the text of SRC -, which decides its kind and its settings.",
)
@click.option(
    "-v",
    "--version",
    metavar="VERSION",
    help="The PyTorch version to check for, such as 2.7.1.  [default: that of the settings, or else the latest]",
)
@torch_npu_option
@click.option(
    "--cann",
    metavar="VERSION",
    help="The CANN that the machine has, such as 8.3.RC1: check for the torch_npu that belongs to it.",
)
@click.option(
    "--soc",
    "socs",
    multiple=True,
    metavar="CHIP",
    help="The chip to run on: 910A, 910B, 910_93, 310P or 950, or a name such as Ascend910B2. Repeatable."
    "  [default: those of the settings, or else 910B]",
)
@click.option(
    "--format",
    "form",
    type=NearChoice(dict.fromkeys((*FORMATS, *check_repos.FORMATS))),
    default="text",
    show_default=True,
    help="What to print: text has each cause once, lines each place; csv, parquet and excel are tables of --repos.",
)
@click.option(
    "--fail-on",
    type=NearChoice(BARS),
    default="unsupported",
    show_default=True,
    help="The least severity or kind of findings for exit code 1.",
)
@click.option(
    "--baseline", type=click.Path(path_type=Path), metavar="FILE", help="Known findings, which are not reported."
)
@click.option("--update-baseline", is_flag=True, help="Write all present findings into the file of --baseline.")
@click.option(
    "--select",
    multiple=True,
    metavar="RULE,...",
    help="Report only these rules; 'cuda-*' stands for all that begin with cuda-.",
)
@click.option("--ignore", multiple=True, metavar="RULE,...", help="Do not report these rules.")
@click.option(
    "-o", "--output", type=FilledPath(path_type=Path), metavar="FILE", help="Write there instead of printing."
)
@rule_files("rules")
@click.option("--exclude", multiple=True, metavar="PATTERN", help="Leave out files that match PATTERN. Repeatable.")
@jobs_option
@file_timeout_option
@click.option(
    "--repos",
    type=FilledPath(path_type=Path),
    metavar="LIST",
    help="Check each repository that the file LIST (- for standard input) names, one path a line; prints a line of JSON"
    " for each.",
)
@click.option(
    "--by",
    "rows",
    type=NearChoice(check_repos.ROWS),
    default="repository",
    show_default=True,
    help="With --repos: what a row of --format csv or parquet is. Excel has a sheet for each.",
)
@click.option(
    "--last",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="With --repos: the lines of JSON of the last run; html, csv, parquet and excel show the trend.",
)
@click.option(
    "--executor",
    metavar="URL",
    help="With --repos: where to work, dask://HOST:PORT or ray://HOST:PORT, instead of local processes.",
)
@click.option("--cache-dir", type=click.Path(path_type=Path), metavar="DIR", help="Where earlier answers are stored.")
@click.option("--no-cache", is_flag=True, help="Check every file again. The result is the same.")
@click.option(
    "--docs-url",
    metavar="URL",
    callback=_url,
    envvar="GPU2NPU_DOCS_URL",
    help="Where the pages of gpu2npu's docs/ are: SARIF links each rule to its own. {page} stands for the page "
    "of a site, https://example.org/docs/{page}.html.  [env: GPU2NPU_DOCS_URL]",
)
@click.option(
    "--schema",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_schema,
    help="Print the JSON Schema of --format json and of --repos, and end.",
)
@report_option
@click.option(
    "--add-skips",
    is_flag=True,
    help="Write `# gpu2npu: skip=RULE` at all findings in Python files of SRC, which are then no longer reported.",
)
@click.option("--statistics", is_flag=True, help="Print numbers by rule instead; --format text or json.")
@click.option("-q", "--quiet", is_flag=True, help="Print no progress and no notes.")
@click.pass_context
def check(
    ctx: click.Context,
    sources: tuple[Path, ...],
    stdin_name: str,
    version: str | None,
    torch_npu: str | None,
    cann: str | None,
    socs: tuple[str, ...],
    form: str,
    fail_on: str,
    baseline: Path | None,
    update_baseline: bool,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    output: Path | None,
    rules: tuple[Path, ...],
    exclude: tuple[str, ...],
    jobs: int | None,
    file_timeout: float,
    repos: Path | None,
    rows: str,
    last: Path | None,
    executor: str | None,
    cache_dir: Path | None,
    no_cache: bool,
    docs_url: str,
    report: str | None,
    add_skips: bool,
    statistics: bool,
    quiet: bool,
) -> None:
    """Check whether projects are ready for Ascend NPUs: what will not work there, and what it will cost.

    Reads SRC, folders or files, and writes nothing but the report. - is standard input.
    """
    from gpu2npu.cli.signals import end_cleanly_on_signals
    from gpu2npu.project.cache.store import default_cache_dir
    from gpu2npu.project.check.choice import CheckChoice, named_chips
    from gpu2npu.project.settings import Settings
    from gpu2npu.support.chips import other_meaning

    if cann is not None:
        torch_npu = _torch_npu_for(cann, version or "", torch_npu, quiet)
    settings = Settings(
        version=version or "",
        torch_npu=torch_npu or "",
        rules=rules,
        exclude=exclude,
        chips=named_chips(socs),
        jobs=jobs,
        file_timeout=file_timeout,
    )
    choice = CheckChoice(
        select=split_ids(select),
        ignore=split_ids(ignore),
        baseline=baseline,
        update_baseline=update_baseline,
        cache=None if no_cache else cache_dir or default_cache_dir(),
        diffs=form == "html" or (form == "json" and repos is None and not statistics),  # which shows the new code
    )
    for meaning in filter(None, map(other_meaning, () if quiet else socs)):
        say(f"Note: {meaning}.", err=True)
    end_cleanly_on_signals()
    refuse_missing_package(report)
    if report is not None and output in (None, _STDIN):
        raise click.UsageError(f"--report {report} needs -o PLACE, where the tables are written.")
    if report is not None and (repos is not None or form != "text" or statistics):
        raise click.UsageError("--report writes the tables of one check: give no --format, --repos or --statistics.")
    if repos is None:
        if executor is not None or last is not None or form not in FORMATS:
            option = "--executor" if executor is not None else "--last" if last is not None else f"--format {form}"
            raise click.UsageError(f"{option} is for --repos: one project is checked here.")
        if not sources:
            raise click.UsageError("SRC is missing: give the folder or file to check, such as '.'.")
        if add_skips and _STDIN in sources:
            raise click.UsageError("--add-skips writes into files: give a folder or a file, not standard input.")
        if add_skips and (output is not None or statistics):
            raise click.UsageError("--add-skips writes no report: give no -o or --statistics.")
        if _STDIN in sources and len(sources) > 1:
            raise click.UsageError("- is standard input, which is checked by itself: give no other SRC.")
        if statistics and form not in ("text", "json"):
            raise click.UsageError(f"--statistics has the formats text and json, not {form}.")
        ctx.exit(
            _check_one(
                sources,
                settings,
                choice,
                Shown(form, output, fail_on, docs_url, statistics, quiet, add_skips, report),
                stdin_name,
            )
        )
    if sources or baseline is not None or statistics or add_skips or form not in check_repos.FORMATS:
        known = ", ".join(check_repos.FORMATS)
        raise click.UsageError(
            f"--repos takes its paths from LIST, no baseline, --statistics or --add-skips, and the formats {known}."
        )
    if form in check_repos.FILES and output in (None, _STDIN):
        raise click.UsageError(f"--repos prints lines of JSON; give -o FILE for what --format {form} writes.")
    ctx.exit(check_repos.check_many(settings, choice, repos, Rollup(form, output, fail_on, rows, last), executor))


def _torch_npu_for(cann: str, version: str, torch_npu: str | None, quiet: bool) -> str:
    """Return the torch_npu for a CANN and a PyTorch, "" for any, and print how to install it. Raises UsageError."""
    from gpu2npu.support.cann import known_cann, no_pairing, pairings_for, unknown_cann

    if torch_npu is not None:
        raise click.UsageError("--cann chooses the torch_npu: give it without --torch-npu.")
    known = known_cann(cann)
    if known is None:
        raise click.UsageError(f"--cann: {unknown_cann(cann)}.")
    fitting = pairings_for(known, version)
    if not fitting:
        raise click.UsageError(f"--cann {cann}: {no_pairing(known, version)}.")
    if not quiet:
        say(f"Note: torch_npu {fitting[0].torch_npu} belongs to CANN {known}: {fitting[0].install}", err=True)
    return fitting[0].torch_npu


def _check_one(
    sources: tuple[Path, ...], settings: Settings, choice: CheckChoice, shown: Shown, stdin_name: str
) -> int:
    from gpu2npu.cli.console import progress_shown
    from gpu2npu.project.check.choice import settings_above
    from gpu2npu.project.check.session import check_project, check_text
    from gpu2npu.report.check.result import exit_code
    from gpu2npu.report.text import one_line

    prefer(settings_above(Path(stdin_name) if sources == (_STDIN,) else sources[0])[0].lang)
    with progress_shown(shown.quiet or not sys.stderr.isatty(), message("Checking")) as progress:
        if sources == (_STDIN,):
            result, chosen = check_text(sys.stdin.buffer.read(), stdin_name, settings, choice, progress)
        else:
            result, chosen = check_project(sources, settings, choice, progress)
    if not shown.quiet:
        if chosen:
            say(f"Note: no version is given; checked for the latest, {result.version} (-v).", err=True)
        for note in result.notes:
            if not note.failed:
                say(one_line(f"Note: {note.path}: {translated(note.reason)}"), err=True)
    if shown.add_skips:
        return _add_skips(result)
    if shown.tables is not None and shown.output is not None:
        from gpu2npu.report.frames import frames_of_check

        place = shown.output.with_suffix("") if shown.output.suffix == f".{shown.tables}" else shown.output
        write_report(lambda: frames_of_check(result), shown.tables, place, shown.quiet)
    else:
        show(result, shown)
    return exit_code([*result.severities.items(), *result.counts.items()], bool(result.failures), shown.bar)


def _add_skips(result: CheckResult) -> int:
    """Write comments at today's findings, and say where none can be."""
    from gpu2npu.project.check.baseline import add_skips
    from gpu2npu.report.check.result import EXIT_CLEAN
    from gpu2npu.report.text import counted

    written, left = add_skips(result)
    say(f"{counted(written, 'line')} marked with # gpu2npu: skip=RULE.")
    if left:
        say(f"No comment can be written at {', '.join(left)}: use --baseline for these.")
    return EXIT_CLEAN
