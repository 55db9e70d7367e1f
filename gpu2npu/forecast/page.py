"""The plan as one web page that needs nothing else."""

from __future__ import annotations

from typing import Any

from gpu2npu.forecast.plan import CATEGORIES, CHIP, DOES, GUESSES, WAITS, peak
from gpu2npu.forecast.text import batches, lines, outcome, readable, stated, title
from gpu2npu.language import shown
from gpu2npu.report.webpage import embedded_json, render


def page(plan: Any) -> str:
    """The page of a plan; its data is in it as JSON."""
    rank = peak(plan)
    parts = [(name, rank["parts"][name]) for name in CATEGORIES if rank["parts"][name]] if rank is not None else []
    return render(
        "forecast.html",
        title=f"gpu2npu {shown('Forecast')}",
        plan=plan,
        rank=rank,
        parts=parts,
        first=shown(next(lines(plan))),
        shown=shown,
        title_of=title,
        outcome=outcome,
        batches=batches,
        stated=stated,
        chip=CHIP,
        readable=readable,
        waits=WAITS,
        guesses=GUESSES,
        does_with=DOES,
        data=embedded_json(plan),
    )
