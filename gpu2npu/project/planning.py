"""Planning the codemods in processes, or on an executor: a part of a project that imports nothing from the others is
one task."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from gpu2npu.codemods.choice import CodemodError
from gpu2npu.codemods.plan import Part, Plan, PlannedPart
from gpu2npu.codemods.project_plan import components
from gpu2npu.deep_stack import with_deep_stack
from gpu2npu.project.executors import answers
from gpu2npu.project.processes import TimeLimitError, can_start_processes, in_processes
from gpu2npu.project.progress import Progress, no_progress


@dataclass(frozen=True)
class PartPlanning:
    """Plans parts by up to `jobs` processes, or on the `executor`. `seconds` is the limit for a file: a part may take
    that long for each of its files. A component that cannot be planned fails, and the others go on."""

    jobs: int = 1
    executor: Executor | None = None
    seconds: float | None = None
    progress: Progress = no_progress

    def __call__(self, plan: Callable[[Part], PlannedPart], parts: Sequence[Part]) -> Iterable[PlannedPart]:
        """Plan the parts, and one that fails once more by its components. Raises CodemodError."""
        total = sum(len(part.sources) for part in parts)
        planned, pieces, done = [], [], 0
        for part, answer in self._results(plan, parts):
            done += len(part.sources)
            self.progress(done, total, "planned")
            if not isinstance(answer, BaseException):
                planned.append(answer)
            elif len(own := components(part)) > 1:
                pieces += own
            else:
                planned.append(_failed(part, answer))
        for piece, answer in self._results(plan, pieces):
            planned.append(_failed(piece, answer) if isinstance(answer, BaseException) else answer)
        return planned

    def _results(
        self, plan: Callable[[Part], PlannedPart], parts: Sequence[Part]
    ) -> Generator[tuple[Part, PlannedPart | BaseException], None, None]:
        with closing(self._answers(plan, parts)) as answered:
            for part, answer in answered:
                if isinstance(answer, CodemodError):
                    raise answer
                yield part, answer

    def _answers(
        self, plan: Callable[[Part], PlannedPart], parts: Sequence[Part]
    ) -> Generator[tuple[Part, PlannedPart | BaseException], None, None]:
        ask = partial(_planned, plan)
        if self.executor is not None:
            yield from answers(ask, parts, self.jobs, self.executor)
        elif can_start_processes() and (self.jobs > 1 or self.seconds is not None):
            yield from in_processes(ask, parts, min(self.jobs, len(parts)), self._limit)
        else:
            yield from ((part, _result(ask, part)) for part in parts)

    def _limit(self, part: Part) -> float | None:
        return self.seconds * len(part.sources) if self.seconds is not None else None


def _result(ask: Callable[[Part], PlannedPart], part: Part) -> PlannedPart | BaseException:
    try:
        return ask(part)
    except Exception as error:  # as the processes and executors give it
        return error


def _planned(plan: Callable[[Part], PlannedPart], part: Part) -> PlannedPart:
    return with_deep_stack(partial(plan, part))


def _failed(part: Part, error: BaseException) -> PlannedPart:
    """A part whose files stay as they are, for a reason: half of a rewrite would be a program that does not run."""
    if isinstance(error, TimeLimitError):
        reason = f"the programs that it is part of take longer than {error.seconds:g} seconds to look at"
    else:
        reason = f"the programs that it is part of could not be looked at ({type(error).__name__}: {error})"
    return PlannedPart(Plan(failures=dict.fromkeys(part.wanted, reason)), has_model=False)
