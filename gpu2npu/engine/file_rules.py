"""The rules for one Python file and what they make of it: what the kinds of matches work on."""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from msgspec import Struct

from gpu2npu.engine.context import ProjectContext
from gpu2npu.engine.imports import imports_package
from gpu2npu.engine.matches import Matches
from gpu2npu.engine.rewriting.name_uses import stands_for
from gpu2npu.engine.rewriting.targets import Targets
from gpu2npu.engine.strings.texts import StringText
from gpu2npu.engine.table import RuleTable
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.meaning.object_kinds import ObjectKinds
from gpu2npu.python.text.literals import Literal
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.nodes import code_words
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import Import
from gpu2npu.rulebook.rule import Rule
from gpu2npu.support.release_tables import table_for

_WORD = re.compile(r"\w+")
# What may be right above a type.
_OF_ANNOTATIONS = (ast.arg, ast.AnnAssign, ast.FunctionDef, ast.AsyncFunctionDef, ast.Subscript, ast.Tuple, ast.BinOp)
_COMMON = frozenset(name for kind in (dict, list, set, str, deque) for name in dir(kind))
Handler = Callable[[Any, Scope], "bool | None"]
Handlers = Mapping[type[Any], Handler]  # of a node, or Quoted


class Quoted(Struct, frozen=True):
    """A string or an f-string, and the literals it is written with; no rule is for its text alone. `text` is that of a
    string that is one literal."""

    node: ast.expr
    literals: tuple[Literal, ...]
    text: StringText | None


@dataclass
class RuledString:
    """A string, and what the rules for its text make of it, one kind after the other: `text` is what it becomes,
    `rules` are those that are for it; `is_handled` ends the search."""

    string: StringText
    text: str
    rules: list[Rule] = field(default_factory=list)
    is_handled: bool = False


@dataclass
class FileRules:
    """One file. `spelled` are its words; `may_rename` means that no comment switches a rule off for a line, so that a
    name may change at all its places; in `handled` nodes no further rule is looked for, but for the `unhandled` code
    within them, which has these nodes; the own names of `called` callees are handled by a rule for the call; `spelling`
    are aliases of modules that new code uses, and so stay; `imports` the import statements that no rule has handled."""

    names: Names
    context: ProjectContext
    table: RuleTable
    matches: Matches
    may_rename: bool
    spelled: frozenset[bytes]
    handled: set[ast.AST] = field(default_factory=set)
    unhandled: dict[ast.AST, Collection[ast.AST]] = field(default_factory=dict)
    called: set[ast.AST] = field(default_factory=set)
    spelling: set[tuple[Scope, str]] = field(default_factory=set)
    refused: set[ast.AST] = field(default_factory=set)
    imports: list[tuple[Import, Scope]] = field(default_factory=list)
    kinds: ObjectKinds = field(init=False)
    targets: Targets = field(init=False)
    _own: dict[tuple[str, bool], bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kinds = ObjectKinds(self.names)
        self.targets = Targets(self.table, table_for(self.context.version), self.matches)

    @property
    def file(self) -> PythonFile:
        """The text and the tree."""
        return self.names.file

    @cached_property
    def interesting(self) -> frozenset[str]:
        """Identifiers of which each match has one: last parts of rules' names, and local names that mean them."""
        found = set(self.table.leaves)
        for _ in range(2):  # an alias of an alias
            for scope in self.file.scopes.values():
                for name, bindings in scope.bindings.items():
                    if name in self.names.leading and any(stands_for(each, found) for each in bindings):
                        found.add(name)
        return frozenset(found)

    def may_be_for(self, text: str, node: ast.AST) -> bool:
        """Return whether a rule may be for a string: its text, or a name in it. Most strings are for none."""
        if self.table.may_be_for(text):
            return True
        may_be_type = isinstance(self.file.parents[node], _OF_ANNOTATIONS)
        return may_be_type and not self.interesting.isdisjoint(_WORD.findall(text))

    @cached_property
    def code_identifiers(self) -> frozenset[str]:
        """The identifiers in the words of the code: `NAME` and `python` of `"NAME=$X python"`, nothing of comments."""
        return frozenset(found for word in code_words(self.file.tree) for found in _WORD.findall(word))

    def rules(self, kind: str) -> dict[str, list[Rule]]:
        """The rules of a kind by the text that finds them; none where no such text is a word of the file."""
        found = self.table.of(kind)
        return {} if self.table.words.get(kind, frozenset()).isdisjoint(self.spelled) else found

    def has_name_of(self, kind: str) -> bool:
        """Return whether the file has a text that finds a rule of a kind, or a name that the project gives to one."""
        return bool(self.rules(kind)) or not self.context.other_names.keys().isdisjoint(self.spelled)

    def may_use(self, cls: str, member: str) -> bool:
        """Return whether an object that is not known may be of a class: the file imports its package, and names
        the class where the member is one of dictionaries, lists and the like too."""
        package, _, name = cls.rpartition(".")
        if not imports_package(self.file, package.partition(".")[0]):
            return False
        return member not in _COMMON or any(name in word for word in self.code_identifiers)

    def is_read(self, node: ast.Attribute) -> bool:
        """Return whether an attribute is neither stored nor the method of a call."""
        return isinstance(node.ctx, ast.Load) and self.file.call_of(node) is None

    def has_own(self, member: str, read: bool) -> bool:
        """Return whether a class of the project, or of this file, that is not a Module or Tensor defines the member."""
        if (member, read) not in self._own:
            self._own[member, read] = self.kinds.has_own_class(member, read) or any(
                self.context.has_own_class(path, member, read, self.names.path)
                for path in sorted(self.context.project_members.get(member, ()))
            )
        return self._own[member, read]
