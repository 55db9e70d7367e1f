"""`gpu2npu doctor`: a look at this machine, with the command that mends what is not as it should be."""

from __future__ import annotations

import json
from pathlib import Path

import click
from msgspec.structs import asdict

from gpu2npu.cli.language import cells, padded, say
from gpu2npu.doctor.ascend import ascend_lines
from gpu2npu.doctor.machine import CheckLine, Machine, ok
from gpu2npu.doctor.python_packages import package_lines
from gpu2npu.language import message, shown

EXIT_ERROR = 1
_CHECKS = (  # that are words; others are names
    *(message("machine"), message("kernels"), message("driver"), message("firmware"), message("devices")),
    *(message("visible devices"), message("versions"), message("packages of CANN")),
)
_LEVELS = {"ok": message("ok"), "warning": message("warning"), "error": message("error")}

_EPILOG = """\
\b
Examples:
  gpu2npu doctor                          this machine, with the Python that gpu2npu is installed in
  gpu2npu doctor --python /opt/conda/bin/python
  gpu2npu doctor --format json            for a script: check, level, message, remedy
  gpu2npu run gpu2npu doctor              the emulated machine

It reads files, and runs npu-smi; it imports neither torch nor torch_npu, and needs no NPU.

\b
Exit codes:
  0   no errors; with --strict no warnings either
  1   there are errors, each with the command that mends it
  2   the command line is wrong
"""


@click.command(epilog=_EPILOG)
@click.option("--python", type=click.Path(path_type=Path), metavar="FILE", help="The Python whose packages to check.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings, too.")
@click.pass_context
def doctor(ctx: click.Context, python: Path | None, form: str, strict: bool) -> None:
    """Look at this machine: are Python, torch, torch_npu, CANN, driver and NPUs ready, and do they go together?"""
    from gpu2npu.doctor.machine import MachineError, read_machine
    from gpu2npu.report.text import counted

    try:
        machine = read_machine(python=python)
    except MachineError as error:
        raise click.UsageError(f"{error}.") from None
    lines = examine(machine)
    counts = {level: sum(line.level == level for line in lines) for level in ("ok", "warning", "error")}
    if form == "json":
        click.echo(json.dumps({"emulated": machine.is_emulated, **counts, "lines": list(map(asdict, lines))}, indent=1))
    else:
        width = max(cells(shown(line.check)) for line in lines)
        for line in lines:
            click.echo(
                f"{padded(shown(_LEVELS[line.level]), 7)}  {padded(shown(line.check), width)}  {shown(line.message)}"
            )
            if line.remedy:
                click.echo(f"{'':<7}  {'':<{width}}  -> {shown(line.remedy)}")
        say(f"{counted(counts['error'], 'error')}, {counted(counts['warning'], 'warning')}, {counts['ok']} ok")
    ctx.exit(EXIT_ERROR if counts["error"] or (strict and counts["warning"]) else 0)


def examine(machine: Machine) -> list[CheckLine]:
    """Return the lines of every check, from the NPUs up to the packages of Python."""
    name = machine.architecture
    kind = f"{name}, emulated by `gpu2npu run`" if machine.is_emulated else f"{name}, a real machine"
    return [ok("machine", kind), *ascend_lines(machine), *package_lines(machine)]
