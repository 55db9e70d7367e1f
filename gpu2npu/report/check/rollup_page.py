"""Many repositories as one web page: what blocks how many, whose they are, and each with its verdict and cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpu2npu.report.check.html import SHARES, VERDICT_WORDS, shares_of, shares_of_all
from gpu2npu.report.check.result import CheckedRepository, Verdict
from gpu2npu.report.check.rollup import LastRun, by_cause, by_owner, by_package, trend
from gpu2npu.report.text import counted
from gpu2npu.report.webpage import render

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
    return render(
        "rollup.html",
        title=f"{counted(len(repositories), 'repository', 'repositories')} on an NPU",
        rows=[(each, VERDICT_WORDS[each.readiness.verdict] if each.readiness else "") for each in costly],
        verdicts=[(VERDICT_WORDS[verdict], verdict.value, count) for verdict, count in counts.items()],
        failed=len(repositories) - len(checked),
        shares=shares_of_all([sum(getattr(each, name) for each in checked) for name, _ in SHARES]),
        low=sum(each.effort.low for each in checked),
        high=sum(each.effort.high for each in checked),
        share_of=shares_of,
        causes=causes[:_MOST],
        other_causes=max(len(causes) - _MOST, 0),
        packages=by_package(repositories),
        owners=owners if any(each.owner for each in owners) else (),
        pages=pages,
        trends=trends,
        changes=[(word, sum(each.word == word for each in trends.values())) for word in ("better", "worse", "new")],
    )
