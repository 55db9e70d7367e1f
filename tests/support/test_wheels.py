"""The shipped tables against the wheels on PyPI, read member by member, by other means than the extractor's."""

import re

import pytest

from gpu2npu.support.release_tables import table_for
from gpu2npu.support.releases import torch_npu_releases
from tools.api_map.wheels import Listed, listed, open_wheel
from tools.wheel_facts.extract import EXPOSED_OPERATORS, OPERATOR_FILES, REFUSED

FIRST_WORDS = re.compile(r"^\s*(?:- )?(?:func: )?([\w.]+)")


@pytest.fixture(scope="module")
def index() -> dict[str, Listed]:
    return {wheel.filename: wheel for wheel in listed("torch-npu")}


def sections(text: str) -> dict[str, set[str]]:
    """The operators of each list of an operator file, line by line."""
    found: dict[str, set[str]] = {}
    section = ""
    for line in text.splitlines():
        if heading := re.match(r"^(\w+):", line):
            section = heading[1]
        elif re.match(r"^\s*- (func: )?[\w.]+(\(|$)|^\s+func: [\w.]+", line):
            match = FIRST_WORDS.match(line)
            assert match is not None
            found.setdefault(section, set()).add(match[1])
    return found


def test_there_are_facts_of_every_release_on_pypi(index):
    on_pypi = {name.split("-")[1] for name in index}
    assert on_pypi == {each.version for each in torch_npu_releases()}


# One wheel of each kind: the first, a post release, a later minor release, the newest.
@pytest.mark.parametrize("release", ["2.1.0.post0", "2.1.0.post17", "2.7.1.post11", "2.14.0"])
def test_seven_facts_of_each_table_are_the_wheels(release, index):
    table = table_for(release)
    with open_wheel(index[table.wheel]) as archive:
        there = set(archive.namelist())
        text = {
            name: archive.read(name).decode() for name in (*OPERATOR_FILES, EXPOSED_OPERATORS, REFUSED) if name in there
        }
        npu = archive.read("torch_npu/npu/__init__.py").decode()
    listed_operators = [sections(text[name]) for name in OPERATOR_FILES]
    custom = set().union(*(each.get("custom", set()) for each in listed_operators))
    supported = set().union(*(each.get("supported", set()) for each in listed_operators)) - custom
    # 1 and 2: the operators, all of them
    assert {f"aten::{name}" for name in supported} == table.supported
    assert {f"npu::{name}" for name in custom} == table.custom
    # 3: those with a backward of torch_npu's own
    autograd = set().union(*(each.get("autograd", set()) for each in listed_operators))
    assert {f"aten::{name}" for name in autograd} == table.autograd
    # 4: the operators that torch_npu has under its own name
    exposed = set(re.findall(r"'(npu_\w+)'", text[EXPOSED_OPERATORS]))
    assert exposed and {f"torch_npu.{name}" for name in exposed} <= table.torch_npu_names
    # 5: the functions of torch.npu
    functions = set(re.findall(r"^def ([a-z]\w*)", npu, re.MULTILINE))
    assert {f"torch.npu.{name}" for name in functions} <= table.npu_names
    # 6: what torch_npu makes raise
    refused = {line.split('"')[1] for line in text.get(REFUSED, "").splitlines() if re.match(r'\s+"\w+": torch', line)}
    methods = {name.rpartition(".")[2] for name in table.refused}
    assert methods == refused - {"__init__"} | ({"DataParallel"} if "__init__" in refused else set())
    # 7: which file it is
    entry = next(each for each in torch_npu_releases() if each.wheel == table.wheel)
    assert entry.sha256 == index[table.wheel].sha256
