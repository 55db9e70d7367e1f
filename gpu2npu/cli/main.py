"""`gpu2npu`: the command group, whose own options are the migration.

Nothing heavy is imported here: `gpu2npu --help` has to be instant.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from gpu2npu import __version__
from gpu2npu.cli.bug_error import BugError, is_of_stdout
from gpu2npu.cli.file_options import codemod_options, place_options, report_option, work_options
from gpu2npu.cli.language import Help, language_option, say
from gpu2npu.cli.lazy_group import LazyCommand, LazyGroup
from gpu2npu.cli.rules.options import rule_files
from gpu2npu.cli.signals import OWN_PROCESS, EndedBySignal
from gpu2npu.formats.kinds import OTHER_KINDS
from gpu2npu.language import of_locale, restored, use
from gpu2npu.project.errors import OutputError, UsageError

EXIT_USAGE = 2
EXIT_BUG = 70  # EX_SOFTWARE in sysexits.h
EXIT_OUTPUT = 74  # EX_IOERR
EXIT_INTERRUPTED = 130
_COMMANDS = {
    "analyse": LazyCommand("gpu2npu.cli.analyse", "analyse", "Find what an NPU lacks, and what is faster there."),
    "check": LazyCommand(
        "gpu2npu.cli.check.command", "check", "Check what will not work on an NPU, for people and CI."
    ),
    "distributed": LazyCommand("gpu2npu.cli.distributed", "distributed", "Migrate, and make one script train on many."),
    "doctor": LazyCommand("gpu2npu.cli.doctor", "doctor", "Look at this machine: is it ready for NPUs, what mends it?"),
    "review": LazyCommand("gpu2npu.cli.review", "review", "Migrate, and ask at each change whether to take it."),
    "rules": LazyCommand("gpu2npu.cli.rules.group", "rules", "Look at the rules, write your own, try them."),
    "run": LazyCommand("gpu2npu.cli.run", "run", "Run a command with an emulated NPU."),
    "server": LazyCommand("gpu2npu.cli.server", "server", "Show in an editor what `check` finds, as you type."),
    "verify": LazyCommand(
        "gpu2npu.cli.verify.command", "verify", "Compare a project with its migrated copy as both train."
    ),
    "versions": LazyCommand(
        "gpu2npu.cli.versions", "versions", "Show which torch, torch_npu, CANN and drivers go together."
    ),
}

# Commands that are a migration with more to it, and take its options.
_MODES = frozenset({"distributed"})

_EPILOG = """\
\b
Examples:
  gpu2npu -i resnet -o migrated -v 2.1.0          migrate the folder resnet into migrated/resnet_msft
  gpu2npu -i resnet -v 2.1.0 --diff | less        see the changes first, write nothing
  gpu2npu -i train.py -o migrated -v 2.1.0 -r my_rules.json
  gpu2npu -r my_rules.json --watch resnet         save a rule, see the diff
  gpu2npu -i resnet -o migrated -v 2.1.0 --skip-rules nccl-string,data-parallel
  gpu2npu -i resnet -o migrated -v 2.1.0 -s -sim -a model
                                                  the NPU from DEVICE_ID, equivalents, mixed precision
  gpu2npu -i llama -o migrated -v 2.7.1 --affinity safe
                                                  and call the NPU's fused operators
  gpu2npu -i resnet -o migrated -v 2.1.0 distributed -m train.py
  gpu2npu -i resnet -o migrated -v 2.1.0 -- python train.py --epochs 3
                                                  and a launcher that runs this command on every NPU

A project's own settings are in [tool.gpu2npu] of its pyproject.toml, or in gpu2npu.toml beside it: version, torch-npu,
rules, skip-rules, exclude, skip-kinds. The command line has precedence.

\b
Exit codes:
  0   everything was migrated
  1   some file could not be migrated or copied; it is listed with its reason
  2   the command line, a path or a rule file is wrong
  130, 143   ended by Ctrl-C or by SIGTERM; nothing was written
  137   killed 1.5 seconds later, in a step that takes no signals
