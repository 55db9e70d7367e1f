"""Rules for methods and attributes of a class, by the qualified name of the class."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from gpu2npu.engine.file_rules import FileRules
from gpu2npu.engine.strings.texts import StringText
from gpu2npu.kinds.attribute import AttributeMatch
from gpu2npu.kinds.method import MethodMatch
from gpu2npu.python.meaning.inheritance import Wanted, derives, gives
from gpu2npu.python.meaning.instances import Instances
from gpu2npu.python.text.templates import plain
from gpu2npu.python.text.tokens import name_bounds
from gpu2npu.python.tree.scopes import Assigned, Defined, Scope
from gpu2npu.python.tree.syntax import chain, is_super, last_name, string_value
from gpu2npu.records import Bounds, Edit
from gpu2npu.rulebook.match import IDENTIFIER, Evidence, Json, Match, leaf
from gpu2npu.rulebook.rule import Rule

if TYPE_CHECKING:
    from gpu2npu.engine.line_sites import Site
    from gpu2npu.python.meaning.names import Names


class MemberMatch(Match, frozen=True):
    """A method or attribute of a class and its subclasses: where it is used, also by its name in `getattr` or
    `mock.patch.object`, and where a class of the project defines it."""

    member: str

    key = "member"
    shape: ClassVar[Json] = {
        "member": {
            "description": "A method or attribute with the qualified name of its class: lib.Trainer.to_gpu.",
            "type": "string",
            "pattern": r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$",
        }
    }
    actions = ("rename", "imports")
    order = -2
    new_name = (IDENTIFIER, "an identifier")
    starter: ClassVar[Json] = {
        "$comment": "A method or attribute of a class and its subclasses: uses, and definitions that override it.",
        "why": "The trainer of our library moves to the NPU by another method, which projects override.",
        "match": {"member": "fastlib.Trainer.to_gpu"},
        "then": {"rename": "to_npu"},
        "examples": [
            {
                "before": "import fastlib\n\n\nclass Ours(fastlib.Trainer):\n    def to_gpu(self):\n"
                "        return super().to_gpu()\n\n\nOurs().to_gpu()\n",
                "after": "import fastlib\n\n\nclass Ours(fastlib.Trainer):\n    def to_npu(self):\n"
                "        return super().to_npu()\n\n\nOurs().to_npu()\n",
            },
            {"keep": "import fastlib\n\nfastlib.Loader().to_gpu()\n"},
        ],
    }

    @property
    def name(self) -> str:
        """The member's own name."""
        return leaf(self.member)

    @property
    def owner(self) -> str:
        """The qualified name of the class."""
        return self.member.rpartition(".")[0]

    @property
    def index(self) -> str:
        return self.name

    @property
    def evidence(self) -> Evidence:
        return Evidence(self.name)

    @property
    def text(self) -> str:
        return f"the member `{self.name}` of `{self.owner}` and its subclasses, and definitions that override it"

    @property
    def subject(self) -> str:
        return self.member

    def meets(self, other: Match) -> bool:
        return isinstance(other, MemberMatch) and self.name == other.name

    def before(self, other: Match) -> str | None:
        if isinstance(other, (MethodMatch, AttributeMatch)) and other.index == self.name:
            return "rules for the members of a class come before rules for members by name"
        return None

    def why_not(self, site: Site, names: Names) -> str | None:
        if isinstance(site.node, ast.Attribute):
            return f"`{names.file.code(site.node.value)}` is not known to be a `{self.owner}`"
        return super().why_not(site, names)

    @classmethod
    def in_python(cls, work: FileRules) -> None:
        if rules := work.rules(cls.key):
            Members(work, rules).run()


# Functions that are given an object, and then the name of a member of it.
_BY_NAME = frozenset({"getattr", "hasattr", "setattr", "delattr", "object", "spy"})


