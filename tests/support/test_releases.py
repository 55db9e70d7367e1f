"""The facts of each release of torch_npu, and which release a version stands for."""

import json
import os
import re
from pathlib import Path

import pytest

from gpu2npu.support import releases
from gpu2npu.support.cann import cann_for
from gpu2npu.support.releases import (
    RELEASES,
    SECTIONS,
    TORCH_NPU,
    VERSIONS,
    autoloads,
    custom_operator,
    facts_digest,
    facts_of,
    first_release,
    first_with,
    from_on,
    has_fact,
    known_torch_npu,
    known_version,
    pytorch_of,
    release_of,
    released_with,
    since_when,
    torch_npu_releases,
    torch_npu_versions,
    unknown_torch_npu,
    unknown_version,
    version_key,
    versions_of,
)
from tools.wheel_facts.extract import npu_facts, provenance

# A folder of wheels from PyPI, where somebody has one: each is read again.
WHEELS = os.environ.get("TORCH_NPU_WHEELS")
ALL = torch_npu_releases()


@pytest.mark.parametrize("release", ALL, ids=lambda each: each.version)
def test_the_facts_of_each_wheel_reproduce(release):
    facts = facts_of(release.version)
    assert facts_digest(facts) == release.digest
    wheel = Path(WHEELS, release.wheel) if WHEELS else None
    if wheel is not None and wheel.exists():
        assert provenance(wheel)["sha256"] == release.sha256
        assert npu_facts(wheel) == facts


def test_every_release_of_pytorch_has_some_and_they_are_in_order():
    assert {release_of(each.version) for each in ALL} == set(RELEASES)
    assert [each.version for each in ALL] == sorted((each.version for each in ALL), key=version_key)
    assert versions_of("2.2.0") == ("2.2.0rc1", "2.2.0", "2.2.0.post2")
    assert all(each.wheel.startswith(f"torch_npu-{each.version}-") for each in ALL)
    assert len(ALL) >= 67


def test_a_release_holds_what_changed_and_nothing_twice():
    files = sorted(TORCH_NPU.glob("*.json"))
    assert len(files) == len(RELEASES)
    for entry in (each for path in files for each in json.loads(path.read_text())["releases"]):
        assert set(entry["new"]) | set(entry["gone"]) <= set(SECTIONS)
        for names in (*entry["new"].values(), *entry["gone"].values()):
            assert names == sorted(set(names)) and names
    assert sum(path.stat().st_size for path in files) < 200_000


@pytest.mark.parametrize(
    ("version", "known"),
    [
        ("2.1.0", "2.1.0.post17"),
        ("2.7.0", "2.7.1.post11"),
        ("2.7.1", "2.7.1.post11"),
        ("2.7.1.post2", "2.7.1.post2"),
        ("2.1.0.post0", "2.1.0.post0"),
        ("2.1.0rc1", "2.1.0rc1"),
        ("2.9.0", "2.9.0.post9"),
        ("2.9.1", "2.9.1"),
        ("2.9.7", "2.9.1"),
        ("2.13.0", "2.13.0"),
        ("1.11.0", "1.11.0"),
        ("2.1.0.post4", None),
        ("2.0.0", None),
        ("2.7", "2.7.1.post11"),
        ("2.9", "2.9.1"),
        ("1.11", "1.11.0"),
        ("2.99", None),
        ("2", None),
        ("", None),
        ("two", None),
    ],
)
def test_a_version_is_the_newest_of_its_release_unless_it_says_which(version, known):
    assert known_version(version) == known
    if known is not None:
        assert known_version(known) == known
    else:
        assert re.search("use one of|of this release there are", unknown_version(version))


@pytest.mark.parametrize(
    ("versions", "known"),
    [
        (("2.14.0rc1", "2.14.0rc2"), "2.14.0rc2"),
        (("2.14.0rc1", "2.14.0", "2.14.1rc1"), "2.14.0"),
        (("2.14.0", "2.14.0.post2", "2.14.1rc1"), "2.14.0.post2"),
        ((), None),
    ],
)
def test_a_release_candidate_counts_only_where_there_is_nothing_else(monkeypatch, versions, known):
    monkeypatch.setattr(releases, "versions_of", {"2.14.0": versions}.__getitem__)
    assert known_version.__wrapped__("2.14.0") == known_version.__wrapped__("2.14") == known


@pytest.mark.parametrize(
    ("version", "pytorch"),
    [
        ("2.1.0", "2.1.0"),
        ("2.1.0.post3", "2.1.0"),
        ("2.1.0rc1", "2.1.0"),
        ("2.7", "2.7.1"),
        ("1.11", "1.11.0"),
        ("2.99", "2.99"),
        ("newest", "newest"),
    ],
)
def test_the_pytorch_that_a_torch_npu_is_for(version, pytorch):
    assert pytorch_of(version) == pytorch


@pytest.mark.parametrize("version", ["2.7.1.post99", "2.7.1rc9"])
def test_the_sentence_about_an_unknown_wheel_lists_those_of_its_release(version):
    sentence = unknown_version(version)
    assert sentence.startswith(f"there is no torch_npu {version}; of this release there are 2.7.1rc1, 2.7.1, ")


