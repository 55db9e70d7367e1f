"""Rules for methods by their names alone."""

from __future__ import annotations

import ast
import builtins
import sys
from typing import TYPE_CHECKING, Any, ClassVar

from gpu2npu.engine.file_rules import FileRules, Handlers
from gpu2npu.engine.strings.texts import StringText
from gpu2npu.python.meaning.mocks import MOCK_MEMBERS
from gpu2npu.python.meaning.object_kinds import ANY_KIND, MODULE, OWN
from gpu2npu.python.meaning.types import TENSOR, UNKNOWN
from gpu2npu.python.text.templates import plain
from gpu2npu.python.text.tokens import name_bounds
from gpu2npu.python.tree.scopes import Imported, Scope
from gpu2npu.python.tree.syntax import Function, Import, last_name, string_value
from gpu2npu.records import Edit
from gpu2npu.rulebook.match import IDENTIFIER, Json, Match
from gpu2npu.rulebook.rule import Rule
from gpu2npu.support.release_tables import of_torch_npu

if TYPE_CHECKING:
    from gpu2npu.engine.line_sites import Site
    from gpu2npu.python.meaning.names import Names


class MethodMatch(Match, frozen=True):
    """A method that is called; `"receiver": ["tensor", "module"]` on what is known to be one."""

    method: str
    receiver: frozenset[str] = ANY_KIND

    key = "method"
    shape: ClassVar[Json] = {
        "method": {"description": "A method that is called.", "$ref": "#/$defs/identifier"},
        "receiver": {
            "description": "What it may be called on; all three unless given.",
            "type": "array",
            "items": {"enum": ["tensor", "module", "unknown"]},
            "minItems": 1,
            "uniqueItems": True,
        },
    }
    actions = ("rename", "imports")
    new_name = (IDENTIFIER, "an identifier")
    order = 4
    starter: ClassVar[Json] = {
        "$comment": "A method by its name alone; objects of a class of the project that defines it are left out.",
        "why": "Our wrappers move to the NPU with another method.",
        "match": {"method": "to_gpu"},
        "then": {"rename": "to_npu"},
        "examples": [{"before": "batch = batch.to_gpu()\n", "after": "batch = batch.to_npu()\n"}],
    }

    @property
    def text(self) -> str:
        return f"calls of `.{self.method}()` on: {', '.join(sorted(self.receiver))}"

    @property
    def subject(self) -> str:
        return f".{self.method}()"

    def meets(self, other: Match) -> bool:
        return isinstance(other, MethodMatch) and self.method == other.method

    def encode(self) -> dict[str, Any]:
        return {"method": self.method, "receiver": sorted(self.receiver)}

    def why_not(self, site: Site, names: Names) -> str | None:
        if not isinstance(site.node, ast.Attribute) or site.call is None:
            return f"`{site.shown}` is not a call of a method"
        own = site.why_not_own(names)
        if own is not None or "unknown" in self.receiver:
            return own
        return f"`{names.file.code(site.node.value)}` is not known to be a {' or '.join(sorted(self.receiver))}"

    @classmethod
    def handlers(cls, work: FileRules) -> Handlers:
        methods = Methods(work)
        on = methods.function
        return {ast.Attribute: methods.attribute, ast.Call: methods.call, ast.FunctionDef: on, ast.AsyncFunctionDef: on}


