"""Draw a sample of mutants, try each, and print what survives.

With `--record FILE` each verdict is written to the file, and mutants whose verdicts are there are not tried again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from tools.mutants.faults import Mutant, sample
from tools.mutants.judgement import Judge
from tools.mutants.warm_tests import EndedError

ROOT = Path(__file__).resolve().parents[2]
_OF_RULES = (
    *("tests/engine", "tests/kinds", "tests/rulebook", "tests/formats", "tests/codemods", "tests/analysis"),
    *("tests/cli/rules", "tests/project/test_explain.py"),
)
TESTS = {
    "gpu2npu/codemods": ("tests/codemods",),
    "gpu2npu/emulator/kernels": ("tests/emulator/kernels",),
    "gpu2npu/engine": _OF_RULES,
    "gpu2npu/kinds": _OF_RULES,
    "gpu2npu/support": ("tests/support", "tests/analysis"),
}


def tests_of(mutant: Mutant) -> tuple[str, ...]:
    """The folders whose tests have to find a mutant."""
    return next(tests for package, tests in TESTS.items() if mutant.path.startswith(package))


def recorded(record: Path | None) -> dict[str, bool]:
    """Return the verdicts in a file: whether each mutant survives."""
    if record is None or not record.exists():
        return {}
    return dict(json.loads(line) for line in record.read_text().splitlines())


def main() -> None:
    """Draw the sample, run the tests of each, and print what survives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", default=list(TESTS), help="folders to put faults into")
    parser.add_argument("--count", type=int, default=500, help="how many faults to draw (500)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (1)")
    parser.add_argument("--seconds", type=float, default=600, help="after which a test without a fault fails (600)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 2, help="how many to try at once (all cores)")
    parser.add_argument("--record", type=Path, default=None, help="a file of verdicts, to go on after an interruption")
    options = parser.parse_args()
    drawn = sample(ROOT, options.packages, options.count, options.seed)
    verdicts = recorded(options.record)
    rest = {number: mutant for number, mutant in enumerate(drawn) if str(mutant) not in verdicts}
    with tempfile.TemporaryDirectory(prefix="") as folder:
        try:
            for mutant, survives in _judged(rest, Path(folder), options) if rest else ():
                verdicts[str(mutant)] = survives
                _write(mutant, survives, options.record)
        except EndedError as error:
            sys.exit(f"{error}\nThe tests cannot be run without a fault: there is nothing to measure.")
    survivors = sum(verdicts[str(mutant)] for mutant in drawn)
    print(f"{survivors} of {len(drawn)} survived: {100 * survivors / max(1, len(drawn)):.1f} %")


def _judged(mutants: Mapping[int, Mutant], folder: Path, options: argparse.Namespace) -> Iterator[tuple[Mutant, bool]]:
    """Try mutants, by the folders whose tests have to find them; yield each with whether it survives."""
    judge = Judge(ROOT, folder, mutants, options.workers)
    for tests in sorted({tests_of(mutant) for mutant in mutants.values()}):
        numbers = [number for number, mutant in mutants.items() if tests_of(mutant) == tests]
        for number, survives in judge.verdicts(tests, numbers, options.seconds):
            yield mutants[number], survives


def _write(mutant: Mutant, survives: bool, record: Path | None) -> None:
    print(f"{'SURVIVED' if survives else 'killed'} {mutant}", flush=True)
    if record is not None:
        with record.open("a") as lines:
            lines.write(json.dumps([str(mutant), survives]) + "\n")


if __name__ == "__main__":
    main()