class Members:
    """Applies rules for members of classes in one file."""

    def __init__(self, work: FileRules, rules: dict[str, list[Rule]]) -> None:
        self.work = work
        self.names = work.names
        self.file = work.names.file
        self.rules = rules
        self.matches = work.matches
        self.instances = Instances(work.names)

    def run(self) -> None:
        """Apply the rules to every use and definition."""
        for node, scope in self.file.uses:
            if isinstance(node, ast.Call):
                self._in_string(node, scope)
            for part in chain(node) if isinstance(node, ast.Attribute) else ():
                if isinstance(part, ast.Attribute) and part.attr in self.rules:
                    self._use(part, scope)
        for scope in self.file.scopes.values():
            for name in self.rules.keys() & scope.bindings.keys() if scope.kind == "class" else ():
                self._definition(name, scope)

    def _use(self, node: ast.Attribute, scope: Scope) -> None:
        for rule in self.rules[node.attr]:
            match = _match(rule)
            is_one = self._is_of(node.value, scope, match)
            if is_one:
                self._apply(rule, node)
                return
            if is_one is None and rule.then.rename is not None and self._may_be(node, scope, match):
                self._report(rule, name_bounds(self.file, node), node.attr)
                return

    def _report(self, rule: Rule, place: Bounds, name: str) -> None:
        message = (
            f"{rule.why} This may be {_match(rule).member}, whose new name is {rule.then.rename}: check what it is "
            f"read from."
        )
        self.matches.review(rule, place, name, message)

    def _is_of(self, owner: ast.expr, scope: Scope, match: MemberMatch) -> bool | None:
        """Return whether an expression is an object of a class, or a class derived from it; None where not known."""
        if self.names.qualified(owner, scope) == match.owner:
            return True
        wanted = Wanted(match.owner, match.name, with_overrides=True)
        if is_super(owner):
            cls = scope.enclosing_class()
            return cls is not None and gives(self.names, cls, wanted, inherited=True)
        found = self.names.definition(owner, scope)
        if found is not None:
            return gives(found.names, found.bound.scope, wanted)
        return self.instances.is_one(owner, scope, wanted)

    def _in_string(self, call: ast.Call, scope: Scope) -> None:
        """Apply the rule for a member that is asked for by its name: `getattr(trainer, "to_gpu")`."""
        is_patch = last_name(call.func) == "patch" and bool(call.args)
        given = call.args[0] if is_patch else call.args[1] if _takes_name(call) else None
        owner, _, name = (string_value(given) or "").rpartition(".")
        if given is None or bool(owner) != is_patch:
            return
        for rule in self.rules.get(name, ()):
            match = _match(rule)
            is_one = self._is_path_of(owner, match.owner) if is_patch else self._is_of(call.args[0], scope, match)
            text = StringText.of(self.file, given)
            if is_one is False or rule.then.keep:
                continue
            if is_one and text is not None and rule.then.rename is not None:
                self.matches.note(rule, text.place, match.member)
                new = f"{owner}.{rule.then.rename}".lstrip(".")
                self.matches.edit(Edit(text.place, text.quoted(new), rule.id, rule.why))
                return
            if is_one or (not is_patch and self.work.may_use(match.owner, name)):
                self._report(rule, self.file.bounds(given), name)
                return

    def _is_path_of(self, path: str, wanted: str) -> bool | None:
        """Return whether a dotted path in a text is that of a class, or of one of the project that derives from it."""
        if self.names.follow(path) == wanted:
            return True
        found = self.names.exported(path)
        return derives(found.names, found.bound.scope, wanted) if found and isinstance(found.bound, Defined) else False

    def _may_be(self, node: ast.Attribute, scope: Scope, match: MemberMatch) -> bool:
        """Return whether an object that is not known may be of the class."""
        return self.names.qualified(node, scope) is None and self.work.may_use(match.owner, node.attr)

    def _definition(self, name: str, cls: Scope) -> None:
        for rule in self.rules[name]:
            if derives(self.names, cls, _match(rule).owner):
                for node in _defined(cls, name):
                    self._apply(rule, node)
                return

    def _apply(self, rule: Rule, node: ast.expr | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        if rule.then.keep:
            return
        place = name_bounds(self.file, node)
        self.matches.note(rule, place, _match(rule).member)
        if rule.then.rename is not None:
            self.matches.edit(Edit(place, plain(rule.then.rename), rule.id, rule.why))


def _takes_name(call: ast.Call) -> bool:
    """Return whether a call is given an object and the name of a member of it: `hasattr`, `mock.patch.object`."""
    return last_name(call.func) in _BY_NAME and len(call.args) > 1


def _match(rule: Rule) -> MemberMatch:
    assert isinstance(rule.match, MemberMatch)
    return rule.match


def _defined(cls: Scope, name: str) -> Iterator[ast.Name | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """The definitions and assigned names in the body of a class that give it a member."""
    for binding in cls.bindings[name]:
        if isinstance(binding, Defined):
            yield binding.node
        elif isinstance(binding, Assigned) and isinstance(binding.statement, (ast.Assign, ast.AnnAssign)):
            statement = binding.statement
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            yield from (target for target in targets if isinstance(target, ast.Name) and target.id == name)
