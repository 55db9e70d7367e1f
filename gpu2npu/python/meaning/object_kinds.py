"""The kind of an object that a member is looked up on: a tensor, a layer, an object of a class of the project.

A view of `types`: the same knowledge, as far as rules about methods and attributes need it. jedi is used last.
"""

from __future__ import annotations

import ast
import threading
import warnings
from pathlib import Path
from typing import Any

from gpu2npu.garbage import uncollected
from gpu2npu.python.meaning.inheritance import holds_data
from gpu2npu.python.meaning.instances import guarded_classes
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.meaning.types import TENSOR as TENSOR
from gpu2npu.python.meaning.types import TENSORS, Own, Types, ValueTypes
from gpu2npu.python.meaning.types import UNKNOWN as UNKNOWN
from gpu2npu.python.project.project import EVERY_FILE
from gpu2npu.python.tree.scopes import Defined, Scope
from gpu2npu.python.tree.syntax import is_property, is_super

MODULE = "module"
OWN = "own"  # an object whose class, the project's and not a Module, defines the member itself
ANY_KIND = frozenset({TENSOR, MODULE, UNKNOWN})

Kinds = frozenset[str]
_UNKNOWN: Kinds = frozenset({UNKNOWN})
_OWN: Kinds = frozenset({OWN})
_MAX_BASES = 10


class ObjectKinds:
    """Gives the kinds of the expressions of one file that a member is looked up on."""

    def __init__(self, names: Names, types: ValueTypes | None = None) -> None:
        self.names = names
        self.library = names.project.library
        self.types = types or ValueTypes(names)

    def of(self, node: ast.AST, scope: Scope, member: str) -> Kinds:
        """Every kind the expression may be; {"unknown"} when nothing is known."""
        guarded = frozenset(map(self._of_library, guarded_classes(node, self.names)))
        if guarded and UNKNOWN not in guarded:
            return guarded
        types = self.types.of(node, scope)
        if is_super(node):
            # The override itself is the project's; what super() reaches is the base's.
            return self._of_types(types, member) & {MODULE} or _UNKNOWN
        return self._of_types(types, member)

    def _of_types(self, types: Types, member: str) -> Kinds:
        kinds: set[str] = set()
        for each in types:
            if isinstance(each, Own):
                kinds |= ObjectKinds(each.names).of_class(each.cls, member)
            elif each != TENSORS:  # what gives one or several tensors gave one where a tensor's member is used
                kinds.add(self._of_library(each))
        return frozenset(kinds) or _UNKNOWN

    def _of_library(self, name: str) -> str:
        if name == TENSOR or name in self.library.tensors:
            return TENSOR
        return MODULE if name in self.library.modules or self.library.is_module_class(name) else UNKNOWN

    def has_own_class(self, member: str, read: bool) -> bool:
        """Return whether some class of this file that is not a Module or Tensor defines the member.

        The member is a method, or, with `read`, an attribute or property.
        """
        for cls in self.names.file.scopes.values():
            if cls.kind != "class":
                continue
            called = any(
                isinstance(binding, Defined) and not is_property(binding.node)
                for binding in cls.bindings.get(member, ())
            )
            if (holds_data(cls, member) if read else called) and self.of_class(cls, member) == _OWN:
                return True
        return False

    def of_class(self, cls: Scope, member: str, depth: int = _MAX_BASES) -> Kinds:
        """The kind of the objects of a class of this file: module, tensor, own (the class or a base in the project
        defines the member), or unknown."""
        if holds_data(cls, member):
            return _OWN
        kinds: set[str] = set()
        for base in self.types.bases(cls) if depth else ():
            if isinstance(base, Own):
                kinds |= ObjectKinds(base.names).of_class(base.cls, member, depth - 1)
            else:
                kinds.add(self._of_library(base))
        if kinds & {MODULE, TENSOR}:
            return frozenset(kinds & {MODULE, TENSOR})
        return _OWN if OWN in kinds or member in cls.bindings or member in cls.attributes else _UNKNOWN


# jedi puts another list in the place of sys.path while it imports; two threads that do leave the wrong one behind.
_ONE_AT_A_TIME = threading.RLock()


def infer_kinds(names: Names, node: ast.expr, member: str) -> Kinds:
    """The kinds of an object that `member` is looked up on, as `ObjectKinds` gives them. Only the project's own files
    are looked at, and nothing is imported or run."""
    root = names.project.root
    called = isinstance(node, ast.Call)
    named = node.func if isinstance(node, ast.Call) else node
    if root is None or not isinstance(named, (ast.Name, ast.Attribute, ast.Subscript)):
        return _UNKNOWN
    names.project.consult(names.path, EVERY_FILE)
    span = names.file.span(named)
    with _ONE_AT_A_TIME, uncollected():
        return _inferred(names, root, span.end_line, span.end_column, called, member)


def _inferred(names: Names, root: Path, line: int, column: int, called: bool, member: str) -> Kinds:
    import jedi
    from jedi.api.environment import InterpreterEnvironment

    class Sandbox(InterpreterEnvironment):  # type: ignore[misc]  # jedi has no types
        """jedi imports compiled modules it finds on this path to look into them: there is none."""

        def get_sys_path(self) -> list[str]:
            return []

    project = jedi.Project(root, sys_path=[str(root), str((root / names.path).parent)], smart_sys_path=False)
    script = jedi.Script(names.file.text, path=root / names.path, project=project, environment=Sandbox())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the compiled modules it does not find
            found = script.infer(line, column)
            objects = [result for name in found for result in (name.execute() if called else [name])]
    except Exception:  # jedi raises what its parser, its caches and its inference raise; an answer is optional
        return _UNKNOWN
    kinds: set[str] = set()
    for found_object in objects:
        kinds |= _class_kinds(names, root, found_object, member)
    return frozenset(kinds) or _UNKNOWN


def _class_kinds(names: Names, root: Path, found: Any, member: str) -> Kinds:
    path = found.module_path
    if path is None or not Path(path).is_relative_to(root):
        return _UNKNOWN
    home = names.project.names(Path(path).relative_to(root).as_posix())
    for binding in home.file.module.bindings.get(found.name, ()) if home is not None else ():
        if home is not None and isinstance(binding, Defined) and binding.scope.kind == "class":
            return ObjectKinds(home).of_class(binding.scope, member)
    return _UNKNOWN
