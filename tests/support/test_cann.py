"""The table of releases that go together, against the facts of torch_npu's wheels in support/data."""

import re
from itertools import pairwise

import pytest

from gpu2npu.support.cann import (
    cann_key,
    chip_problem,
    drivers_of,
    known_cann,
    no_pairing,
    pairings,
    pairings_for,
    pythons_of,
    unknown_cann,
)
from gpu2npu.support.releases import pytorch_of, torch_npu_releases, version_key

# COMPATIBILITY.en.md of torch_npu, its table for present releases and that for historical ones from 2.1 on: torch_npu,
# torch, CANN.
PUBLISHED = """
2.12.0 2.12.0 9.1.0, 2.11.0 2.11.0 9.1.0, 2.10.0.post4 2.10.0 9.1.0, 2.9.0.post6 2.9.0 9.1.0, 2.7.1.post8 2.7.1 9.1.0,
2.9.0.post2 2.9.0 9.0.0, 2.8.0.post4 2.8.0 9.0.0, 2.7.1.post4 2.7.1 9.0.0, 2.9.0 2.9.0 8.5.0, 2.8.0.post2 2.8.0 8.5.0,
2.7.1.post2 2.7.1 8.5.0, 2.6.0.post5 2.6.0 8.5.0, 2.8.0 2.8.0 8.3.RC1, 2.7.1 2.7.1 8.3.RC1, 2.6.0.post3 2.6.0 8.3.RC1,
2.1.0.post17 2.1.0 8.3.RC1, 2.6.0 2.6.0 8.2.RC1, 2.5.1.post1 2.5.1 8.2.RC1, 2.1.0.post13 2.1.0 8.2.RC1,
2.5.1 2.5.1 8.1.RC1, 2.4.0.post4 2.4.0 8.1.RC1, 2.3.1.post6 2.3.1 8.1.RC1, 2.1.0.post12 2.1.0 8.1.RC1,
2.4.0.post2 2.4.0 8.0.0, 2.3.1.post4 2.3.1 8.0.0, 2.1.0.post10 2.1.0 8.0.0, 2.4.0 2.4.0 8.0.RC3,
2.3.1.post2 2.3.1 8.0.RC3, 2.1.0.post8 2.1.0 8.0.RC3, 2.3.1 2.3.1 8.0.RC2, 2.2.0.post2 2.2.0 8.0.RC2,
2.1.0.post6 2.1.0 8.0.RC2, 1.11.0.post14 1.11.0 8.0.RC2, 2.2.0 2.2.0 8.0.RC1, 2.1.0.post4 2.1.0 8.0.RC1,
1.11.0.post11 1.11.0 8.0.RC1, 2.1.0 2.1.0 7.0.0, 2.0.1.post1 2.0.1 7.0.0, 1.11.0.post8 1.11.0 7.0.0,
2.1.0rc1 2.1.0 7.0.RC1, 2.0.1 2.0.1 7.0.RC1, 1.11.0.post4 1.11.0 7.0.RC1, 1.11.0.post3 1.11.0 6.3.RC3.1,
1.11.0.post2 1.11.0 6.3.RC3, 2.0.1rc1 2.0.1 6.3.RC2, 1.11.0.post1 1.11.0 6.3.RC2, 1.8.1.post2 1.8.1 6.3.RC2,
1.11.0 1.11.0 6.3.RC1, 1.8.1.post1 1.8.1 6.3.RC1, 1.5.0.post8 1.5.0 6.0.1, 1.8.1 1.8.1 6.0.1, 1.11.0rc2 1.11.0 6.0.1,
1.5.0.post7 1.5.0 6.0.RC1, 1.8.1rc3 1.8.1 6.0.RC1, 1.11.0rc1 1.11.0 6.0.RC1, 1.5.0.post6 1.5.0 5.1.RC2,
1.8.1rc2 1.8.1 5.1.RC2, 1.5.0.post5 1.5.0 5.1.RC1, 1.8.1rc1 1.8.1 5.1.RC1, 1.5.0.post4 1.5.0 5.0.4,
1.5.0.post3 1.8.1 5.0.3, 1.5.0.post2 1.5.0 5.0.2
"""


