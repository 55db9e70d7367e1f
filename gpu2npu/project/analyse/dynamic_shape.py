"""The mode dynamic_shape: a copy of the project that reports, when it is run, the operators of changing shapes."""

from __future__ import annotations

from gpu2npu.analysis.dynamic_shape import instrument
from gpu2npu.project.analyse.session import Copy, Facts, Result


def dynamic_shape(facts: Facts) -> Result:
    """The copy, in a folder of the project's name: some code looks at the name of the folder it lies in."""
    changed, notes = instrument(facts.sources)
    return Result({}, tuple(notes), (Copy(facts.session.location.name, changed),))
