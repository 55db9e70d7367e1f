"""The published rule reference is the one the rules give."""

from __future__ import annotations

from pathlib import Path

from gpu2npu.rulebook import load_rulebook
from gpu2npu.rulebook.reference import reference


def test_the_page_is_up_to_date() -> None:
    page = Path(__file__).parents[2] / "docs" / "rules.md"
    assert page.read_text(encoding="utf-8") == reference(), "run `make docs`"


def test_every_rule_and_role_is_on_it() -> None:
    text = reference()
    rulebook = load_rulebook()
    assert all(f"### `{name}`" in text for name in [*rulebook.roles, *(rule.id for rule in rulebook.rules)])