def test_each_published_pair_is_in_the_table():
    pairs = {tuple(row.split()) for row in PUBLISHED.split(",")}
    assert len(pairs) == 62
    assert pairs <= {(each.torch_npu, each.torch, each.cann) for each in pairings()}


def test_the_pythons_are_those_of_the_wheels_whose_facts_are_here():
    for release in torch_npu_releases():
        tag = re.search(r"-cp3(\d+)-", release.wheel)
        assert tag is not None
        assert f"3.{tag[1]}" in pythons_of(release.version), release.version
    assert {each.torch_npu for each in pairings() if each.pythons} <= {each.version for each in torch_npu_releases()}


def test_pairs_agree_with_the_wheels():
    """A torch_npu is for the torch of its number, a later post release never for an older CANN, and each CANN that PyPI
    has a finished torch_npu for has a driver."""
    wheels = {each.version for each in torch_npu_releases()}
    of_wheels = [each for each in pairings() if each.torch_npu in wheels]
    assert len(of_wheels) == 53
    for each in of_wheels:
        assert each.torch == pytorch_of(each.torch_npu)
    finished = [each for each in of_wheels if "rc" not in each.torch_npu]
    for earlier, later in pairwise(finished):
        assert version_key(earlier.torch_npu) < version_key(later.torch_npu)
        if earlier.torch == later.torch:
            assert cann_key(earlier.cann) <= cann_key(later.cann)
    assert all(each.drivers for each in finished)
    for each in finished:
        assert list(each.drivers) == sorted(each.drivers, key=cann_key)


@pytest.mark.parametrize(
    ("written", "known"),
    [
        ("8.3.RC1", "8.3.RC1"),
        ("CANN 8.2.rc1", "8.2.RC1"),
        ("8.3.RC1.beta1", "8.3.RC1"),
        ("8.2.RC1.1", "8.2.RC1"),
        ("9.0.1", "9.0.0"),
        ("9.1.0-beta.1", "9.1.0"),
        ("8.1.RC1.alpha002", "8.1.RC1.alpha002"),
        ("8.1.RC1.alpha001", None),
        ("8.2.RC2", None),
        ("8.2.0", None),
        ("7", None),
    ],
)
def test_a_version_of_cann_as_people_and_packages_write_it(written, known):
    assert known_cann(written) == known


def test_the_torch_npu_for_a_cann():
    assert [each.torch_npu for each in pairings_for("8.2.RC1")] == ["2.6.0", "2.5.1.post1", "2.1.0.post13"]
    (only,) = pairings_for("8.2.RC1", "2.1")
    assert only.install == (
        'pip install torch==2.1.0 torch-npu==2.1.0.post13 "numpy<2" pyyaml setuptools'
        " --extra-index-url https://download.pytorch.org/whl/cpu"
    )
    assert drivers_of("8.2.RC1") == ("25.2.0",)
    assert [each.torch_npu for each in pairings_for("9.1.0", "2.7")] == ["2.7.1.post10"]  # it has post8, too
    assert not any("rc" in each.torch_npu for each in pairings_for("8.5.0"))


def test_what_is_not_there_is_named_with_what_is_near():
    assert unknown_cann("8.2.RC2").endswith("the nearest are 8.1.RC1, 8.2.RC1, 8.3.RC1, 8.5.0")
    assert unknown_cann("10.0.0").endswith("the nearest are 8.3.RC1, 8.5.0, 9.0.0, 9.1.0")
    assert "is not a version of CANN" in unknown_cann("latest")
    assert no_pairing("8.3.RC1", "2.4").endswith("there is one for PyTorch 2.8.0, 2.7.1, 2.6.0, 2.1.0")
    assert no_pairing("6.3.RC2", "").endswith("Ascend's table names 1.8.1.post2, 1.11.0.post1, 2.0.1rc1")
    assert no_pairing("", "2.14") == "no table names a torch_npu on PyPI for PyTorch 2.14"


def test_a_chip_is_not_of_releases_before_it():
    assert chip_problem("2.7.1.post2", "950").endswith("torch_npu 2.7.1.post4 has it")
    assert "CANN 9.0.0" in chip_problem("2.5.1", "950")
    assert chip_problem("2.7.1.post4", "950") == chip_problem("2.1.0", "910B") == ""
