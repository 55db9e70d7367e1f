"""Rules for qualified names: what they do to references, to import statements and to annotations that are strings."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from gpu2npu.engine.file_rules import FileRules, Handlers, Quoted
from gpu2npu.engine.imports import import_of, parent
from gpu2npu.engine.rewriting import name_uses
from gpu2npu.engine.rewriting.renamed_imports import LocalNames, RenamedImports
from gpu2npu.engine.strings.prose import BY_STRING
from gpu2npu.engine.strings.texts import StringText
from gpu2npu.python.meaning.mocks import sets_by_string
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.text.templates import plain
from gpu2npu.python.text.tokens import name_bounds
from gpu2npu.python.tree.scopes import Imported, Scope
from gpu2npu.python.tree.syntax import chain, dotted_name, is_annotation, last_name, string_value
from gpu2npu.records import Bounds, Edit
from gpu2npu.rulebook.match import QUALIFIED_NAME, Evidence, Json, Match, last_two, leaf
from gpu2npu.rulebook.rule import Rule

# A name in the text of an annotation.
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


class NameMatch(Match, frozen=True):
    """A qualified name and everything under it, through every import form and alias; with `unless_assigned` not where
    the project assigns it itself: `numpy.bool = bool`."""

    name: str
    unless_assigned: bool = False

    key = "name"
    shape: ClassVar[Json] = {
        "name": {
            "description": "A qualified name and everything under it, however it was imported.",
            "$ref": "#/$defs/qualified_name",
        },
        "unless_assigned": {"description": "Not where the project assigns the name itself.", "type": "boolean"},
    }
    actions = ("rename", "needs_target", "imports")
    new_name = (QUALIFIED_NAME, "a qualified name")
    order = -4
    starter: ClassVar[Json] = {
        "$comment": "A function, class or module by its full name, in whatever way files import it.",
        "why": "Our kernels have an Ascend build under another name.",
        "match": {"name": "fastlib.gpu.fused_norm"},
        "then": {"rename": "fastlib.npu.fused_norm"},
        "examples": [
            {
                "before": "from fastlib.gpu import fused_norm\ny = fused_norm(x)\n",
                "after": "from fastlib.npu import fused_norm\ny = fused_norm(x)\n",
            },
            {"keep": "def fused_norm(x): ...\ny = fused_norm(x)\n"},
        ],
    }

    @property
    def evidence(self) -> Evidence:
        return Evidence(last_two(self.name))

    @property
    def qualified(self) -> str:
        return self.name

    @property
    def text(self) -> str:
        text = f"the name `{self.name}` and what is under it, however it was imported"
        return f"{text}, unless the project assigns it itself" if self.unless_assigned else text

    @property
    def subject(self) -> str:
        return self.name

    def covers(self, other: Match) -> bool:
        return isinstance(other, NameMatch) and other.name.startswith(f"{self.name}.")

    @property
    def word(self) -> str:
        return leaf(self.name)

    @classmethod
    def handlers(cls, work: FileRules) -> Handlers:
        references = _References(work)
        return {
            ast.Name: references.reference,
            ast.Attribute: references.reference,
            ast.Call: references.by_string,
            Quoted: references.quoted,
            ast.Module: references.imports,
        }


class _References:
    """Applies rules for names in one file. `tested` are classes of torch.nn that some place only asks for."""

    def __init__(self, work: FileRules) -> None:
        self.work = work
        self.names, self.file, self.table = work.names, work.file, work.table
        self.matches, self.targets = work.matches, work.targets
        self.locals = LocalNames(work.names, work.targets.of, work.may_rename)
        self.tested: set[str] = set()

    def reference(self, node: ast.expr, scope: Scope) -> None:
        """Apply the rule for a name or a dotted expression."""
        interesting, is_interesting = self.work.interesting, False
        root: ast.AST = node
        while isinstance(root, ast.Attribute):
            is_interesting = is_interesting or root.attr in interesting
            root = root.value
        name = root.id if isinstance(root, ast.Name) else ""
        if not (is_interesting or name in interesting):
            return
        qualified = self.names.qualified(node, scope)
        if qualified is None:
            return
        if qualified.startswith("torch."):
            bindings = (scope.lookup(name) or (scope, ()))[1]
            is_imported = any(isinstance(each, Imported) for each in bindings)
            self.matches.anchors |= {name} if is_imported or (name and not bindings) else {name, "self"}
        matched = self.table.rule_for(qualified)
        if matched is not None:
            moved = self.apply_name(*matched, qualified, chain(node), scope)
            if moved is not None and name:
                self.locals.use(name, scope, moved)

    def apply_name(
        self, rule: Rule, prefix: str, qualified: str, parts: Sequence[ast.expr], scope: Scope
    ) -> bool | None:
        """Apply a rule to the expression whose nodes, from its first name on, are `parts`; gives whether that name has
        a new meaning now, and None when it is gone."""
        then = rule.then
        assert isinstance(rule.match, NameMatch)
        if then.keep or (rule.match.unless_assigned and _is_assigned(self.names, rule.match.name)):
            return False
        root, whole = parts[0], self.file.bounds(parts[-1])
        if then.rename is None and prefix.startswith("torch.nn.") and self._is_tested(parts[-1]):
            self.tested.add(qualified)
            return False
        if len(parts) > 1 or not (isinstance(root, ast.Name) and name_uses.is_alias(root.id, scope)):
            self.matches.note(rule, whole, qualified)
        if then.rename is None:
            return False
        index = len(parts) - 1 - qualified[len(prefix) :].count(".")
        target = then.rename + qualified[len(prefix) :]
        if self.targets.is_missing(rule, target):
            self.targets.report_missing(rule, whole, qualified, target)
            return False
        if index == 0 and isinstance(root, ast.Name):
            self._rename_root(rule, root, prefix, qualified, target, whole, scope)
        elif index > 0 and self.names.qualified(parts[index - 1], scope) == parent(prefix):
            return self._rename_member(rule, prefix, target, parts, index, scope)
        return True

    def _rename_root(
        self, rule: Rule, root: ast.Name, prefix: str, qualified: str, target: str, whole: Bounds, scope: Scope
    ) -> None:
        local = self.locals.new_name(root.id, scope)
        if local is not None:
            self.targets.edit(self.file.bounds(root), local, rule, whole, target)
        elif (
            scope.lookup(root.id) is None and parent(prefix) in self.file.stars and not self.targets.of(parent(prefix))
        ):
            module = rule.then.imports or parent(target) or target
            message = f"{root.id} comes from a star import, where the NPU's is not: import {module}, write {target}."
            self.matches.review(rule, whole, qualified, message)

    def _rename_member(
        self, rule: Rule, prefix: str, target: str, parts: Sequence[ast.expr], index: int, scope: Scope
    ) -> bool | None:
        node, whole = parts[index], self.file.bounds(parts[-1])
        rename = rule.then.rename or ""
        assert isinstance(node, ast.Attribute)
        owner_rule = self.table.rule_for(parent(prefix))
        if parent(rename) == parent(prefix):
            self.targets.edit(name_bounds(self.file, node), leaf(rename), rule, whole, target)
        elif owner_rule is not None and parent(rename) == self.targets.of(parent(prefix)):
            if leaf(rename) != leaf(prefix):
                self.targets.edit(name_bounds(self.file, node), leaf(rename), rule, whole, target)
            return self.apply_name(*owner_rule, parent(prefix), parts[:index], scope)
        else:
            return False if self.respell(node, rename, rule, parts[:index], scope) else None
        return False

    def respell(self, node: ast.Attribute, name: str, rule: Rule, owners: Sequence[ast.expr], scope: Scope) -> str:
        """Write a name of another module through an import that the file has and that leads to it; gives its name."""
        text, known = name, ""
        for owner in owners:
            qualified = self.names.qualified(owner, scope) or ""
            if name.startswith(f"{qualified}."):
                text, known = f"{dotted_name(owner)}{name[len(qualified) :]}", qualified
        needs: tuple[str, ...] = ()
        if rule.then.imports is None and parent(name) != known:
            needs = (parent(name),)
        elif not known and not self.names.binds(package := name.partition(".")[0], scope):
            needs = (import_of(package, rule.then.imports),)
        self.matches.edit(Edit(self.file.bounds(node), plain(text), rule.id, self.targets.why(rule, name), needs=needs))
        self.matches.anchors.add(dotted_name(owners[0]) or "")
        return known

    def by_string(self, node: ast.Call, scope: Scope) -> bool:
        """Apply the rule for `getattr(torch, "cuda")`, and hasattr, setattr and delattr likewise; gives whether one
        knows the name."""
        is_known = self._by_string(node, scope)
        if is_known:
            self.work.handled.add(node.args[1])
        return is_known

    def _by_string(self, node: ast.Call, scope: Scope) -> bool:
        is_builtin = isinstance(node.func, ast.Name) and node.func.id in BY_STRING
        if len(node.args) < 2 or not (is_builtin or sets_by_string(node.func)):
            return False
        attribute = string_value(node.args[1])
        text = StringText.of(self.file, node.args[1]) if attribute is not None else None
        owner = self.names.qualified(node.args[0], scope) if text is not None else None
        if owner is None or text is None:
            return False
        qualified = f"{owner}.{attribute}"
        matched = self.table.rule_for(qualified)
        if matched is None or matched[0].then.keep:
            return False
        rule, prefix = matched
        self.matches.note(rule, text.place, qualified)
        target = (rule.then.rename or prefix) + qualified[len(prefix) :]
        if rule.then.rename is None or target == qualified:
            return True
        if self.targets.is_missing(rule, target):
            if not name_uses.has_answer(node):
                self.targets.report_missing(rule, text.place, qualified, target)
        elif parent(target) in (owner, self.targets.of(owner)):  # a rule of its own may rename the owner
            if leaf(target) != attribute:
                self.matches.edit(Edit(text.place, text.quoted(leaf(target)), rule.id, self.targets.why(rule, target)))
        else:
            message = f"{rule.why} Write {target}, whose owner is another: change it by hand."
            self.matches.review(rule, text.place, qualified, message)
        return True

    def _is_tested(self, node: ast.AST) -> bool:
        """Return whether a class is asked for and not used.

        That is in a type, in a comparison, or in `isinstance(x, (nn.DataParallel, ...))`. PyTorch has the class, and
        nothing on the NPU is one.
        """
        for above, below in self.file.steps(node):
            if isinstance(above, ast.Call):
                return last_name(above.func) in ("isinstance", "issubclass") and below in above.args[1:]
            if isinstance(above, ast.Compare) or is_annotation(above, below):
                return True
            if not isinstance(above, name_uses.OF_TYPES):
                return False
        return False

    # Names in annotations that are strings: `"torch.cuda.Stream"`, `"Optional[CUDAGraph]"`.

    def quoted(self, quoted: Quoted, scope: Scope) -> bool:
        """Rename the names in an annotation, by one edit of its string; report those whose targets the release lacks.
        Return whether the string is one."""
        string = quoted.text
        if string is None or not name_uses.is_in_annotation(self.file, quoted.node):
            return False
        applied: list[tuple[Rule, str]] = []

        def renamed(match: re.Match[str]) -> str:
            new, found = self._renamed(match[0], string.place, scope)
            applied.extend(found)
            return new

        text = _NAME.sub(renamed, string.raw)
        if applied:
            rule, target = applied[0]
            self.targets.edit(string.place, string.quoted(text), rule, None, target)
        return True

    def _renamed(self, dotted: str, place: Bounds, scope: Scope) -> tuple[str, list[tuple[Rule, str]]]:
        """A name in an annotation as it is written now, with the rule and the target if it is another."""
        qualified = self.names.dotted(dotted, scope)
        matched = self.table.rule_for(qualified) if qualified is not None else None
        if qualified is None or matched is None or matched[0].then.keep:
            return dotted, []
        rule, prefix = matched
        self.matches.note(rule, place, qualified)
        target = (rule.then.rename or prefix) + qualified[len(prefix) :]
        is_missing = rule.then.rename is not None and self.targets.is_missing(rule, target)
        if is_missing:
            self.targets.report_missing(rule, place, qualified, target)
        new = None if rule.then.rename is None or is_missing else self._spelled(dotted, target, scope)
        root = dotted.partition(".")[0]
        self.locals.use(root, scope, moved=new is not None)
        if new is None or new == dotted:
            return dotted, []
        if "." in dotted:
            self.matches.anchors.add(root)
        return new, [(rule, target)]

    def _spelled(self, dotted: str, target: str, scope: Scope) -> str | None:
        """The name as the file reaches it after the migration, through the same first name where that leads to it."""
        root = dotted.partition(".")[0]
        local = self.locals.new_name(root, scope) or root
        if local == target or not parent(dotted):
            return local
        owner = dotted
        while owner := parent(owner):
            meaning = self.names.dotted(owner, scope)
            moved = self.targets.of(meaning) if meaning is not None else None
            if meaning is not None and target.startswith(f"{meaning}."):
                return owner + target[len(meaning) :]
            if owner == root and moved is not None and target.startswith(f"{moved}."):
                return local + target[len(moved) :]
        return None

    def imports(self, module: ast.Module, scope: Scope) -> None:
        """Apply the rules to the import statements, and report what is imported and not used here: another file may
        take it from this one, or it may not exist."""
        statements = RenamedImports(self.file, self.targets, self.locals)
        for node, inner in self.work.imports:
            if isinstance(node, ast.Import):
                statements.import_(node)
            else:
                statements.import_from(node, inner)
        reported = [f"{api}." for api in (*(found.api for found in self.matches.proposed), *self.tested)]
        for rule, alias, qualified in statements.reported:
            if not any(api.startswith(f"{qualified}.") for api in reported):
                self.matches.note(rule, self.file.bounds(alias), qualified)


def _is_assigned(names: Names, name: str) -> bool:
    """Return whether a file of the project assigns a name of a library itself: `numpy.bool = bool`."""
    project, last = names.project, leaf(name)
    project.consult_naming(names.path, last)

    def assigns(path: str) -> bool:
        other = names if path == names.path else project.names(path)
        found = other.file.unordered().get(ast.Attribute, ()) if other is not None else ()
        stores = (each for each in found if each.attr == last and isinstance(each.ctx, ast.Store))
        return any(other.qualified(each, other.file.scope_of(each)) == name for each in stores if other is not None)

    paths = {names.path, *project.storing(last)}
    return any(project.cached(("assigned", path, name), partial(assigns, path)) for path in paths)
