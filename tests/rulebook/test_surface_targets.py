"""Tests that what rules say about torch_npu is so in every release they are for, by the tables from its wheels."""

from __future__ import annotations

import ast
import json
import re
from importlib.metadata import distribution

import pytest

from gpu2npu.kinds.argument import ArgumentMatch
from gpu2npu.kinds.name import NameMatch
from gpu2npu.rulebook import Rule, load_rulebook
from gpu2npu.support.release_tables import CUDA_TABLE, has_npu_name, table_for
from gpu2npu.support.releases import VERSIONS, torch_npu_versions

NPU_NAME = re.compile(r"\b(?:torch_npu|torch\.npu)(?:\.[A-Za-z_]\w*)+")
RULES = load_rulebook().rules
TARGETS = [
    pytest.param(rule, name, id=f"{rule.id}-{name}")
    for rule in RULES
    for name in NPU_NAME.findall(f"{rule.then.rename or ''} {rule.then.replace or ''}")
]
MESSAGES = [
    pytest.param(name, id=f"{rule.id}-{name}")
    for rule in RULES
    if rule.then.report is not None
    for name in NPU_NAME.findall(rule.then.report.message)
]
# Rules that leave a name of torch.cuda alone and say that the NPU lacks it.
ABSENT = [
    rule
    for rule in RULES
    if isinstance(rule.match, NameMatch)
    and rule.match.name.startswith("torch.cuda.")
    and rule.then.rename is None
    and not rule.then.keep
]
# What is in modules of the wheels that the tables do not list.
ELSEWHERE = (
    "torch_npu.contrib.transfer_to_npu",
    "torch_npu.multiprocessing.reductions.rebuild_npu_tensor",
    "torch_npu.profiler._ExperimentalConfig",
    "torch_npu.utils.cpp_extension.NpuExtension",
)

# torch_npu takes these and ignores them, or means something else by them.
DELIBERATE = ("experimental_config", "use_cuda", "use_gzip")


def profiler_parameters() -> dict[str, set[str]]:
    """The parameters of what torch.profiler is called with, as its source has them: importing torch takes seconds."""
    source = distribution("torch").locate_file("torch/profiler/profiler.py").read_text(encoding="utf-8")
    defined = {node.name: node for node in ast.parse(source).body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    init = next(node for node in defined["profile"].body if getattr(node, "name", "") == "__init__")
    functions = {"profile": init, "tensorboard_trace_handler": defined["tensorboard_trace_handler"]}
    return {
        f"torch.profiler.{name}": {each.arg for each in (*node.args.args, *node.args.kwonlyargs)} - {"self"}
        for name, node in functions.items()
    }


OF_PROFILERS = profiler_parameters()
EVERY = (VERSIONS[0], *torch_npu_versions())


def claimed(rule: Rule) -> list[str]:
    return [version for version in EVERY if rule.applies_to(version)]


@pytest.mark.parametrize(("rule", "target"), TARGETS)
def test_the_target_is_in_every_release_of_the_rule(rule: Rule, target: str) -> None:
    assert claimed(rule)
    versions = claimed(rule) if target not in ELSEWHERE else ()
    assert [version for version in versions if not has_npu_name(table_for(version), target)] == []


@pytest.mark.parametrize("rule", ABSENT, ids=lambda rule: rule.id)
def test_what_is_called_absent_is_in_no_release_of_the_rule(rule: Rule) -> None:
    assert isinstance(rule.match, NameMatch)
    name = rule.match.name.replace("torch.cuda", "torch.npu")
    assert claimed(rule)
    assert [version for version in claimed(rule) if has_npu_name(table_for(version), name)] == []


@pytest.mark.parametrize("name", MESSAGES)
def test_what_a_message_recommends_exists(name: str) -> None:
    tables = [table_for(version) for version in EVERY]
    # torch_npu offers its custom operators as functions; a message may name a family of them, "npu_moe_*".
    operator = f"npu::{name.removeprefix('torch_npu.')}"
    operators = {each for table in tables for each in table.custom}
    known = operator in operators or (name.endswith("_") and any(each.startswith(operator) for each in operators))
    assert known or name in ELSEWHERE or any(has_npu_name(table, name) for table in tables)


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if rule.id.startswith("cuda-out-of-memory")], ids=lambda r: r.id
)
def test_the_exception_for_lack_of_memory_is_the_one_that_is_raised(rule: Rule) -> None:
    expected = rule.then.rename or "RuntimeError"
    assert {table_for(version).out_of_memory for version in claimed(rule)} == {expected}


@pytest.mark.parametrize("version", EVERY)
def test_what_does_nothing_has_a_finding(version: str) -> None:
    """A function of torch.npu that only warns and returns a constant must not be taken for its CUDA counterpart."""
    reported = {
        rule.match.name
        for rule in RULES
        if isinstance(rule.match, NameMatch) and rule.then.report is not None and version in claimed(rule)
    }
    inert = {name.replace("torch.npu", "torch.cuda") for name in table_for(version).inert}
    public = {name for name in inert if name.count(".") == 2}
    assert public <= reported


def counterpart(name: str) -> str:
    return name.replace("torch.cuda", "torch.npu").replace("torch.profiler", "torch_npu.profiler")


def argument_rules(version: str) -> dict[tuple[str, str | int], Rule]:
    return {
        (rule.match.of, rule.match.argument): rule
        for rule in RULES
        if isinstance(rule.match, ArgumentMatch) and version in claimed(rule)
    }


@pytest.mark.parametrize("version", EVERY)
def test_what_torch_npu_cannot_be_given_has_a_rule(version: str) -> None:
    """A keyword argument that PyTorch takes and torch_npu does not would be a TypeError after the renaming."""
    parameters, rules = table_for(version).parameters, argument_rules(version)
    # The keywords that torch.cuda's functions and classes take in some release; "**" stands for any others.
    of_cuda = {name: set(given) for name, given in json.loads(CUDA_TABLE.read_text())["parameters"].items()}
    refused = {
        (name, given)
        for name, known in {**of_cuda, **OF_PROFILERS}.items()
        if "**" not in (taken := parameters.get(counterpart(name), {"**"}))
        for given in known - taken - {"**"}
    }
    assert sorted(refused - rules.keys()) == []


@pytest.mark.parametrize("version", EVERY)
def test_arguments_are_changed_where_they_must_be(version: str) -> None:
    """No rule renames or takes out an argument that this release knows by its old name."""
    for (of, given), rule in argument_rules(version).items():
        taken = table_for(version).parameters.get(counterpart(of))
        if taken is not None and (rule.then.replace or rule.then.remove) and given not in DELIBERATE:
            assert given not in taken, rule.id


def test_there_is_something_to_prove() -> None:
    assert len(TARGETS) >= 30 and len(ABSENT) > 60 and len(MESSAGES) > 60
