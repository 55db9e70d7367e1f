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
VERSION = "2.7.1"


MODES = ("torch_apis", "affinity_apis", "third_party", "dynamic_shape")


@dataclass(frozen=True)
class ProjectCost:
    """The cost of a project of `files` Python files with `lines` lines: a check with an empty cache (`cold`), then with
    what that left (`cached`), and each analysis by its name."""

    name: str
    files: int
    lines: int
    cold: Run
    cached: Run
    analyses: dict[str, Run]


def project_trees(folder: Path, megatron: Path) -> list[tuple[str, Path]]:
    """The projects by name, fetched below `folder` where they are not yet. Raises ArchiveError."""
    return [("megatron-core", megatron), *((package.name, fetch_package(package, folder)) for package in PACKAGES)]


def measure_project(name: str, tree: Path, scratch: Path) -> ProjectCost:
    """Raises CalledProcessError when a command ends with another exit code than 0 and 1."""
    size = measure(tree)
    check = ["check", tree, "-v", VERSION, "-q", "--cache-dir", scratch / f"cache-{name}", "-o", "/dev/null"]
    cold, cached = _run(check), _run(check)
    analyses = {
        mode: _run(["analyse", "-i", tree, "-o", scratch / f"{name}-{mode}", "-v", VERSION, "-m", mode])
        for mode in MODES
    }
    return ProjectCost(name, size.files, size.lines, cold, cached, analyses)


def _run(arguments: list[str | Path]) -> Run:
    return run([sys.executable, "-m", "gpu2npu", *arguments], accepted=(0, 1))


def format_projects(costs: list[ProjectCost]) -> str:
    """Two lines a project."""
    return "\n".join(f"{_check_line(cost)}\n{_analyse_line(cost)}" for cost in costs)


def _check_line(cost: ProjectCost) -> str:
    faster = cost.cold.seconds / cost.cached.seconds
    return (
        f"check {cost.name}: {cost.files:,} files, {cost.lines:,} lines; cold {_described(cost.cold, cost.lines)}; "
        f"cached {_described(cost.cached, cost.lines)} ({faster:.1f} times as fast)"
    )


def _analyse_line(cost: ProjectCost) -> str:
    return f"analyse {cost.name}: " + "; ".join(
        f"{mode} {_described(run, cost.lines)}" for mode, run in cost.analyses.items()
    )


def _described(run: Run, lines: int) -> str:
    return f"{run.seconds:.1f} s, {lines / run.seconds:,.0f} lines/s, {run.peak / 1e9:.2f} GB"