"""


@click.group(
    cls=LazyGroup,
    lazy_commands=_COMMANDS,
    invoke_without_command=True,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@place_options(required=False)
@rule_files("rules")
@click.option(
    "--rules",
    "only_rules",
    multiple=True,
    metavar="ID,...",
    help="Apply only these rules. `gpu2npu rules list` shows their ids.",
)
@click.option("--skip-rules", multiple=True, metavar="ID,...", help="Do not apply these rules.")
@click.option(
    "--exclude",
    multiple=True,
    metavar="PATTERN",
    help="Copy files that match PATTERN, such as 'third_party' or 'tests/*.py', unchanged. Repeatable.",
)
@click.option(
    "--skip-kinds",
    multiple=True,
    metavar="KIND,...",
    help=f"Copy files of these kinds as they are: {', '.join(OTHER_KINDS)}.",
)
@codemod_options
@click.option("--diff", is_flag=True, help="Print the changes as a unified diff and write nothing; needs no -o.")
@click.option("--findings", is_flag=True, help="With --diff: list the findings too, each at its place.")
@click.option(
    "--watch",
    type=click.Path(path_type=Path),
    metavar="SRC",
    help="Print the changes to SRC, and again whenever a file of it or a rule file is saved; needs neither -i nor -o.",
)
@report_option
@work_options
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
    default="info",
    show_default=True,
    help="How detailed msFmkTranspltlog.txt in the output is.",
)
@click.version_option(
    __version__, "-V", prog_name="gpu2npu", message="%(prog)s %(version)s", help="Show gpu2npu's own version."
)
@click.pass_context
def cli(ctx: click.Context, /, **options: Any) -> None:
    """Migrate a PyTorch project from NVIDIA GPUs to Ascend NPUs, or run one on an emulated NPU.

    The migrated copy of SRC is written to OUT/<name>_msft, with a list of every change and of places to check.
    """
    if ctx.invoked_subcommand in _MODES:  # it takes the options before it
        return
    if ctx.invoked_subcommand is not None:
        _refuse_options_before(ctx, ctx.invoked_subcommand)
        return
    if not _given_options(ctx) and not ctx.args:
        click.echo(ctx.get_help())
        return
    from gpu2npu.cli.migrate import carry_out

    ctx.exit(carry_out(options, tuple(ctx.args)))


cli.params.append(language_option)
click.Context.formatter_class = Help


def _ended(number: int, _frame: object) -> NoReturn:
    """Ends a command that has begun nothing yet: those that have put a handler of their own here."""
    raise EndedBySignal(number)


def _given_options(ctx: click.Context) -> list[str]:
    """The names of the options that are on the command line."""
    by_user = click.core.ParameterSource.COMMANDLINE
    return [
        option.opts[0]
        for option in ctx.command.params
        if option.name not in (None, language_option.name) and ctx.get_parameter_source(option.name) is by_user
    ]


def _refuse_options_before(ctx: click.Context, command: str) -> None:
    given = _given_options(ctx)
    if given:
        raise click.UsageError(f"The option {given[0]} belongs to the migration and has no meaning before '{command}'.")


@restored()
def main() -> NoReturn:
    """The entry point: every way to fail is one sentence on stderr and an exit code of its own."""
    for stream in (sys.stdout, sys.stderr):
        # A path that the terminal's encoding cannot show is not a reason to fail.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        use(of_locale())
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _ended)
        if hasattr(signal, "pthread_sigmask"):  # those that have waited since the start of the process
            signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))
        result = cli.main(prog_name="gpu2npu", standalone_mode=False, obj=OWN_PROCESS)
        if not sys.stdout.closed:  # as the language server leaves it
            sys.stdout.flush()
    except click.ClickException as error:
        _exit(error.format_message(), error.exit_code)
    except UsageError as error:
        _exit(str(error), EXIT_USAGE)
    except OutputError as error:
        _exit(str(error), EXIT_OUTPUT)
    except EndedBySignal as ended:
        _exit(str(ended), ended.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _exit("Interrupted.", EXIT_INTERRUPTED)
    except BugError as error:
        _exit(str(error), EXIT_BUG)
    except Exception as error:
        if is_of_stdout(error):
            _leave_stdout()
            _exit(f"Standard output could not be written: {os.strerror(errno.ENOSPC)}.", EXIT_OUTPUT)
        _exit(str(BugError(error, traceback_wanted=False)), EXIT_BUG)
    sys.exit(result if isinstance(result, int) else 0)


def _leave_stdout() -> None:
    """Send what is left in the buffer nowhere: Python would fail at it again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _exit(message: str, code: int) -> NoReturn:
    say(f"Error: {message}", err=True)
    sys.exit(code)
