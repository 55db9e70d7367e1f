"""The parts of a rule that none of its examples shows."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from gpu2npu.rulebook.rule import Rule, Then


def unshown_acts(rule: Rule) -> Iterator[str]:
    """Yield what a rule does and no example shows; a few words each."""
    stated = replace(rule.then, report=None, trait=None, keep=False, needs_target=False, own_devices=False)
    edits = replace(stated, plugin=None) != Then()
    if edits and not any(example.before != example.after for example in rule.examples):
        yield "its edit"
    if rule.then.report is not None and not any(example.reports for example in rule.examples):
        yield "its finding"


def unshown_limits(rule: Rule) -> Iterator[str]:
    """Yield a few words where a rule is for some releases, and no example shows one outside of them."""
    if _is_limited(rule) and not any(_is_outside(rule, example.version) for example in rule.examples):
        yield "a release that it is not for"


def _is_limited(rule: Rule) -> bool:
    return any((rule.since, rule.until, rule.needs, rule.lacks))


def _is_outside(rule: Rule, version: str | None) -> bool:
    return version is not None and not rule.applies_to(version)
