"""The names in code that rules write: how a file spells them, and what becomes of the imports of what they replace."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from gpu2npu.engine.code_matching import Matched
from gpu2npu.engine.imports import import_of, is_public, leaf, may_rename_local, parent
from gpu2npu.engine.rewriting.statements import removal
from gpu2npu.python.facts.outline import is_caught
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.text.templates import Piece, plain
from gpu2npu.python.text.tokens import alias_name, from_module
from gpu2npu.python.tree.scopes import Imported, Scope
from gpu2npu.python.tree.syntax import Import, chain
from gpu2npu.records import Edit
from gpu2npu.rulebook.code_pattern import CodePattern, parse_code, qualified_name
from gpu2npu.rulebook.rule import Rule

Key = tuple[Scope, str]
_WHY = "The file no longer uses it."
_LOADED = frozenset({"torch.nn", "torch.nn.functional", "torch.optim"})  # by `import torch`: torch/__init__.py


class CodeReplacement(NamedTuple):
    """Matched code that becomes that of a pattern."""

    rule: Rule
    matched: Matched
    new: CodePattern

    @property
    def renamed(self) -> tuple[ast.Name, str] | None:
        """The imported name that the code begins with, if a function imports it, and what takes its place."""
        old, tree = self.matched.node, self.new.tree
        if isinstance(old, ast.Call) and isinstance(tree, ast.Call):
            old, tree = old.func, tree.func
        name = qualified_name(tree)
        is_name = isinstance(old, ast.Name) and old in self.matched.names
        return (old, name) if isinstance(old, ast.Name) and is_name and name is not None and "." in name else None


class Spelled(Struct, frozen=True):
    """The qualified names of a replacement as a file spells them, and the modules that it must import for that."""

    spelled: dict[str, str]
    needs: tuple[str, ...]


class CodeImports:
    """Decides for one file. `spelling` are the aliases of modules that new code uses, and so stay: those of other
    rules, to which its own are added."""

    def __init__(self, names: Names, may_edit: bool, spelling: set[Key]) -> None:
        self.names = names
        self.file = names.file
        self.may_edit = may_edit
        self.moved: dict[Key, tuple[str, str, Imported, Rule]] = {}  # its new qualified and local names
        self.dropped: dict[Key, tuple[Rule, set[ast.AST]]] = {}
        self.uses: dict[Key, set[ast.AST]] = {}
        self.spelling = spelling

    def plan(self, replacements: Sequence[CodeReplacement], removed: Sequence[Matched]) -> None:
        """Find the from-imports that become those of the new names, since all uses of theirs are replaced."""
        replaced = [each.matched for each in replacements]
        roots = (chain(name)[0] for matched in (*replaced, *removed) for name in matched.names)
        if not self.may_edit:
            return
        self._collect_uses({root.id for root in roots if isinstance(root, ast.Name)})
        wanted: dict[Key, list[tuple[ast.Name, str, Rule]]] = {}
        for each in replacements:
            if each.renamed is not None:
                root, name = each.renamed
                key = self._key(root.id, each.matched.scope)
                wanted.setdefault(key, []).append((root, name, each.rule))
        for key, found in wanted.items():
            self._move(key, found)

    def _collect_uses(self, wanted: set[str]) -> None:
        for node, scope in self.file.uses if wanted else ():
            root = chain(node)[0] if isinstance(node, (ast.Name, ast.Attribute)) else None
            if isinstance(root, ast.Name) and root.id in wanted:
                self.uses.setdefault(self._key(root.id, scope), set()).add(root)

    def _key(self, name: str, scope: Scope) -> Key:
        found = scope.lookup(name)
        return (found[0] if found is not None else self.file.module), name

    def _move(self, key: Key, found: Sequence[tuple[ast.Name, str, Rule]]) -> None:
        scope, name = key
        binding = self._import(key)
        new = {target for _, target, _ in found}
        if binding is None or len(new) > 1 or not isinstance(binding.statement, ast.ImportFrom):
            return
        if (
            len(binding.statement.names) > 1
            or binding.statement.level
            or self.uses[key] != {root for root, _, _ in found}
        ):
            return
        target = new.pop()
        local = leaf(target)
        if binding.renamed or local == name:
            local = name
        elif not may_rename_local(binding, local, scope, self.file) or self._is_public(key):
            return
        self.moved[key] = (target, local, binding, found[0][2])

    def _import(self, key: Key) -> Imported | None:
        """The only import that binds a name, if no other file takes the name from this one."""
        bindings = key[0].bindings.get(key[1], ())
        binding = bindings[0] if len(bindings) == 1 else None
        return binding if isinstance(binding, Imported) and not self._is_public(key) else None

    def _is_public(self, key: Key) -> bool:
        scope, name = key
        return is_public(self.names, name, scope)

    def drop(self, names: Iterable[ast.expr], rule: Rule) -> None:
        """Count names of code that is gone."""
        for name in names:
            root = chain(name)[0]
            if isinstance(root, ast.Name):
                key = self._key(root.id, self.file.scope_of(root))
                self.dropped.setdefault(key, (rule, set()))[1].add(root)

    def spelled(self, rule: Rule, scope: Scope, old: Sequence[ast.expr], new: CodePattern) -> Spelled | None:
        """The names of new code as a scope spells them, where the names `old` are replaced; None where one means
        something else there."""
        found: dict[str, str] = {}
        needs: list[str] = []
        retained: set[ast.AST] = set()
        for name in filter(None, map(qualified_name, new.names)):
            text = self._spell(name, rule, scope, old, needs, retained)
            if text is None:
                return None
            found[name] = text
        self.drop((each for each in old if chain(each)[0] not in retained), rule)
        return Spelled(found, tuple(dict.fromkeys(needs)))

    def written(
        self, rule: Rule, scope: Scope, code: str, near: Sequence[ast.expr] = ()
    ) -> tuple[str, tuple[str, ...]] | None:
        """Code that a rule adds in a scope, as the file spells it, and its imports; it may use the names `near`."""
        new = parse_code(code)
        names = self.spelled(rule, scope, near, new)
        if names is None:
            return None
        return "".join(respelled(piece, names.spelled).text or "" for piece in new.pieces), names.needs

    def _spell(
        self, name: str, rule: Rule, scope: Scope, old: Sequence[ast.expr], needs: list[str], retained: set[ast.AST]
    ) -> str | None:
        if "." not in name:
            return name if hasattr(builtins, name) and scope.lookup(name) is None else None
        for each in old:
            known = self.names.qualified(each, scope)
            key = self._key(each.id, scope) if isinstance(each, ast.Name) else None
            if key in self.moved and self.moved[key][0] == name:
                return self.moved[key][1]
            if known == name:
                retained.add(chain(each)[0])
                return self.file.code(each)
        owner = self._owner(name, scope, old)
        if owner is not None:
            retained.add(chain(owner)[0])
            return self.file.code(owner) + name[len(self.names.qualified(owner, scope) or "") :]
        alias = self._alias(name, scope)
        if alias is not None:
            return alias
        root = name.partition(".")[0]
        is_bound = scope.lookup(root) is not None
        if is_bound and self.names.name(root, scope) != root:
            return None
        needed = import_of(root, rule.then.imports) if rule.then.imports is not None else parent(name)
        is_loaded = is_bound and (needed == root or needed in _LOADED)
        needs += [] if is_loaded else [needed]
        return name

    def _alias(self, name: str, scope: Scope) -> str | None:
        """A name by an `import a as b` of its module in the file, which then stays."""
        for statement, _ in self.file.imports if self.may_edit else ():
            for module, local in ((each.name, each.asname) for each in statement.names):
                if local is None or not isinstance(statement, ast.Import) or parent(name) != module:
                    continue
                if self.names.name(local, scope) == module:
                    self.spelling.add(self._key(local, scope))
                    return f"{local}.{leaf(name)}"
        return None

    def _is_submodule(self, root: ast.expr, scope: Scope) -> bool:
        """Return whether a name is bound by `import a.b`, which loads that module alone."""
        found = scope.lookup(root.id) if isinstance(root, ast.Name) else None
        binding = found[1][0] if found is not None else None
        is_plain = isinstance(binding, Imported) and isinstance(binding.statement, ast.Import)
        return isinstance(binding, Imported) and is_plain and not binding.renamed and "." in binding.alias.name

    def _owner(self, name: str, scope: Scope, old: Sequence[ast.expr]) -> ast.expr | None:
        """The longest part of the `old` names that leads to the new one; not of `import a.b`, which loads only that."""
        best: ast.expr | None = None
        for each in old:
            for part in chain(each)[:-1]:
                if self._is_submodule(chain(part)[0], scope):
                    continue
                if name.startswith(f"{self.names.qualified(part, scope) or '?'}."):
                    best = part if best is None or len(chain(part)) > len(chain(best)) else best
        return best

    def edits(self) -> Iterator[Edit]:
        """The edits of import statements, once all code is known that is replaced."""
        for target, _, binding, rule in self.moved.values():
            statement = binding.statement
            assert isinstance(statement, ast.ImportFrom)
            whole = self.file.bounds(statement)
            if parent(target) != statement.module:
                yield Edit(from_module(self.file, statement), plain(parent(target)), rule.id, rule.why, whole)
            if leaf(target) != binding.alias.name:
                yield Edit(alias_name(self.file, binding.alias), plain(leaf(target)), rule.id, rule.why, whole)
        unused: dict[Import, list[tuple[int, Rule]]] = {}
        for key, (rule, dropped) in self.dropped.items():
            binding_ = self._import(key) if self.may_edit and key not in {*self.moved, *self.spelling} else None
            if binding_ is not None and self.uses.get(key) == dropped:
                index = binding_.statement.names.index(binding_.alias)
                unused.setdefault(binding_.statement, []).append((index, rule))
        for statement, found in unused.items():
            if is_caught(self.file, statement):
                continue  # where it is not there, the code goes on as before
            yield from self._without(statement, dict(sorted(found)))

    def _without(self, statement: Import, unused: Mapping[int, Rule]) -> Iterator[Edit]:
        """The edits that take names out of an import statement, by their index."""
        if len(unused) == len(statement.names):
            yield removal(self.file, statement, unused[0].id, _WHY)
            return
        for index, rule in unused.items():
            place, shown = self.file.bounds(statement.names[index]), self.file.bounds(statement)
            yield Edit(place, "", rule.id, _WHY, shown)


def respelled(piece: Piece, spelled: Mapping[str, str]) -> Piece:
    """A piece of the replacement with its qualified names as the file spells them."""
    text = piece.text
    for name, new in spelled.items() if text is not None else ():
        text = re.sub(rf"(?<![\w.'\"]){re.escape(name)}(?!\w)", new, text or "")
    return Piece(text, piece.field)
