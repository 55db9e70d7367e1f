"""The qualified names that a module binds at its top level, for the files that import it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from gpu2npu.python.facts.record import FileFacts, Origin, OriginKind
from gpu2npu.python.project.project import Project
from gpu2npu.python.tree.scopes import Assigned, Defined
from gpu2npu.python.tree.syntax import member_of

if TYPE_CHECKING:
    from gpu2npu.python.meaning.names import Names

_LONGEST = 20  # longer than any chain of re-exports; ends circles of imports


class Definition(NamedTuple):
    """A class or function of the project, and the names of the file it is in."""

    names: Names
    bound: Defined


class Bound(NamedTuple):
    """The definition or the only assignment of a name, and the names of the file it is in."""

    names: Names
    bound: Defined | Assigned


class ModuleNames:
    """Resolves names as a module binds them at its top level, across the files of a project."""

    def __init__(self, path: str, facts: FileFacts, project: Project) -> None:
        self.path = path
        self.facts = facts
        self.project = project

    def global_name(self, name: str) -> str | None:
        """The qualified name of what a name of this module means to one that imports it."""
        return self.project.cached(("meaning", self.path, name), partial(self._global_name, name))

    def _global_name(self, name: str) -> str | None:
        origins = self.facts.bound.get(name)
        if not origins:
            return self.through_stars(name)
        meanings: list[str | None] = []
        for origin in origins:
            if origin.kind is OriginKind.DEFINITION:
                return None
            meanings.append(self._meaning_of(origin))
        return next((meaning for meaning in meanings if meaning is not None), None)

    def _meaning_of(self, origin: Origin) -> str | None:
        if origin.kind is OriginKind.IMPORT:
            return self.follow(origin.name)
        if origin.kind is OriginKind.LOADED:
            return origin.name
        if origin.kind is not OriginKind.ALIAS:
            return None
        root, *members = origin.name.split(".")
        owner = self.global_name(root)
        return self.members(owner, members)

    def members(self, owner: str | None, members: Iterable[str]) -> str | None:
        """The qualified name of a member of a member of `owner`, followed at each step."""
        for member in members:
            owner = self.follow(f"{owner}.{member}") if owner is not None else None
        return owner

    def follow(self, qualified: str) -> str:
        """A name of a module of the project -> what it is bound to there, as far as imports and aliases lead; a name of
        the library -> its usual spelling."""
        for _ in range(_LONGEST):
            qualified = self.project.library.canonical(qualified)
            step = self._one_step(qualified)
            if step is None or step == qualified:
                return qualified
            qualified = step
        return qualified

    def _one_step(self, qualified: str) -> str | None:
        if not self.project.files or self.project.library.has(qualified):
            return None
        leading = qualified[: len(qualified) - len(qualified.lstrip("."))]
        parts = qualified.lstrip(".").split(".")
        for split in range(len(parts) - 1, -1, -1):
            module = leading + ".".join(parts[:split])
            other = self._other(module) if module else None
            if other is None:
                continue
            is_last = split == len(parts) - 1
            if is_last and parts[split] not in other.facts.bound and self._is_module(qualified):
                return None  # a submodule, whatever stars of its package bring in
            meaning = other.global_name(parts[split])
            if meaning is None or meaning.startswith("."):
                return None
            return ".".join((meaning, *parts[split + 1 :]))
        return None

    def _is_module(self, module: str) -> bool:
        return self.project.module_path(module, self.path) is not None

    def _other(self, module: str) -> ModuleNames | None:
        """Another module of the project; None when it is not the project's or not Python."""
        path = self.project.module_path(module, self.path)
        if path is None or path == self.path:
            return None
        facts = self.project.facts(path, self.path)
        return ModuleNames(path, facts, self.project) if facts is not None else None

    def through_stars(self, name: str) -> str | None:
        """The qualified name of a free name that a star import of a project module (or of the library) brings in."""
        if not self.facts.stars:
            return None
        return self.project.cached(("star", self.path, name), partial(self._through_stars, name))

    def _through_stars(self, name: str) -> str | None:
        library = self.project.library
        for module in self.facts.stars:
            if module in library.packages or library.has(module):
                starred = library.starred(module, name)
                if starred is not None:
                    return starred
            elif self._may_provide(module, name):
                dotted = member_of(module, name)
                followed = self.follow(dotted)
                if followed != dotted:
                    return followed
        return None

    def _may_provide(self, module: str, name: str) -> bool:
        """Return whether a star import of `module` may bring in `name`: a package may import a thousand modules so."""
        path = self.project.module_path(module, self.path)
        return path is not None and self.project.may_star(path, name, self.path)

    def exported(self, qualified: str) -> Bound | None:
        """The definition or only assignment behind a dotted path into the project, through re-exports."""
        return self.project.once(("exported", self.path, qualified), partial(self._exported, qualified))

    def _exported(self, qualified: str) -> Bound | None:
        leading = qualified[: len(qualified) - len(qualified.lstrip("."))]
        head, _, last = qualified.lstrip(".").rpartition(".")
        other = self._other(leading + head) if leading or head else None
        return other.own_or_starred(last) if other is not None else None

    def own_or_starred(self, name: str) -> Bound | None:
        """The definition or only assignment of a name in this module, or in one that a star brings in."""
        origins = self.facts.bound.get(name, ())
        for origin in origins:
            if origin.kind is OriginKind.IMPORT:
                return self.exported(origin.name)
            if origin.kind is OriginKind.DEFINITION or len(origins) == 1:
                return self._bound(name)
        for star in self.facts.stars:
            found = self.exported(member_of(star, name)) if self._may_provide(star, name) else None
            if found is not None:
                return found
        return None

    def _bound(self, name: str) -> Bound | None:
        """The first definition, or the only assignment, of a name of this module."""
        names = self.project.names(self.path)
        bindings = names.file.module.bindings.get(name, []) if names is not None else []
        for binding in bindings:
            if isinstance(binding, Defined) or (isinstance(binding, Assigned) and len(bindings) == 1):
                return Bound(names, binding) if names is not None else None
        return None

    def module(self, module: str) -> Names | None:
        """The names of another module of the project; None when it is not the project's or not Python."""
        path = self.project.module_path(module, self.path)
        return self.project.names(path, self.path) if path is not None else None
