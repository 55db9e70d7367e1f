"""Choosing rules by their ids."""

from __future__ import annotations

import pytest

from gpu2npu.rulebook import RuleError, load_rulebook
from gpu2npu.rulebook.load import select_rules

RULEBOOK = load_rulebook()


def test_all_some_and_all_but_some() -> None:
    everything = [rule.id for rule in RULEBOOK.rules]
    assert select_rules(RULEBOOK) is RULEBOOK
    only = select_rules(RULEBOOK, ["torch-cuda", "cuda-method"])
    assert [rule.id for rule in only.rules] == [id_ for id_ in everything if id_ in ("torch-cuda", "cuda-method")]
    rest = select_rules(RULEBOOK, skip=["torch-cuda"])
    assert [rule.id for rule in rest.rules] == [id_ for id_ in everything if id_ != "torch-cuda"]
    assert [rule.id for rule in select_rules(RULEBOOK, ["torch-cuda", "is-cuda"], ["is-cuda"]).rules] == ["torch-cuda"]
    assert only.roles == RULEBOOK.roles


@pytest.mark.parametrize(
    ("unknown", "hint"),
    [("torch-cud", "did you mean 'torch-cuda'"), ("zzz", "`gpu2npu rules list` shows them all."), ("", "rules list")],
)
def test_unknown_ids(unknown: str, hint: str) -> None:
    for arguments in ({"only": [unknown]}, {"skip": ["is-cuda", unknown]}):
        with pytest.raises(RuleError, match=f"No rule is called {unknown!r}; ") as caught:
            select_rules(RULEBOOK, **arguments)
        assert hint in str(caught.value)
