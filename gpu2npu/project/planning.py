"""Planning the codemods in processes, or on an executor: a part of a project that imports nothing from the others is
one task. The plan of a part is stored, and holds while none of the part's files changes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing

from msgspec import Struct, field
from msgspec.structs import replace

from gpu2npu.codemods.choice import CodemodError, ProjectPart
from gpu2npu.codemods.project_plan import Plan, PlannedPart, components
from gpu2npu.language import message
from gpu2npu.project.cache.store import Store, name_of
from gpu2npu.project.pool import Pool
from gpu2npu.project.progress import Progress, no_progress
from gpu2npu.project.worker_processes import TimeLimitError


class StoredPlans(Struct, frozen=True):
    """The place of the plans for a project's parts. `contents` has the digest of each Python file by path."""

    store: Store
    contents: Mapping[str, str]

    def get(self, part: ProjectPart) -> PlannedPart | None:
        """The plan for a part; None where it is missing or damaged."""
        return self.store.find(self._name(part), PlannedPart)

    def put(self, part: ProjectPart, planned: PlannedPart) -> None:
        self.store.put({self._name(part): planned})

    def _name(self, part: ProjectPart) -> str:
        choice = replace(part.choice, excluded=frozenset())
        return name_of(
            "part",
            part.version,
            repr(choice),
            [sorted(part.choice.excluded), sorted(part.packages), part.trains, part.wanted],
            sorted((path, self.contents[path], sorted(imported)) for path, imported in part.imports.items()),
        )


class PartPlanning(Struct, frozen=True):
    """Plans parts in a pool, where a part may take as long as all of its files. A component that cannot be planned
    fails, and the others go on. Plans that are `stored` are not made again."""

    pool: Pool = field(default_factory=Pool)
    progress: Progress = no_progress
    stored: StoredPlans | None = None

    def __call__(
        self, plan: Callable[[ProjectPart], PlannedPart], parts: Sequence[ProjectPart]
    ) -> Iterable[PlannedPart]:
        """Plan the parts, and one that fails once more by its components. Raises CodemodError."""
        total = sum(len(part.sources) for part in parts)
        planned, pieces, done = [], [], 0
        known = {id(part): self.stored.get(part) for part in parts} if self.stored is not None else {}
        planned += [each for each in known.values() if each is not None]
        for part, answer in self._results(plan, [part for part in parts if known.get(id(part)) is None]):
            done += len(part.sources)
            self.progress(done, total, message("planned"))
            if not isinstance(answer, BaseException):
                planned.append(answer)
                if self.stored is not None:
                    self.stored.put(part, answer)
            elif len(own := components(part)) > 1:
                pieces += own
            else:
                planned.append(_failed(part, answer))
        for piece, answer in self._results(plan, pieces):
            planned.append(_failed(piece, answer) if isinstance(answer, BaseException) else answer)
        return planned

    def _results(
        self, plan: Callable[[ProjectPart], PlannedPart], parts: Sequence[ProjectPart]
    ) -> Generator[tuple[ProjectPart, PlannedPart | BaseException], None, None]:
        with closing(self.pool.answers(plan, parts, lambda part: part.sources.keys())) as answered:
            for part, answer in answered:
                if isinstance(answer, CodemodError):
                    raise answer
                yield part, answer


def _failed(part: ProjectPart, error: BaseException) -> PlannedPart:
    """A part whose files stay as they are, for a reason: half of a rewrite would be a program that does not run."""
    if isinstance(error, TimeLimitError):
        reason = f"the programs that it is part of take longer than {error.seconds:g} seconds to look at"
    else:
        reason = f"the programs that it is part of could not be looked at ({type(error).__name__}: {error})"
    return PlannedPart(Plan(failures=dict.fromkeys(part.wanted, reason)))
