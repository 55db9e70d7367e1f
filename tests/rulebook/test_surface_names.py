"""Every public name of CUDA in PyTorch is renamed, mapped to another name, reported, or left for a stated reason."""

from __future__ import annotations

import importlib
import json
import pkgutil
import types
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from gpu2npu.engine import ProjectContext, migrate_source
from gpu2npu.rulebook import load_rulebook
from gpu2npu.support.release_tables import cuda_names
from gpu2npu.support.releases import VERSIONS

# The newest release of each PyTorch, and some older ones: their names differ most.
JUDGED = (*VERSIONS, "2.1.0.post10", "2.4.0.post0", "2.7.1.post0", "2.12.0.post0")
PACKAGES = ("torch.cuda", "torch.backends.cuda", "torch.backends.cudnn")
# The rule for whatever no other rule names. Its finding only says that the release lacks the name.
GENERAL_RULE = "torch-cuda"
REASONS: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("surface_ignored.json").read_text())
IGNORED = {name: reason for group in REASONS.values() for name, reason in group.items()}


def installed_names() -> Iterator[str]:
    """The public names of the installed torch, without what its modules import from elsewhere."""
    for package in PACKAGES:
        module = importlib.import_module(package)
        submodules = (f"{package}.{each.name}" for each in pkgutil.iter_modules(module.__path__))
        for name in (package, *(each for each in submodules if "._" not in each)):
            yield name
            yield from (f"{name}.{member}" for member in project_members(importlib.import_module(name), package))


def project_members(module: types.ModuleType, package: str) -> Iterator[str]:
    # torch.backends.cudnn is an instance of a class in place of the module, which it keeps as `m`.
    switches = vars(type(module)) if isinstance(getattr(module, "m", None), types.ModuleType) else {}
    for member in {*dir(getattr(module, "m", module)), *switches}:
        value = getattr(module, member, None)
        foreign = isinstance(value, types.ModuleType) and not value.__name__.startswith(package)
        origin = getattr(value, "__module__", None)
        if not (member.startswith("_") or foreign or (isinstance(origin, str) and not origin.startswith("torch"))):
            yield member


def is_public(name: str) -> bool:
    return not any(part.startswith("_") for part in name.split("."))


NAMES = sorted({name for name in (*installed_names(), *cuda_names()) if is_public(name)} - set(PACKAGES))


@cache
def judge(version: str) -> dict[str, str]:
    """For each name: renamed, mapped, reported, bare (the general rule's finding) or silent."""
    head = "import torch\n"
    source = head + "".join(f"_ = {name}\n" for name in NAMES)
    result = migrate_source(source.encode(), "names.py", load_rulebook(), ProjectContext(version=version))
    assert result.failure is None and result.content is not None
    after = [line for line in result.content.decode().splitlines() if not line.startswith("import ")]
    verdicts = dict.fromkeys(NAMES, "silent")
    for name, line in zip(NAMES, after, strict=True):
        new = line.removeprefix("_ = ")
        if new != name:
            verdicts[name] = "renamed" if new == name.replace("torch.cuda", "torch.npu") else "mapped"
    for finding in result.findings:
        name = NAMES[finding.span.start_line - 1 - head.count("\n")]
        if verdicts[name] in ("silent", "bare"):
            verdicts[name] = "bare" if finding.rule == GENERAL_RULE else "reported"
    return verdicts


@pytest.mark.parametrize("version", JUDGED)
def test_every_name_is_judged(version: str) -> None:
    left = {name for name, verdict in judge(version).items() if verdict in ("bare", "silent")}
    assert sorted(left - set(IGNORED)) == []


def test_what_is_ignored_needs_it() -> None:
    verdicts = [judge(version) for version in JUDGED]
    needed = {name for each in verdicts for name, verdict in each.items() if verdict in ("bare", "silent")}
    assert sorted(set(IGNORED) - needed) == []
    assert all(reason.endswith(".") and len(reason) > 20 for reason in IGNORED.values())


def test_the_names_are_those_of_torch() -> None:
    assert {"torch.cuda.amp.autocast", "torch.cuda.nvtx.range_push", "torch.cuda.memory.MemPool"} <= set(NAMES)
    assert {"torch.backends.cudnn.benchmark", "torch.backends.cuda.matmul", "torch.cuda.is_available"} <= set(NAMES)
    assert not {"torch.cuda.os", "torch.cuda.Any", "torch.cuda.lru_cache"} & set(NAMES)
    assert len(NAMES) > 350


@pytest.mark.parametrize("version", JUDGED)
def test_most_names_move_without_a_word(version: str) -> None:
    verdicts = list(judge(version).values())
    assert verdicts.count("renamed") > 100
    assert {"mapped", "reported"} <= set(verdicts)
