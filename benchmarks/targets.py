"""The cost of migrating and checking large projects beside bare parsing and PaConvert, and what each may take.

Ratios are of seconds of the processors, which other work on the machine changes least; a project's contestants run one
after the other, so that a busy moment meets them all.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.run import Run, run

VERSIONS = ("2.1.0", "2.7.1")
_GPU2NPU: tuple[str | Path, ...] = (sys.executable, "-m", "gpu2npu")
_PARSING = Path(__file__).with_name("parse_tree.py")
# Exit code 1 says that some file could not be migrated, or that there are findings.
_DONE = (0, 1)
_SMALL = {
    "train.py": "import torch\nfrom model import Net\n\nnet = Net().cuda()\ntorch.cuda.synchronize()\n",
    "model.py": "from torch import nn\n\n\nclass Net(nn.Module):\n    pass\n",
}
_RECORDS = 4_000
_SIDE = 80
_MODULE_LINES = 100


@dataclass(frozen=True)
class ProjectCost:
    """One round on a project for a version: seconds of bare parsing by both parsers, the migration with one process,
    checks with an empty cache, with what that left, and after a comment was added to one file, and PaConvert's run if
    it had its turn."""

    name: str
    version: str
    ast: float
    libcst: float
    migration: Run
    cold: Run
    cached: Run
    changed: Run
    paconvert: Run | None = None


@dataclass(frozen=True)
class Target:
    """One line: what is measured, its value in seconds of the processors or gigabytes, and the target."""

    name: str
    value: float
    required: float
    unit: str = "s"


def measure_project(
    name: str, tree: Path, version: str, scratch: Path, paconvert: Callable[[], Run] | None = None
) -> ProjectCost:
    """Measure one round. Raises CalledProcessError when a command fails."""
    copy, cache = scratch / "changed", scratch / "cache"
    for folder in (copy, cache):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(tree, copy)
    ours = _migration(tree, scratch, version)
    parsed = [parse_seconds(parser, tree) for parser in ("ast", "libcst")]
    cold, cached = (_check(copy, version, cache) for _ in range(2))
    file = max(copy.rglob("*.py"), key=lambda path: (b"torch" in path.read_bytes(), -path.stat().st_size))
    file.write_bytes(file.read_bytes() + b"\n# changed\n")
    changed = _check(copy, version, cache)
    return ProjectCost(
        name, version, parsed[0], parsed[1], ours, cold, cached, changed, paconvert() if paconvert else None
    )


def parse_seconds(parser: str, tree: Path) -> float:
    """Seconds of the processor that bare parsing of a tree takes. Raises CalledProcessError."""
    command = [sys.executable, _PARSING, parser, tree]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def format_projects(costs: Sequence[ProjectCost]) -> str:
    """A line for each project and version, of medians over its rounds."""
    header = ["", "", "ast s", "libcst s", "ours s", "x ast", "x libcst", "PaConvert x", "cold", "cached", "changed"]
    cells = [header]
    for name, version in dict.fromkeys((each.name, each.version) for each in costs):
        rounds = [each for each in costs if (each.name, each.version) == (name, version)]
        ast, libcst, ours, cold, cached, changed = (
            statistics.median(seconds(each) for each in rounds) for seconds in _SECONDS
        )
        peers = [each.paconvert.cpu for each in rounds if each.paconvert is not None]
        faster = f"{statistics.median(peers) / ours:.1f}" if peers else "-"
        numbers = (ast, libcst, ours, ours / ast, ours / libcst)
        checks = (f"{each:.2f}" for each in (cold, cached, changed))
        cells.append([name, version, *(f"{each:.2f}" for each in numbers), faster, *checks])
    return _aligned(cells)


_SECONDS: tuple[Callable[[ProjectCost], float], ...] = (
    lambda cost: cost.ast,
    lambda cost: cost.libcst,
    lambda cost: cost.migration.cpu,
    lambda cost: cost.cold.cpu,
    lambda cost: cost.cached.cpu,
    lambda cost: cost.changed.cpu,
)


def measure_targets(large: Path, scratch: Path, rounds: int) -> list[Target]:
    """Measure what has a target of its own, `large` by a cold check. Raises CalledProcessError when a command fails."""
    cold = [_check_anew(large, scratch) for _ in range(rounds)]
    return [
        Target(f"cold check of {large.name}, 2 processes, by the clock", _median(cold, lambda each: each.seconds), 15),
        Target("memory of its largest process", max(each.peak for each in cold) / 1e9, 0.3, "GB"),
        Target("cached check of a small project", _cpu(rounds, lambda: _cached(scratch)), 0.25),
        Target("check of one small file, no cache", _cpu(rounds, lambda: _one_file(scratch)), 0.5),
        Target('1.5 MB of JSON with one "cuda" in it', _cpu(rounds, lambda: _of_json(scratch)), 0.2),
        Target(f"{_SIDE} scripts that load {_SIDE} modules each", _cpu(rounds, lambda: _of_scripts(scratch)), 2.5),
    ]


def _median(runs: Sequence[Run], value: Callable[[Run], float]) -> float:
    return statistics.median(map(value, runs))


def _cpu(rounds: int, measured: Callable[[], float]) -> float:
    return statistics.median(measured() for _ in range(rounds))


def _migration(tree: Path, scratch: Path, version: str) -> Run:
    out = scratch / "out"
    result = run([*_GPU2NPU, "-i", tree, "-o", out, "-v", version, "-q", "-j", "1"], accepted=_DONE)
    shutil.rmtree(out)
    return result


def paconvert_run(paconvert: Path, tree: Path, scratch: Path) -> Run:
    """A run of PaConvert on a tree that it can read. Raises CalledProcessError when it fails."""
    out = scratch / "paddle"
    result = run([paconvert, "--in_dir", tree, "--out_dir", out, "--no_format"], cwd=scratch)
    shutil.rmtree(out)
    return result


def _check(tree: Path, version: str, cache: Path, jobs: int = 1) -> Run:
    options: list[str | Path] = ["-v", version, "-q", "-j", str(jobs), "--cache-dir", cache, "-o", "/dev/null"]
    return run([*_GPU2NPU, "check", tree, *options], accepted=_DONE)


def _check_anew(tree: Path, scratch: Path) -> Run:
    shutil.rmtree(scratch / "large-cache", ignore_errors=True)
    return _check(tree, "2.7.1", scratch / "large-cache", jobs=2)


def _written(folder: Path, files: Iterator[tuple[str, str]]) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, text in files:
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def _cached(scratch: Path) -> float:
    small = _written(scratch / "small", iter(_SMALL.items()))
    return [_check(small, "2.7.1", scratch / "small-cache") for _ in range(2)][1].cpu


def _one_file(scratch: Path) -> float:
    small = _written(scratch / "one", iter(list(_SMALL.items())[:1]))
    return run([*_GPU2NPU, "check", small / "train.py", "-v", "2.7.1", "-q"], accepted=_DONE).cpu


def _of_json(scratch: Path) -> float:
    """Return what a project takes more with a list of records, one of which names a device."""
    records = [{"text": f"the record with the number {each} " + "of a list " * 30} for each in range(_RECORDS)]
    records[_RECORDS // 2]["text"] = "it runs on cuda"
    plain = _written(scratch / "plain", iter(_SMALL.items()))
    data = _written(scratch / "data", iter([*_SMALL.items(), ("records.json", json.dumps(records))]))
    return _migration(data, scratch, "2.1.0").cpu - _migration(plain, scratch, "2.1.0").cpu


def _of_scripts(scratch: Path) -> float:
    return _migration(_written(scratch / "scripts", _scripts_and_modules()), scratch, "2.1.0").cpu


def _scripts_and_modules() -> Iterator[tuple[str, str]]:
    """As many scripts as modules, each of which every script loads; one module has a device."""
    loads = "".join(f"import part{each}\n" for each in range(_SIDE))
    for number in range(_SIDE):
        yield f"script{number}.py", f'{loads}\nif __name__ == "__main__":\n    part{number}.f0(1)\n'
        device = "import torch\nD = torch.device('cuda')\n" if number == 0 else "import math\n"
        yield (
            f"part{number}.py",
            device + "".join(f"def f{each}(x):\n    return x + {each}\n" for each in range(_MODULE_LINES // 2)),
        )


def format_targets(targets: Sequence[Target]) -> str:
    """The lines as aligned text."""
    lines = [[each.name, f"{each.value:.2f}", f"{each.required:g}", each.unit] for each in targets]
    return _aligned([["", "measured", "asked", ""], *lines])


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    """Text with the first column at the left, the others at the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip() for line in lines
    )
