"""Many repositories as one web page: what blocks how many, whose they are, and each with its verdict and cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpu2npu.language import message, shown
from gpu2npu.report.check.html import SHARES, VERDICT_WORDS, shares_of, shares_of_all
from gpu2npu.report.check.result import CheckedRepository, Verdict
from gpu2npu.report.check.rollup import LastRun, by_cause, by_owner, by_package, trend
from gpu2npu.report.text import counted
from gpu2npu.report.webpage import render

_TRENDS = (message("better"), message("worse"), message("new"))
_MOST = 100  # causes that the page shows


def rollup_page(
    repositories: Sequence[CheckedRepository],
    pages: Mapping[str, str],
    last: Mapping[str, LastRun],
) -> str:
    """`pages` are addresses of the repositories' own pages, by path; `last` is what the last run said of each."""
    checked = [each.readiness for each in repositories if each.readiness is not None]
    counts = {verdict: sum(each.verdict is verdict for each in checked) for verdict in Verdict}
    costly = sorted(repositories, key=lambda each: (-(each.readiness.effort.high if each.readiness else 0), each.path))
    causes, owners = by_cause(repositories), by_owner(repositories)
    trends = {each.path: trend(each, last) for each in repositories} if last else {}
    low, high = (sum(getattr(each.effort, side) for each in checked) for side in ("low", "high"))
    return render(
        "rollup.html",
        title=shown(f"{counted(len(repositories), 'repository', 'repositories')} on an NPU"),
        rows=[(each, VERDICT_WORDS[each.readiness.verdict] if each.readiness else "") for each in costly],
        verdicts=[(VERDICT_WORDS[verdict], verdict.value, count) for verdict, count in counts.items()],
        failed=len(repositories) - len(checked),
        shares=shares_of_all([sum(getattr(each, name) for each in checked) for name, _ in SHARES]),
        days=f"{low / 8:.0f} to {high / 8:.0f}",
        share_of=shares_of,
        causes=causes[:_MOST],
        other_causes=shown(f"and {len(causes) - _MOST} others, which --format csv --by cause lists.")
        if len(causes) > _MOST
        else "",
        packages=by_package(repositories),
        owners=owners if any(each.owner for each in owners) else (),
        pages=pages,
        trends=trends,
        changes=[
            (word, sum(each.word == word for each in trends.values()))
            for word in (message("better"), message("worse"), message("new"))
        ],
    )
