"""`gpu2npu run`: a command, with the emulated NPU visible to it and to its children."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

import click

from gpu2npu.cli.language import say
from gpu2npu.cli.program_options import (
    PROGRAM_SETTINGS,
    check_program,
    check_requirements,
    check_soc,
    program_argument,
    soc_option,
)
from gpu2npu.emulator.launch import NPUS, Launch, LaunchError, emulating, prepare, real_torch_npu
from gpu2npu.emulator.machine.filesystem import ASCEND, show_ascend_files
from gpu2npu.support.releases import (
    RELEASES,
    known_torch_npu,
    known_version,
    release_of,
    unknown_torch_npu,
    wheel_version,
)

MOST_SCRIPT = 1 << 20  # bytes; what is larger is not a shell script

EPILOG = """
\b
Examples:
  gpu2npu run train.py --epochs 1
  gpu2npu run --npus 2 --strict -m torch.distributed.run --nproc_per_node 2 train.py
  gpu2npu run --soc Ascend910A --torch-npu 2.1.0 train.py
  gpu2npu run --shapes-only --plan plan.html train.py --batch-size 32
  gpu2npu run --op-report operators.csv bash run_distributed_npu.sh
  gpu2npu run npu-smi info

Options of gpu2npu come before CMD, and everything after CMD's first word belongs to CMD. The exit code is CMD's, 2 when
the options are wrong, 127 when CMD is not found and 126 when it may not be executed.
"""


@click.command(
    name="run",
    epilog=EPILOG,
    options_metavar="[OPTIONS]",
    context_settings=PROGRAM_SETTINGS,
)
@click.option(
    "--npus", type=click.IntRange(min=1), default=NPUS, show_default=True, metavar="N", help="How many NPUs CMD sees."
)
@soc_option
@click.option(
    "--torch-npu",
    metavar="VERSION",
    help="Which release of torch_npu they have, such as 2.7.1.post2; the newest for torch unless set.",
)
@click.option(
    "--op-report",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a CSV of the operators that ran: calls, seconds, what the NPU does with them, what computed them here.",
)
@click.option("--strict", is_flag=True, help="Make an operator without a NumPy kernel an error.")
@click.option(
    "--shapes-only",
    is_flag=True,
    help="Leave the arithmetic out: all checks, shapes and accounting of memory, in little memory and time.",
)
@click.option(
    "--value",
    "values",
    multiple=True,
    metavar="WHERE=NUMBER",
    help="With --shapes-only: the number that is read, instead of 0, on lines with this word, or on FILE:LINE.",
)
@click.option(
    "--plan",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With --shapes-only: write the forecast as JSON, or as a page if FILE ends in .html.",
)
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --shapes-only: end the program after N steps of an optimizer.",
)
@click.option(
    "--what-fits",
    is_flag=True,
    help="With --shapes-only: run CMD again with other values of its own options, for the largest batch that fits.",
)
@click.option(
    "--write-checkpoints",
    is_flag=True,
    help="With --shapes-only: write all files, also checkpoints, with zeros for what the NPU would compute.",
)
@click.option("--hide-real", is_flag=True, help="Emulate even though a real torch_npu is installed.")
@program_argument
def run(
    npus: int,
    soc: str,
    torch_npu: str | None,
    op_report: Path | None,
    strict: bool,
    shapes_only: bool,
    values: tuple[str, ...],
    plan: Path | None,
    steps: int | None,
    what_fits: bool,
    write_checkpoints: bool,
    hide_real: bool,
    command: tuple[str, ...],
) -> None:
    """Run CMD with emulated Ascend NPUs.

    CMD is a Python script, `-m module`, or any command. Scripts, modules and `python` run under the interpreter that
    gpu2npu is installed in. ASCEND_RT_VISIBLE_DEVICES hides NPUs, as on a real machine. `npu-smi` is on PATH, and shell
    scripts find /usr/local/Ascend and /opt/Ascend.
    """
    check_program(command)
    requested = None if torch_npu is None else known_torch_npu(torch_npu)
    if torch_npu is not None and requested is None:
        raise click.UsageError(f"--torch-npu: {unknown_torch_npu(torch_npu)}.")
    check_soc(soc, requested)
    needing_shapes = {"--value": values, "--plan": plan, "--steps": steps, "--what-fits": what_fits}
    _check_shapes_only(shapes_only, needing_shapes | {"--write-checkpoints": write_checkpoints})
    _check_values(values)
    _check_files({"--plan": plan, "--op-report": op_report})
    _check_installation(hide_real)
    note_release(Path(), requested or newest_release())
    if op_report is not None:
        _make_room(op_report)
    variables_for = functools.partial(
        emulating,
        os.environ,
        python=sys.executable,
        npus=npus,
        soc=soc,
        strict=strict,
        op_report=op_report,
        torch_npu=requested or newest_release(),
    )
    try:
        if shapes_only:
            shapes = functools.partial(
                variables_for, shapes_only=True, values=values, write_checkpoints=write_checkpoints
            )
            sys.exit(_forecast(command, shapes, plan, steps, what_fits, npus))
        launch = prepare(command, variables_for(), python=sys.executable)
        _start(launch)
    except LaunchError as error:
        say(f"Error: {error}.", err=True)
        sys.exit(error.exit_code)


def note_release(copy: Path, emulated: str) -> None:
    """Say where a migrated copy is for another release of PyTorch than the one whose NPU is emulated."""
    from gpu2npu.report.log import LOG_NAME  # takes longer to import than the rest, and most folders are no copy

    log = copy / LOG_NAME
    found = re.search(r"PyTorch (\d[\w.]*)", log.read_text("utf-8", errors="replace")[:1000]) if log.is_file() else None
    if found is not None and release_of(found[1]) != release_of(emulated):
        is_of = f"the emulated NPU is that of torch_npu {wheel_version(emulated)}"
        say(
            f"Note: this copy was migrated for PyTorch {found[1]}, and {is_of}, for the torch that is installed.",
            err=True,
        )


def newest_release() -> str:
    """The newest release of torch_npu for the installed torch; for an unknown torch the newest there is."""
    newest = RELEASES[-1]
    return known_version(version("torch").partition("+")[0]) or known_version(newest) or newest


def _forecast(
    command: tuple[str, ...],
    variables_for: Callable[..., dict[str, str]],
    plan: Path | None,
    steps: int | None,
    what_fits: bool,
    npus: int,
) -> int:
    """Run CMD without arithmetic, print and write the forecast, and return CMD's exit code."""
    from gpu2npu.cli.check.output import write
    from gpu2npu.forecast import runs, text

    def start(words: Sequence[str], folder: Path, most: int | None) -> Launch:
        return prepare(words, variables_for(plan=folder, steps=most), python=sys.executable)

    found = runs.forecast(command, start, steps, what_fits, npus)
    for line in text.lines(found):
        say(line, err=True)
    if plan is not None:
        write(runs.plan_text(found, plan), plan)
        say(f"The forecast is in {plan}.", err=True)
    return int(found["exit_code"])


