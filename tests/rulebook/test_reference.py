"""The published rule reference is the one the rules give."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpu2npu.rulebook import load_rulebook
from gpu2npu.rulebook.reference import reference

DOCS = Path(__file__).parents[2] / "docs"
PAGES = reference(load_rulebook())


def test_the_pages_are_up_to_date() -> None:
    written = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "rules").iterdir()}
    assert written.keys() == PAGES.keys(), "run `make docs`"
    assert [name for name, text in PAGES.items() if written[name] != text] == [], "run `make docs`"


def test_every_rule_and_role_has_its_place_and_the_index_leads_there() -> None:
    rulebook = load_rulebook()
    for rule in rulebook.rules:
        page = rule.file.replace(".json", ".md")
        assert f"\n## {rule.id}\n" in PAGES[page]
        assert f"]({page}#{rule.id})" in PAGES["index.md"]
    assert all(f"\n## {name}\n" in PAGES["roles.md"] for name in rulebook.roles)


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda path: path.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / link).exists(), link


def test_every_rule_about_a_package_or_container_says_where_its_state_is_from_and_when() -> None:
    of_containers = ("docker-gpus", "command-nvidia-docker", "env-nvidia-visible-devices", "singularity-nv")
    files = ("packages.json", "distributions.json")
    rules = [rule for rule in load_rulebook().rules if rule.file in files or rule.id in of_containers]
    assert len(rules) > 240
    assert [rule.id for rule in rules if not re.search(r"\S \(20\d\d-[01]\d\)$", rule.source)] == []
