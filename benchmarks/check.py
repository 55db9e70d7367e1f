"""The cost of `gpu2npu check` and `gpu2npu analyse` on projects that none of us wrote, in time and memory."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.archives import Package, fetch_package
from benchmarks.run import Run, run
from benchmarks.tree import measure

# Pinned, so that numbers can be compared. transformers as its source distribution: with its tests and examples.
PACKAGES = (
    Package(
        "timm",
        "1.0.31",
        "timm-1.0.31-py3-none-any.whl",
        "5bd50f7d0fe6d09bf9285ac2523234a1b7e6bf075c0be3e7aed09139fcb617c7",
    ),
    Package(
        "transformers",
        "5.23.0",
        "transformers-5.23.0.tar.gz",
        "19d647a4d5d903a7c644ca5cde2d86efc3dde7d8c687ae7988806ff2205efa71",
    ),
)
# Projects with many devices.
MIGRATED = (
    Package(
        "llamafactory",
        "0.9.5",
        "llamafactory-0.9.5-py3-none-any.whl",
        "10776e9b259798bf65f6c5343f6298f0302e92e9cd47472abe29eef69e286c6a",
    ),
    Package(
        "funasr",
        "1.4.16",
        "funasr-1.4.16-py3-none-any.whl",
        "f95943f6a8111349a1b08907363b048a49e9cb9caa1e3afd8c92970d08bf450d",
    ),
)
VERSION = "2.7.1"


MODES = ("torch_apis", "affinity_apis", "third_party", "dynamic_shape")


@dataclass(frozen=True)
class CheckCost:
    """The cost of a project of `files` Python files with `lines` lines: a check with an empty cache (`cold`), then with
    what that left (`cached`), and each analysis by its name."""

    name: str
    files: int
    lines: int
    cold: Run
    cached: Run
    analyses: dict[str, Run]


def large_projects(folder: Path, megatron: Path) -> list[tuple[str, Path]]:
    """The projects whose migration is measured, by name; fetched as those of `project_trees`."""
    return [("megatron-core", megatron), *((package.name, fetch_package(package, folder)) for package in MIGRATED)]


def project_trees(folder: Path, megatron: Path) -> list[tuple[str, Path]]:
    """The projects by name, fetched below `folder` where they are not yet. Raises ArchiveError."""
    return [("megatron-core", megatron), *((package.name, fetch_package(package, folder)) for package in PACKAGES)]


def measure_cost(name: str, tree: Path, scratch: Path) -> CheckCost:
    """Raises CalledProcessError when a command ends with another exit code than 0 and 1."""
    size = measure(tree)
    check = ["check", tree, "-v", VERSION, "-q", "--cache-dir", scratch / f"cache-{name}", "-o", "/dev/null"]
    cold, cached = _run(check), _run(check)
    analyses = {
        mode: _run(["analyse", "-i", tree, "-o", scratch / f"{name}-{mode}", "-v", VERSION, "-m", mode])
        for mode in MODES
    }
    return CheckCost(name, size.files, size.lines, cold, cached, analyses)


def _run(arguments: list[str | Path]) -> Run:
    return run([sys.executable, "-m", "gpu2npu", *arguments], accepted=(0, 1))


def format_costs(costs: list[CheckCost]) -> str:
    """Two lines a project."""
    return "\n".join(f"{_check_line(cost)}\n{_analyse_line(cost)}" for cost in costs)


def _check_line(cost: CheckCost) -> str:
    faster = cost.cold.seconds / cost.cached.seconds
    return (
        f"check {cost.name}: {cost.files:,} files, {cost.lines:,} lines; cold {_described(cost.cold, cost.lines)}; "
        f"cached {_described(cost.cached, cost.lines)} ({faster:.1f} times as fast)"
    )


def _analyse_line(cost: CheckCost) -> str:
    return f"analyse {cost.name}: " + "; ".join(
        f"{mode} {_described(run, cost.lines)}" for mode, run in cost.analyses.items()
    )


def _described(run: Run, lines: int) -> str:
    return f"{run.seconds:.1f} s, {lines / run.seconds:,.0f} lines/s, {run.peak / 1e9:.2f} GB"
