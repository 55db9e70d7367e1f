"""Plans of the codemods on disk: that of a part of a project holds while none of the part's files changes."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from gpu2npu.codemods.plan import PlannedPart, ProjectPart
from gpu2npu.project.cache.store import Store, name_of


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
