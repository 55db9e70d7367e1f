"""`python -m tools.emulator_coverage`: run PyTorch's tables on the emulated NPU, write the JSON and the document."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from tools.emulator_coverage import processes, report, tables
from tools.emulator_coverage.optimizers import STEPS
from tools.emulator_coverage.outcome import Outcome, read, save

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "emulator-coverage.md"
FULL = (
    ("op_db", "normal", "float32"),
    ("op_db", "strict", "float32"),
    ("op_db", "strict", "float16"),
    ("op_db", "strict", "bfloat16"),
    ("module_db", "normal", "float32"),
    ("optim_db", "normal", "float32"),
)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.emulator_coverage", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these entries only")
    parser.add_argument("--update", action="store_true", help="replace what was run again in the JSON and in docs/")
    parser.add_argument("--suite", choices=tables.SUITES, help="one suite only")
    parser.add_argument("--mode", choices=("normal", "strict"), help="one mode only")
    parser.add_argument("--dtype", choices=("float32", "float16", "bfloat16"), help="one dtype only")
    parser.add_argument("-j", "--jobs", type=int, default=2, help="worker processes (2)")
    parser.add_argument("--timeout", type=float, default=300, metavar="S", help="seconds an entry may take (300)")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "emulator-coverage.json", metavar="PATH")
    arguments = parser.parse_args()
    if arguments.update and not arguments.json.exists():
        parser.error(
            f"--update replaces entries of {arguments.json}, which is not there: run without it once, or give --json"
        )
    return arguments


def _report(outcome: Outcome) -> None:
    if outcome.reason == "unsupported":
        return
    verdict = "ok" if outcome.passed else f"FAILED {outcome.reason}"
    borrowed = f" [{', '.join(outcome.borrowed)}]" if outcome.borrowed else ""
    print(f"{outcome.name}: {verdict}{borrowed} ({outcome.seconds} s)", flush=True)


def _chosen(names: Sequence[str], only: Sequence[str] | None) -> list[str]:
    if not only:
        return list(names)
    return [name for name in names if name in only or name.partition(".")[0] in only or name.partition("#")[0] in only]


def main() -> None:
    """Run what the command line asks for."""
    arguments = _arguments()
    outcomes: list[Outcome] = []
    strict_passes: set[str] | None = None
    start = time.monotonic()
    for suite, mode, dtype in FULL:
        if arguments.suite not in (None, suite) or arguments.mode not in (None, mode):
            continue
        if arguments.dtype not in (None, dtype):
            continue
        names = _chosen([name for name, _ in tables.load(suite)], arguments.only)
        if dtype != "float32" and strict_passes is not None:
            names = [name for name in names if name in strict_passes]
        if not names:
            continue
        print(f"== {suite}, {mode} mode, {dtype}: {len(names)} entries", flush=True)
        done = processes.run_all(suite, mode, dtype, names, arguments.jobs, arguments.timeout, _report)
        done = [each for each in done if each.reason != "unsupported"]
        if (suite, mode, dtype) == ("op_db", "strict", "float32"):
            strict_passes = {each.name for each in done if each.passed}
        print(f"== {sum(each.passed for each in done)} of {len(done)} passed", flush=True)
        outcomes += done
    if arguments.update:
        fresh = {each.key: each for each in outcomes}
        outcomes = [fresh.pop(each.key, each) for each in read(arguments.json)] + list(fresh.values())
    save(outcomes, arguments.json)
    print(f"{arguments.json} written after {time.monotonic() - start:.0f} s")
    if arguments.update or not (arguments.only or arguments.suite or arguments.mode or arguments.dtype):
        DOCUMENT.parent.mkdir(exist_ok=True)
        DOCUMENT.write_text(report.document(outcomes, STEPS), encoding="utf-8")
        print(f"{DOCUMENT} written")


if __name__ == "__main__":
    main()
