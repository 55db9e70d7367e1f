"""`make test-settings`: the suite under the settings in which machines differ, one after the other.

    python -m tools.run_settings --runs 5 omp-1 omp-8+aten-avx2 -- tests/emulator

Settings are those of the number of threads, of the vector instructions that torch, oneDNN, MKL, OpenBLAS and NumPy
use, of a busy machine, and the other versions of Python, each in the environment that nox makes for it (noxfile.py).
Settings joined by `+` hold in one run. Every run has another order of tests. Prints a table of the runs, with the seed
of each that failed, whose log is kept. With `--record FILE` each run is written to the file with the commit that it
ran on, and the runs of this commit that are there already are not run again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
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
    parser.add_argument("--record", type=Path, default=None, help="a file of runs, to go on after an interruption")
    arguments, pytest = _split(sys.argv[1:])
    options = parser.parse_args(arguments)
    try:
        settings = [combined(name) for name in options.settings] or SETTINGS
    except ValueError as error:
        parser.error(str(error))
    LOGS.mkdir(exist_ok=True)
    record = Record(options.record, _commit())
    for setting in settings:
        for number in range(len(record.of(setting.name)), options.runs):
            record.add(Run(setting.name, number + 1, *_run(setting, number, pytest)))
    return 1 if any(not run.passed for setting in settings for run in record.of(setting.name)) else 0


@dataclass(frozen=True)
class Run:
    """A run of the suite: its setting, its number from 1, and the last line that pytest printed."""

    setting: str
    number: int
    passed: bool
    line: str


class Record:
    """The runs on one commit: of this process, and of those before it that wrote to the same file."""

    def __init__(self, path: Path | None, commit: str) -> None:
        self._path, self._commit = path, commit
        self._runs: list[Run] = []
        for line in path.read_text().splitlines() if path is not None and path.exists() else ():
            entry = json.loads(line)
            if entry.pop("commit") == commit:
                self._print(Run(**entry))

    def add(self, run: Run) -> None:
        """Print a run and write it to the file."""
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps({"commit": self._commit, **asdict(run)}) + "\n")
        self._print(run)

    def of(self, setting: str) -> list[Run]:
        """Return the runs of a setting."""
        return [run for run in self._runs if run.setting == setting]

    def _print(self, run: Run) -> None:
        self._runs.append(run)
        print(f"{run.setting:22} {run.number:3}  {run.line}", flush=True)


def combined(name: str) -> Setting:
    """Return the setting of a name, or of several joined by `+`.

    Raises ValueError if a name is unknown, or two settings give one variable, or two versions of Python are named.
    """
    known = {each.name: each for each in SETTINGS}
    parts = name.split("+")
    if unknown := [part for part in parts if part not in known]:
        raise ValueError(f"no such setting: {', '.join(unknown)}; choose from {', '.join(known)}")
    settings = [known[part] for part in parts]
    variables = [variable for setting in settings for variable in setting.environment]
    pythons = [setting.python for setting in settings if setting.python]
    if len(set(variables)) < len(variables) or len(pythons) > 1:
        raise ValueError(f"{name}: these settings exclude each other")
    environment = {key: value for setting in settings for key, value in setting.environment.items()}
    return Setting(name, environment, pythons[0] if pythons else None, any(setting.busy for setting in settings))


def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


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
