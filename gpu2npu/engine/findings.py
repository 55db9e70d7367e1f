"""Merges the findings of several sources; nothing else does."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gpu2npu.records import Finding


def merged(
    findings: Iterable[Finding],
    further: Iterable[Finding] = (),
    is_answered: Callable[[Finding], bool] = lambda finding: False,
) -> tuple[Finding, ...]:
    """Findings, and the further ones that nothing answers, each once and in the order of the text."""
    retained = [finding for finding in further if not is_answered(finding)]
    return tuple(sorted(dict.fromkeys((*findings, *retained)), key=lambda each: (each.span, each.rule, each.api)))