def _check_shapes_only(shapes_only: bool, given: Mapping[str, object]) -> None:
    """Refuse an option that only a shapes-only run has."""
    for option, value in given.items():
        if value and not shapes_only:
            raise click.UsageError(f"{option} is for runs with --shapes-only.")


def _check_values(values: tuple[str, ...]) -> None:
    """Refuse values that no shapes-only run understands."""
    for each in values:
        where, _, number = each.rpartition("=")
        try:
            float(number)
        except ValueError:
            where = ""
        if not where or ";" in each:
            raise click.UsageError(f"--value {each}: give it as WORD=NUMBER or FILE:LINE=NUMBER, such as loss=1.0.")


def _check_installation(hide_real: bool) -> None:
    check_requirements()
    real = None if hide_real else real_torch_npu(sys.path)
    if real is not None:
        raise click.UsageError(
            f"A real torch_npu is installed in {real}: run CMD without `gpu2npu run`, or hide it with --hide-real."
        )


def _make_room(op_report: Path) -> None:
    """Remove the report of an earlier run: processes of this one add to the file."""
    try:
        op_report.unlink(missing_ok=True)
    except OSError as error:
        raise click.UsageError(f"--op-report {op_report}: {error.strerror}.") from None


def _check_files(given: Mapping[str, Path | None]) -> None:
    """Refuse files, by option, that cannot be written: `-` too, since CMD has standard output."""
    for option, path in given.items():
        if path == Path("-"):
            raise click.UsageError(f"{option} -: CMD writes to standard output; name a file.")
        if path is not None and not path.absolute().parent.is_dir():
            raise click.UsageError(f"{option} {path}: there is no folder {path.absolute().parent}.")


def _show_ascend_files(launch: Launch) -> None:
    """Shell scripts source and test files of Ascend; say what to do where they cannot be shown."""
    at_home = Path("~/Ascend").expanduser() if "HOME" in os.environ else None
    named = [(word, _text(word)) for word in launch.argv]
    missing = show_ascend_files(at_home if any(at_home and str(at_home) in text for _, text in named) else None)
    for place in missing:
        word = next((word for word, text in named if str(place) in text), None)
        if word is not None:
            link = f"ln -s {ASCEND} {place}" if os.access(place.parent, os.W_OK) else f"sudo ln -s {ASCEND} {place}"
            say(
                f"Note: {word} names {place}, which cannot be shown to CMD alone on this machine. Make it "
                f"once for all programs: `{link}`.",
                err=True,
            )
            return


def _text(word: str) -> str:
    """Return a word of the command, or the text of the script that it is, with the home folder as a path."""
    path, text = Path(word), word
    with contextlib.suppress(OSError, ValueError):
        if path.is_file():
            text = path.read_text("utf-8", errors="replace") if path.stat().st_size < MOST_SCRIPT else ""
    return re.sub(r"\$HOME\b|\$\{HOME\}|~(?=/)", lambda _: os.environ.get("HOME", "~"), text)


def _start(launch: Launch) -> NoReturn:
    """Become the command, so that signals reach it and its exit code is ours with nothing in between."""
    if Path(launch.program).name.removesuffix(".exe") != Path(sys.executable).name:
        _show_ascend_files(launch)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        if sys.platform == "win32":  # there exec returns to the shell before the command ends
            sys.exit(subprocess.call([launch.program, *launch.argv[1:]], env=launch.environment))
        os.execve(launch.program, launch.argv, launch.environment)
    except OSError as error:
        raise LaunchError(f"{launch.program}: {error.strerror}", 126) from None
