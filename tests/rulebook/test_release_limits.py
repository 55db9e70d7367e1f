"""A rule that is for some releases does nothing in the next release outside of them, whatever its examples show."""

from collections.abc import Iterator

import pytest

from gpu2npu.engine import ProjectContext
from gpu2npu.formats.dispatch import migrate_file
from gpu2npu.rulebook import Rule, load_rulebook
from gpu2npu.support.releases import RELEASES

RULEBOOK = load_rulebook(())


def outside() -> Iterator[tuple[Rule, str]]:
    """Each limited rule with the release before its first, and the one after its last."""
    for rule in RULEBOOK.rules:
        inside = [rule.applies_to(release) for release in RELEASES]
        if True in inside:
            first, last = inside.index(True), len(inside) - inside[::-1].index(True)
            yield from ((rule, release) for release in (*RELEASES[:first][-1:], *RELEASES[last:][:1]))


CASES = list(outside())


@pytest.mark.parametrize(("rule", "release"), CASES, ids=[f"{rule.id}-{release}" for rule, release in CASES])
def test_a_rule_does_nothing_outside_of_its_releases(rule: Rule, release: str) -> None:
    for example in rule.examples:
        migrated = migrate_file(example.before.encode(), example.file, RULEBOOK, ProjectContext(version=release))
        assert rule.id not in {entry.rule for entry in (*migrated.changes, *migrated.findings)}


def test_the_cases_are_many() -> None:
    assert len(CASES) > 80


@pytest.mark.parametrize(("release", "is_changed"), [("2.2.0", False), ("2.3.0", True)])
def test_a_gradient_scaler_without_a_device_is_known_from_torch_2_3_on(release: str, is_changed: bool) -> None:
    source = b"import torch\nscaler = torch.amp.GradScaler()\n"
    migrated = migrate_file(source, "a.py", RULEBOOK, ProjectContext(version=release))
    assert any(change.rule == "grad-scaler-device" for change in migrated.changes) is is_changed
