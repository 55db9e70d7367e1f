"""`make test-settings`: the suite under the settings in which machines differ, one after the other.

    python -m tools.run_settings --runs 5 omp-1 omp-8 -- tests/emulator

Settings are those of the number of threads, of the vector instructions that torch, oneDNN, MKL, OpenBLAS and NumPy
use, of a busy machine, and the other versions of Python, each in the environment that nox makes for it (noxfile.py).
Every run has another order of tests. Prints a table of the runs, with the seed of each that failed; its log is kept.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOGS = ROOT / ".test-settings"
PYTHONS = ("3.10", "3.12", "3.13")
BURN = "while True: pass"


@dataclass(frozen=True)
class Setting:
    """The settings of a run of the suite; `python` is the version of another Python."""

    name: str
    environment: dict[str, str] = field(default_factory=dict)
    python: str | None = None
    busy: bool = False


# `aten-` is about torch's own code; with `sse` and `avx2` every library takes that of older processors.
SETTINGS = [
    Setting("as-it-is"),
    *(Setting(f"omp-{threads}", {"OMP_NUM_THREADS": threads}) for threads in ("1", "2", "8")),
    *(Setting(f"aten-{name}", {"ATEN_CPU_CAPABILITY": name}) for name in ("default", "avx2")),
    Setting(
        "sse",
        {
            "ATEN_CPU_CAPABILITY": "default",
            "ONEDNN_MAX_CPU_ISA": "SSE41",
            "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
            "OPENBLAS_CORETYPE": "Prescott",
            "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4",
        },
    ),
    Setting(
        "avx2",
        {
            "ATEN_CPU_CAPABILITY": "avx2",
            "ONEDNN_MAX_CPU_ISA": "AVX2",
            "MKL_ENABLE_INSTRUCTIONS": "AVX2",
            "OPENBLAS_CORETYPE": "Zen",
            "NPY_DISABLE_CPU_FEATURES": "X86_V4",
        },
    ),
    Setting("busy", busy=True),
    *(Setting(f"python-{version}", python=version) for version in PYTHONS),
]


def main() -> int:
    """Run, print the table, and fail if a run failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.run_settings", description=__doc__)
    parser.add_argument("settings", nargs="*", metavar="SETTING", help=", ".join(each.name for each in SETTINGS))
    parser.add_argument("--runs", type=int, default=1, help="runs of each setting (1)")
    arguments, pytest = _split(sys.argv[1:])
    asked = parser.parse_args(arguments)
    known = {each.name: each for each in SETTINGS}
    if unknown := set(asked.settings) - known.keys():
        parser.error(f"no such setting: {', '.join(sorted(unknown))}; choose from {', '.join(known)}")
    LOGS.mkdir(exist_ok=True)
    failed = 0
    for setting in [known[name] for name in asked.settings] or SETTINGS:
        for number in range(asked.runs):
            passed, line = _run(setting, number, pytest)
            failed += not passed
            print(f"{setting.name:14} {number + 1:3}  {line}", flush=True)
    return 1 if failed else 0


def _split(arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Our arguments, and those of pytest after `--`."""
    if "--" not in arguments:
        return arguments, ["-n", "auto"]
    index = list(arguments).index("--")
    return arguments[:index], arguments[index + 1 :]


def _run(setting: Setting, number: int, pytest: Sequence[str]) -> tuple[bool, str]:
    """Run the suite with a setting; return whether it passes, and its last line, with seed and log if it fails."""
    with contextlib.ExitStack() as stack:
        if setting.busy:
            stack.enter_context(_busy_cores())
        environment = os.environ | setting.environment
        done = subprocess.run(
            _command(setting, pytest), cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
    text = done.stdout + done.stderr
    counted = re.findall(r"^.*\d (?:passed|failed|error).*$", text, re.MULTILINE)
    last = (counted or text.splitlines() or ["nothing was printed"])[-1]
    if done.returncode == 0:
        return True, last
    log = LOGS / f"{setting.name}-{number + 1}.txt"
    log.write_text(text)
    seed = re.findall(r"--randomly-seed=\d+", text)
    return False, f"{last}  {' '.join(seed[-1:])}  {log.relative_to(ROOT)}"


def _command(setting: Setting, pytest: Sequence[str]) -> list[str]:
    """The command that runs the suite; that of another Python fails where this Python is not installed."""
    if setting.python is None:
        return [sys.executable, "-m", "pytest", *pytest]
    nox = [sys.executable, "-m", "nox", "--error-on-missing-interpreters"]
    return [*nox, "--session", f"tests-{setting.python}", "--", *pytest]


@contextlib.contextmanager
def _busy_cores() -> Iterator[None]:
    """Keep every core busy meanwhile."""
    burning = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in burning:
            process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
