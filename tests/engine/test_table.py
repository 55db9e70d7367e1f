"""Tests of what a file must have for a rule to look at it."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpu2npu.engine import ProjectContext
from gpu2npu.engine.required_texts import any_in, unanchored
from gpu2npu.engine.table import rule_table
from gpu2npu.formats.dispatch import migrate_file
from gpu2npu.kinds.setting import SettingMatch
from gpu2npu.rulebook import Rulebook, load_rulebook
from gpu2npu.support.cann import cann_for


@pytest.mark.parametrize(
    ("pattern", "found", "not_found"),
    [
        (r"^train:cu\d+$", b"x = 'train:cu1'\n", b"x = 'train:cpu'\n"),
        (r"\Aqueue\Z", b"x = 'queue'\n", b"x = 'cue'\n"),
        (r"(?:^|,)gx\b", b"x = 'gx'\n", b"x = 'gxx'\n"),
        (r"cost: \$5", b"x = 'cost: $5'\n", b"x = 'cost: 5'\n"),
        (r"[^$]x[$^]", b"x = 'ax$'\n", b"x = 'ax'\n"),
    ],
)
def test_a_string_has_its_ends_anywhere_in_a_file(pattern: str, found: bytes, not_found: bytes) -> None:
    assert any_in([unanchored(pattern, "")], found)
    assert not any_in([unanchored(pattern, "")], not_found)


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("a.py", "queue = 'train:cu2'\nother = 'my train:cu2'\n", "queue = 'train:np2'\nother = 'my train:cu2'\n"),
        ("a.yaml", "queue: train:cu2\nother: my train:cu2\n", "queue: train:np2\nother: my train:cu2\n"),
    ],
)
def test_a_pattern_bound_to_the_ends_of_a_string_is_applied(tmp_path: Path, path: str, before: str, after: str) -> None:
    rule = {
        "id": "queue",
        "why": "The queues of the NPUs have other names.",
        "match": {"pattern": r"^train:cu(\d)$"},
        "then": {"rename": r"train:np\1"},
        "examples": [{"before": "q = 'train:cu1'\n", "after": "q = 'train:np1'\n"}],
    }
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"rules": [rule]}))
    result = migrate_file(before.encode(), path, load_rulebook([rules]), ProjectContext(version="2.1.0"))
    assert result.content == after.encode()


def test_a_rule_for_settings_costs_nothing_where_its_keys_do_not_stand() -> None:
    rulebook = load_rulebook()
    setting = replace(rulebook.rules[0], id="own", match=SettingMatch("trainer.**.device", frozenset({"gpu"})))
    trigger = rule_table(Rulebook((setting,), rulebook.roles), "2.1.0").trigger
    assert trigger.is_in(b"c = {'trainer': {'device': 'gpu'}}\n")
    assert not trigger.is_in(b"c = {'trainer': {'device': 'cpu'}}\n")
    assert not trigger.is_in(b"c = {'device': 'gpu'}\n")


@pytest.mark.parametrize("version", ["2.1.0", "2.2.0", "2.7.1"])
@pytest.mark.parametrize("image", ["nvidia/cuda:12.1.0", "pytorch/pytorch:2.1.0-cuda12.1-cudnn8-devel"])
def test_an_image_with_cuda_is_reported_with_the_one_that_the_release_needs(version: str, image: str) -> None:
    context = ProjectContext(version=version)
    (finding,) = migrate_file(f"FROM {image}\n".encode(), "Dockerfile", load_rulebook(), context).findings
    assert f": {cann_for(version).image or 'quay.io/ascend/cann'} belongs to this torch_npu" in finding.message