class Methods:
    """Applies rules for methods in one file."""

    def __init__(self, work: FileRules) -> None:
        self.names = work.names
        self.file = work.file
        self.table = work.table
        self.rules = work.table.methods
        self.matches = work.matches
        self.imported: dict[tuple[Scope, str, type[Import]], bool] = {}
        self.work = work

    def attribute(self, node: ast.Attribute, scope: Scope) -> None:
        """Apply the rules for the methods in a dotted expression that are not called."""
        part: ast.expr = node
        while isinstance(part, ast.Attribute):
            rule = self.rules.get(part.attr)
            if rule is not None and self.work.is_read(part):
                self.uncalled(part, rule, scope)
            part = part.value

    def call(self, node: ast.Call, scope: Scope) -> None:
        """Apply the rule for a method that is called."""
        rule = self.rules.get(node.func.attr) if isinstance(node.func, ast.Attribute) else None
        if rule is not None and isinstance(node.func, ast.Attribute):
            self.method(node.func, rule, scope)
        elif node.args and node.args[0].__class__ is ast.Constant and last_name(node.func) == "methodcaller":
            self.called_by_name(node.args[0])

    def called_by_name(self, name: ast.expr) -> None:
        """Apply the rule for the method of `methodcaller("cuda")`, which is called on whatever it is given."""
        rule, text = self.rules.get(string_value(name) or ""), StringText.of(self.file, name)
        if rule is None or rule.then.rename is None or rule.then.keep or text is None:
            return
        if not self.work.has_own(text.raw, read=False):
            self.matches.edit(Edit(text.place, text.quoted(rule.then.rename), rule.id, rule.why))
            self.work.handled.add(name)

    def uncalled(self, node: ast.Attribute, rule: Rule, scope: Scope) -> None:
        """Apply the rule for a method that is not called, `move = model.cuda`: on others the name may be a flag's."""
        if rule.then.rename is None or rule.then.keep or self.names.qualified(node, scope) is not None:
            return
        kinds = self.work.kinds.of(node.value, scope, node.attr)
        if (kinds & {MODULE, TENSOR} or self._is_mocked(node)) and OWN not in kinds:
            self.matches.edit(Edit(name_bounds(self.file, node), plain(rule.then.rename), rule.id, rule.why))
        elif UNKNOWN in kinds and (name := self._called_name(node)) is not None:
            message = (
                f"{rule.why} It is called as {name}(): if this is a tensor or a module, write .{rule.then.rename} here."
            )
            self.matches.review(rule, name_bounds(self.file, node), node.attr, message)

    def _called_name(self, node: ast.Attribute) -> str | None:
        """The name that a method is assigned to, `move = batch.cuda`, where code calls that name."""
        above = self.file.parents[node]
        target = above.targets[0] if isinstance(above, ast.Assign) and len(above.targets) == 1 else None
        if not isinstance(target, ast.Name):
            return None
        reads = self.file.reads(target.id, self.file.scope_of(target))
        return target.id if any(map(self.file.call_of, reads)) else None

    def _is_mocked(self, node: ast.Attribute) -> bool:
        """Return whether a method is one of a mock, `x.cuda.return_value`: the code that gets the mock is renamed."""
        above = next(iter(self.file.above(node)), None)
        return isinstance(above, ast.Attribute) and above.attr in MOCK_MEMBERS

    def method(self, node: ast.Attribute, rule: Rule, scope: Scope) -> None:
        if self._is_import(node.value, scope, ast.Import) or rule.then.keep:
            return
        if self._is_import(node.value, scope, ast.ImportFrom) and self.names.definition(node, scope) is not None:
            return  # a function of a module of the project: `utils.cuda(batch)`
        qualified = self.names.qualified(node, scope)
        if qualified is not None and (self.table.rule_for(qualified) is not None or of_torch_npu(qualified)):
            return  # a function of a module: nn.Module.cuda(net), torch.npu.cuda()
        place = name_bounds(self.file, node)
        edit = Edit(place, plain(rule.then.rename or node.attr), rule.id, rule.why)
        assert isinstance(rule.match, MethodMatch)
        accepted = rule.match.receiver
        own = self.work.has_own(node.attr, read=False)
        if own or accepted != ANY_KIND:  # else every receiver would do, and asking costs time
            kinds = self.work.kinds.of(node.value, scope, node.attr)
            if kinds == {OWN} or not kinds & accepted:
                return
            if own and (OWN in kinds or not kinds & {MODULE, TENSOR}) and rule.then.rename is not None:
                self.matches.edit_member(node.value, node.attr, edit, kinds)
                return
        self.matches.note(rule, place, node.attr)
        if rule.then.rename is not None:
            self.matches.edit(edit)

    def _is_import(self, node: ast.AST, scope: Scope, statement: type[Import]) -> bool:
        """Return whether the expression is a name that such a statement binds: `import` binds modules, whose members
        are functions, not methods."""
        found = scope.lookup(node.id) if isinstance(node, ast.Name) else None
        if found is None or not isinstance(node, ast.Name):
            return False
        key = found[0], node.id, statement
        if key not in self.imported:
            self.imported[key] = any(
                isinstance(each, Imported) and isinstance(each.statement, statement) for each in found[1]
            )
        return self.imported[key]

    def function(self, node: Function, scope: Scope) -> None:
        rule = self.rules.get(node.name)
        if rule is not None and scope.kind == "class" and rule.then.rename is not None:
            self.override(node, rule, scope)

    def override(self, node: Function, rule: Rule, scope: Scope) -> None:
        """Rename the method of a Module that overrides `cuda`: its callers will say `npu`."""
        assert isinstance(rule.match, MethodMatch)
        kinds = self.work.kinds.of_class(scope, node.name)
        place = name_bounds(self.file, node)
        if kinds & rule.match.receiver - {UNKNOWN}:
            self.matches.edit(Edit(place, plain(rule.then.rename or ""), rule.id, rule.why))
        elif isinstance(scope.node, ast.ClassDef) and any(self._is_foreign(base, scope) for base in scope.node.bases):
            message = (
                f"This class defines {node.name}() and its base is not part of the project: if it is a Module, "
                f"rename the method to {rule.then.rename}."
            )
            name = f"{scope.node.name}.{node.name}"
            self.matches.review(rule, place, name, message)

    def _is_foreign(self, base: ast.expr, scope: Scope) -> bool:
        outer = scope.parent or scope
        if isinstance(base, ast.Subscript):  # Generic[T]
            base = base.value
        if isinstance(base, ast.Name) and hasattr(builtins, base.id) and outer.lookup(base.id) is None:
            return False
        root = (self.names.qualified(base, outer) or "").partition(".")[0]
        return root not in sys.stdlib_module_names and self.names.definition(base, outer) is None