@pytest.mark.parametrize("version", ["2.99", "2.0.0.post1", "2.1.post4", "two", ""])
def test_the_sentence_about_an_unknown_pytorch_lists_the_versions(version):
    assert unknown_version(version).startswith(f"PyTorch version {version!r} is not known; use one of 1.11.0, 2.1.0, ")


@pytest.mark.parametrize(
    ("version", "sentence"),
    [
        ("9.9", "there is no torch-npu 9.9; the nearest are 2.12.0.post3, 2.13.0, 2.14.0"),
        ("1.9", "there is no torch-npu 1.9; the nearest are 2.1.0, 2.1.0.post3, 2.1.0.post6"),
        ("2.14.0.post9", "there is no torch-npu 2.14.0.post9; of this release there are 2.14.0"),
        ("newest", "'newest' is not a version of torch-npu, such as 2.12.0.post3, 2.13.0, 2.14.0"),
    ],
)
def test_the_sentence_about_an_unknown_torch_npu(version, sentence):
    assert known_torch_npu(version) is None and unknown_torch_npu(version) == sentence


@pytest.mark.parametrize(
    ("version", "known"),
    [
        ("2.1.0", "2.1.0.post0"),
        ("2.1", "2.1.0.post17"),
        ("2.7.0", "2.7.1.post11"),
        ("2.14.0", "2.14.0"),
        ("2.1.0.post3", "2.1.0.post3"),
        ("3.0.0", None),
    ],
)
def test_a_version_of_torch_npu_alone_is_that_wheel(version, known):
    assert known_torch_npu(version) == known


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.11.0", False),
        ("2.4.0.post4", False),
        ("2.5.0", True),
        ("2.5.1", True),
        ("2.14.0", True),
        ("3.0.0", True),
    ],
)
def test_pytorch_loads_torch_npu_by_itself_from_2_5_on(version: str, expected: bool) -> None:
    assert autoloads(version) is expected


def test_since_when_a_release_has_something():
    assert not has_fact("2.1.0.post0", "torch.npu.mem_get_info") and not has_fact("1.11.0", "torch.npu.mem_get_info")
    assert has_fact("2.1.0.post3", "torch.npu.mem_get_info") and has_fact("2.1.0", "torch.npu.mem_get_info")
    assert first_with("torch.npu.mem_get_info", "1.11.0") == "2.1.0.post3"
    assert since_when("torch.npu.graph", "2.4.0.post2") == "torch.npu.graph is new in torch_npu 2.4.0.post4: "
    assert since_when("torch.npu.MemPool use_on_oom", "2.5.1").startswith("use_on_oom of torch.npu.MemPool is new")
    assert since_when("torch.npu.no_such_name", "2.5.1") == ""
    assert first_with("npu::npu_multi_head_attention_v2", "2.1") == "2.2.0"
    assert has_fact("1.11.0", "torch.npu.is_available")
    assert first_release().version == "2.1.0"
    assert "2.7.1.post11" in released_with("aten::_fused_adam_")
    assert has_fact("2.9.0.post0", "inert torch.npu.get_device_capability")
    assert not has_fact("2.9.0", "inert torch.npu.get_device_capability")


MEMORY, FUSED = "torch.npu.mem_get_info", "aten::_fused_adam_"


@pytest.mark.parametrize(
    ("facts", "version", "first"),
    [
        ([MEMORY], "2.1.0", "2.1.0.post3"),
        ([MEMORY, FUSED], "2.1.0", "2.1.0.post17"),
        ([MEMORY, FUSED], "2.1.0.post10", "2.1.0.post10"),
        ([FUSED], "2.9", "2.9.0.post9"),
        ([FUSED], "2.9.0", "2.9.0.post9"),
        ([MEMORY], "2.9.0", ""),
        ([MEMORY], "2.1.0.post0", ""),
        ([MEMORY], "2.1.0rc1", ""),
        ([MEMORY], "1.11.0", ""),
        ([MEMORY], "3.0.0", ""),
    ],
)
def test_the_wheel_from_which_on_a_release_has_something(facts, version, first):
    assert from_on(facts, version) == first


@pytest.mark.parametrize(
    ("name", "operator"),
    [
        ("npu_rotary_mul", "npu::npu_rotary_mul"),
        ("_npu_dropout_gen_mask", "npu::_npu_dropout_gen_mask.Tensor"),
        ("relu", None),
    ],
)
def test_an_operator_of_torch_npus_own_by_its_name(name, operator):
    assert custom_operator(name) == operator


def test_every_wheel_is_a_version_that_stands_for_itself():
    assert [known_version(each) for each in torch_npu_versions()] == list(torch_npu_versions())
    assert len(torch_npu_versions()) == len(ALL) and torch_npu_versions()[:3] == (
        "2.1.0rc1",
        "2.1.0.post0",
        "2.1.0.post3",
    )


def test_each_release_has_its_cann():
    assert cann_for("2.1.0.post10").version == "8.0.0"
    assert cann_for("2.1.0").image == "quay.io/ascend/cann:8.3.rc1-910b-ubuntu22.04-py3.11"
    unlisted = cann_for("2.14.0")
    assert (unlisted.version, unlisted.is_listed) == ("9.1.0", False)
    for version in (*VERSIONS, *torch_npu_versions()):
        assert cann_for(version).version
    with pytest.raises(ValueError, match="no CANN"):
        cann_for("2.0.0")
