"""What a name or a dotted expression refers to, as a qualified name, across the files of the project."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import libcst as cst

from gpu2npu.engine.context import ProjectContext
from gpu2npu.engine.outline import IMPORTERS, Outline, read_outline
from gpu2npu.engine.scopes import Assigned, Binding, Defined, Imported, Scope, Scopes, collect_scopes
from gpu2npu.engine.tree import dotted_name, last_name, string_value
from gpu2npu.python.source import SourceError, read_source
from gpu2npu.support.tables import has_cuda_name, without_repeats

# Modules that a star import of torch brings in, as far as rules are about them.
_OF_TORCH = frozenset({"cuda", "nn", "distributed", "backends", "version", "amp", "profiler"})
_OF_NN = frozenset({"torch.nn.DataParallel", "torch.nn.parallel.DataParallel"})

# Of a module of which only the outline is known.
_NO_SCOPES = Scopes(Scope("module", None, cst.Module([])), {}, (), ())


@dataclass(eq=False)
class Names:
    """Resolves names of one module; asks the modules it imports from when they belong to the project."""

    path: str
    scopes: Scopes
    context: ProjectContext
    outline: Outline | None = None
    wanted: frozenset[str] = frozenset()  # qualified names that stars of foreign modules are taken to bring in
    _meanings: dict[tuple[int, str], str | None] = field(default_factory=dict)
    _starred: dict[str, str | None] = field(default_factory=dict)

    def qualified(self, node: cst.CSTNode, scope: Scope) -> str | None:
        """`torch.cuda.amp.autocast` for an expression that means it, whatever it is spelled; else None."""
        if isinstance(node, cst.Name):
            return self.name(node.value, scope)
        if isinstance(node, cst.Attribute):
            owner = self.qualified(node.value, scope)
            return self.follow(f"{owner}.{node.attr.value}") if owner is not None else None
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "getattr":
            attribute = string_value(node.args[1].value) if len(node.args) > 1 else None
            owner = self.qualified(node.args[0].value, scope) if attribute is not None else None
            return self.follow(f"{owner}.{attribute}") if owner is not None else None
        return None

    def name(self, name: str, scope: Scope) -> str | None:
        """The qualified name that `name` is bound to where it is used in `scope`."""
        found = scope.lookup(name)
        if found is None:
            # A free name can only come from a star import, or from a cell or module this file is run in.
            return self.through_stars(name) or (name if name == "torch" else None)
        owner, bindings = found
        key = (id(owner), name)
        if key not in self._meanings:
            self._meanings[key] = None  # x = x
            self._meanings[key] = self.meaning(owner, bindings)
        return self._meanings[key]

    def binds(self, package: str, scope: Scope) -> bool:
        """Whether code in `scope` reaches the package by its own name."""
        meaning = self.name(package, scope) if scope.lookup(package) is not None else self.through_stars(package)
        return meaning == package

    def meaning(self, scope: Scope, bindings: list[Binding]) -> str | None:
        """What several bindings of one name agree on; an import wins over a None that stands in for it."""
        meanings: list[str | None] = []
        for binding in bindings:
            if isinstance(binding, Imported):
                meanings.append(self.follow(binding.qualified))
            elif isinstance(binding, Assigned):
                meanings.append(self.assigned(binding, scope))
            else:
                return None
        return next((meaning for meaning in meanings if meaning is not None), None)

    def assigned(self, binding: Assigned, scope: Scope) -> str | None:
        value = binding.value
        if isinstance(value, (cst.Name, cst.Attribute)):
            return self.qualified(value, scope)
        if isinstance(value, cst.Call) and value.args and last_name(value.func) in IMPORTERS:
            return string_value(value.args[0].value)
        return None

    def follow(self, qualified: str) -> str:
        """A name of a module of the project -> what it is bound to there, as far as imports and aliases lead; a name of
        torch -> the same without what repeats torch in it."""
        for _ in range(20):  # longer than any chain of re-exports; ends import cycles
            qualified = without_repeats(qualified)
            step = self.one_step(qualified)
            if step is None or step == qualified:
                return qualified
            qualified = step
        return qualified

    def one_step(self, qualified: str) -> str | None:
        meaning: str | None
        if not self.context.files or qualified.startswith("torch."):
            return None
        leading = qualified[: len(qualified) - len(qualified.lstrip("."))]
        parts = qualified.lstrip(".").split(".")
        for split in range(len(parts) - 1, -1, -1):
            module = leading + ".".join(parts[:split])
            if not module:
                continue
            path = self.context.module_path(module, self.path)
            if path is None or path == self.path:
                continue
            other = self.beside(path, parts[split])
            if other is None:
                continue
            meaning = self.context.once(("meaning", path, parts[split]), partial(other.global_name, parts[split]))
            if meaning is None or meaning.startswith("."):
                return None
            return ".".join((meaning, *parts[split + 1 :]))
        return None

    def global_name(self, name: str) -> str | None:
        """What a name of this module means to a module that imports it."""
        if self.outline is not None:
            if self.outline.is_own(name):
                return None
            return self.follow(self.outline.imported[name]) if self.outline.binds(name) else self.through_stars(name)
        bindings = self.scopes.module.bindings.get(name)
        return self.meaning(self.scopes.module, bindings) if bindings else self.through_stars(name)

    def through_stars(self, name: str) -> str | None:
        """What a free name means when a star import of a project module (or of torch itself) brings it in."""
        if not self.star_imports:
            return None
        if name not in self._starred:
            complete = not self.context.answers  # an answer given within a circle may lack what the circle leads to
            meaning: str | None = self.context.once(("star", self.path, name), lambda: self._through_stars(name))
            if not complete:
                return meaning
            self._starred[name] = meaning
        return self._starred[name]

    def _through_stars(self, name: str) -> str | None:
        for module in self.star_imports:
            if module == "torch" or module.startswith("torch."):
                dotted = f"{module}.{name}"
                if (module == "torch" and name in _OF_TORCH) or dotted in _OF_NN or has_cuda_name(dotted):
                    return dotted
                continue
            dotted = f"{module}{'' if module.endswith('.') else '.'}{name}"
            if dotted in self.wanted and self.context.module_path(module, self.path) is None:
                return dotted
            if self.may_provide(module, name):
                followed = self.follow(dotted)
                if followed != dotted:
                    return followed
        return None

    def module(self, module: str) -> Names | None:
        """The names of another module of the project, parsed once; None when it is not the project's or not Python."""
        path = self.context.module_path(module, self.path)
        return self.by_path(path) if path is not None else None

    def may_provide(self, module: str, name: str) -> bool:
        """Whether a star import of `module` may bring in `name`. A package's `__init__.py` may so import a thousand
        modules: only those that have the name are worth parsing."""
        path = self.context.module_path(module, self.path)
        if path is None:
            return False
        outline = self._outline(path)
        return outline is None or outline.may_have(name)

    def beside(self, path: str, name: str) -> Names | None:
        """The names of another file, as far as its outline tells what it means by `name`; else of its whole tree."""
        outline = self._outline(path)
        if outline is None or not (outline.is_own(name) or outline.is_import(name) or not outline.binds(name)):
            return self.by_path(path)
        return Names(path, _NO_SCOPES, self.context, outline)

    def _outline(self, path: str) -> Outline | None:
        self.context.consult(self.path, path)
        if path not in self.context.outlines:
            self.context.outlines[path] = _read_outline(path, self.context)
        return self.context.outlines[path]

    @property
    def star_imports(self) -> Sequence[str]:
        """The modules that stars import from."""
        return self.outline.stars if self.outline is not None else self.scopes.star_imports

    def by_path(self, path: str) -> Names | None:
        """The names of another file of the project."""
        self.context.consult(self.path, path)
        if path not in self.context.parsed:
            self.context.parsed[path] = None  # ends import cycles while it is parsed
            self.context.parsed[path] = _load(path, self.context)
        found: Names | None = self.context.parsed[path]
        return found

    def callees(self, node: cst.CSTNode, scope: Scope) -> frozenset[str]:
        """The functions of which an expression is the result: a call, a name or `self.x` that calls are assigned to."""
        values: list[cst.CSTNode | None] = [node]
        if isinstance(node, cst.Name):
            found = scope.lookup(node.value)
            values = [binding.value for binding in found[1] if isinstance(binding, Assigned)] if found else []
        elif isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value == "self":
            cls = scope.enclosing_class()
            values = [binding.value for binding in cls.attributes.get(node.attr.value, ())] if cls is not None else []
        calls = (value.func for value in values if isinstance(value, cst.Call))
        return frozenset(filter(None, (self.qualified(function, scope) for function in calls)))

    def definition(self, node: cst.CSTNode, scope: Scope) -> tuple[Names, Defined] | None:
        """The class or function of the project that an expression names, and the module it is in."""
        names, binding = self.binding(node, scope) or (self, None)
        return (names, binding) if isinstance(binding, Defined) else None

    def method(self, node: cst.Attribute, scope: Scope) -> tuple[cst.FunctionDef, bool] | None:
        """The method that `self.move`, `cls.move` or `Kit.move` names, where a class of the project defines it itself,
        and whether its first parameter is given without being written."""
        owner, is_self = node.value, isinstance(node.value, cst.Name) and node.value.value in ("self", "cls")
        found = None if is_self else self.definition(owner, scope)
        cls = scope.enclosing_class() if is_self else found[1].scope if found is not None else None
        bindings = cls.bindings.get(node.attr.value, ()) if cls is not None and cls.kind == "class" else ()
        if len(bindings) != 1 or not isinstance(bindings[0], Defined):
            return None
        function = bindings[0].node
        if not isinstance(function, cst.FunctionDef):
            return None
        kinds = {last_name(decorator.decorator) for decorator in function.decorators}
        return function, "staticmethod" not in kinds and (is_self or "classmethod" in kinds)

    def binding(self, node: cst.CSTNode, scope: Scope) -> tuple[Names, Defined | Assigned] | None:
        """The definition, or the only assignment, that an expression names in the project, and the module it is in."""
        if isinstance(node, cst.Name):
            found = scope.lookup(node.value)
            if found is not None and len(found[1]) == 1 and isinstance(found[1][0], (Defined, Assigned)):
                return self, found[1][0]
        qualified = dotted_name(node) and self.import_path(node, scope)
        if not qualified:
            return None
        return self.exported(qualified)

    def import_path(self, node: cst.CSTNode, scope: Scope) -> str | None:
        """The dotted path an expression spells through an import, before any of it is followed."""
        if isinstance(node, cst.Attribute):
            owner = self.import_path(node.value, scope)
            return f"{owner}.{node.attr.value}" if owner is not None else None
        if isinstance(node, cst.Name):
            found = scope.lookup(node.value)
            for binding in found[1] if found else ():
                if isinstance(binding, Imported):
                    return binding.qualified
        return None

    def exported(self, qualified: str) -> tuple[Names, Defined | Assigned] | None:
        """The definition or only assignment behind a dotted path into the project, through re-exports."""
        found: tuple[Names, Defined | Assigned] | None = self.context.once(
            ("exported", self.path, qualified), lambda: self._exported(qualified)
        )
        return found

    def _exported(self, qualified: str) -> tuple[Names, Defined | Assigned] | None:
        leading = qualified[: len(qualified) - len(qualified.lstrip("."))]
        head, _, last = qualified.lstrip(".").rpartition(".")
        path = self.context.module_path(leading + head, self.path) if leading or head else None
        other = self.beside(path, last) if path is not None else None
        if path is None or other is None:
            return None
        if other.outline is not None:
            if other.outline.is_import(last):
                return other.exported(other.outline.imported[last])
            if other.outline.binds(last):
                other = self.by_path(path)
        return None if other is None else other.own_or_starred(last)

    def own_or_starred(self, last: str) -> tuple[Names, Defined | Assigned] | None:
        """The definition or only assignment of a name in this module, or in one that a star brings in."""
        bindings = self.scopes.module.bindings.get(last, ())
        for binding in bindings:
            if isinstance(binding, Defined) or (isinstance(binding, Assigned) and len(bindings) == 1):
                return self, binding
            if isinstance(binding, Imported):
                return self.exported(binding.qualified)
        for star in self.star_imports:
            if not self.may_provide(star, last):
                continue
            found = self.exported(f"{star}{'' if star.endswith('.') else '.'}{last}")
            if found is not None:
                return found
        return None


def _read_outline(path: str, context: ProjectContext) -> Outline | None:
    try:
        return read_outline(read_source(context.read(path), path).text)
    except (OSError, SourceError):
        return None


def _load(path: str, context: ProjectContext) -> Names | None:
    try:
        text = read_source(context.read(path), path).text
        return Names(path, collect_scopes(cst.parse_module(text)), context)
    except (OSError, SourceError, cst.ParserSyntaxError, RecursionError):
        return None
