"""Rules for attributes by their names alone."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, ClassVar

from gpu2npu.engine.code_matching import FLAG_HOLDERS
from gpu2npu.engine.file_rules import FileRules, Handlers
from gpu2npu.engine.mocked import MockedMembers
from gpu2npu.engine.strings.texts import StringText
from gpu2npu.python.meaning.mocks import SET_UP, makes_mock
from gpu2npu.python.meaning.object_kinds import MODULE, OWN
from gpu2npu.python.meaning.types import TENSOR
from gpu2npu.python.text.templates import plain
from gpu2npu.python.text.tokens import name_bounds
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import last_name, string_value
from gpu2npu.records import Edit
from gpu2npu.rulebook.match import IDENTIFIER, Evidence, Json, Match, leaf
from gpu2npu.rulebook.rule import Rule
from gpu2npu.support.release_tables import of_torch_npu

if TYPE_CHECKING:
    from gpu2npu.engine.line_sites import Site
    from gpu2npu.python.meaning.names import Names


class AttributeMatch(Match, frozen=True):
    """An attribute that is read, on any object but one whose class defines it itself; with `"of": "lib.info"` only on
    what a call of that function gave."""

    attribute: str
    of: str | None = None

    key = "attribute"
    shape: ClassVar[Json] = {
        "attribute": {
            "description": "An attribute that is read, with `of` a method that is called too.",
            "$ref": "#/$defs/identifier",
        },
        "of": {
            "description": "The function whose result it is read on; any object unless given.",
            "$ref": "#/$defs/qualified_name",
        },
    }
    actions = ("rename", "imports")
    new_name = (IDENTIFIER, "an identifier")
    order = 2
    starter: ClassVar[Json] = {
        "$comment": "An attribute that is read, by its name alone.",
        "why": "Our wrappers name the device by another attribute.",
        "match": {"attribute": "on_gpu"},
        "then": {"rename": "on_npu"},
        "examples": [{"before": "if batch.on_gpu: ...\n", "after": "if batch.on_npu: ...\n"}],
    }

    @property
    def evidence(self) -> Evidence:
        return Evidence(f"{leaf(self.of or '')} {self.attribute}".strip())

    @property
    def text(self) -> str:
        return f"reads of `.{self.attribute}`" + (f" on what `{self.of}` gives" if self.of else "")

    @property
    def subject(self) -> str:
        return f"{f'{self.of}()' if self.of else ''}.{self.attribute}"

    def why_not(self, site: Site, names: Names) -> str | None:
        shown = site.shown
        if not isinstance(site.node, ast.Attribute):
            return f"`{shown}` is not an attribute"
        if site.call is not None:
            return f"`{shown}` is called; the rule is for an attribute that is read"
        if self.of is not None and self.of not in names.callees(site.node.value, site.scope):
            return f"`{shown}` is not read on what `{self.of}` gives"
        own = site.why_not_own(names)
        return own or f"`{shown}` is not read from a tensor here: it is assigned, or a flag of the program's own"

    @classmethod
    def handlers(cls, work: FileRules) -> Handlers:
        attributes = Attributes(work)
        return {ast.Attribute: attributes.attribute, ast.Call: attributes.call}


# A file that makes a mock, or sets one up, has one of these in its text.
_OF_MOCKS = ("mock", "Mock", "patch")


class Attributes:
    """Applies rules for attributes in one file."""

    def __init__(self, work: FileRules) -> None:
        self.names = work.names
        self.file = work.file
        self.rules = work.table.attributes
        self.matches = work.matches
        self.work = work
        self.mocked = MockedMembers(work)
        self.has_mocks = any(word in self.file.text for word in _OF_MOCKS)

    def attribute(self, node: ast.Attribute, scope: Scope) -> None:
        """Apply the rules for the attributes in a dotted expression."""
        part: ast.expr = node
        while isinstance(part, ast.Attribute):
            rule = self.rules.get(part.attr)
            if rule is not None and self._is_wanted(part, scope) and self._is_of(part, rule, scope):
                self.member(part, rule, scope)
            part = part.value

    def _is_wanted(self, node: ast.Attribute, scope: Scope) -> bool:
        """Return whether an attribute is read, or given to a mock, and no rule is for its qualified name nor was."""
        if not self.work.is_read(node):
            calls = self.names.calls(node.value, scope)
            return any(makes_mock(each, self.names.qualified(each.func, scope)) for each in calls)
        qualified = self.names.qualified(node, scope)
        return qualified is None or (self.work.table.rule_for(qualified) is None and not of_torch_npu(qualified))

    def call(self, node: ast.Call, scope: Scope) -> bool:
        """Apply the rules for a method of a result, and for an attribute that is asked for by a string."""
        if self.has_mocks and (
            last_name(node.func) in SET_UP or makes_mock(node, self.names.qualified(node.func, scope))
        ):
            self.mocked.given(node, scope)
        self.called_member(node.func, scope)
        is_renamed = self.member_by_string(node, scope)
        if is_renamed:
            self.work.handled.add(node.args[int(len(node.args) > 1)])
        return is_renamed

    def member(self, node: ast.Attribute, rule: Rule, scope: Scope) -> None:
        """Apply an attribute rule, such as the one for `x.is_cuda`."""
        holder, member = node.value, node.attr
        name = holder.attr if isinstance(holder, ast.Attribute) else getattr(holder, "id", None)
        if name in FLAG_HOLDERS or rule.then.keep:
            return
        place = name_bounds(self.file, node)
        if self.work.has_own(member, read=True):
            kinds = self.work.kinds.of(holder, scope, member)
            if kinds == {OWN}:
                return
            if rule.then.rename is not None and (OWN in kinds or not kinds & {MODULE, TENSOR}):
                edit = Edit(place, plain(rule.then.rename), rule.id, rule.why)
                self.matches.edit_member(holder, member, edit, kinds)
                return
        self.matches.note(rule, place, member)
        if rule.then.rename is not None:
            self.matches.edit(Edit(place, plain(rule.then.rename), rule.id, rule.why))

    def called_member(self, node: ast.expr, scope: Scope) -> None:
        """Apply an attribute rule for the results of one function to a method of such a result: `prof.events()`."""
        rule = self.rules.get(node.attr) if isinstance(node, ast.Attribute) else None
        if rule is None or not isinstance(node, ast.Attribute) or not isinstance(rule.match, AttributeMatch):
            return
        if rule.match.of is not None and self._is_of(node, rule, scope):
            self.member(node, rule, scope)

    def member_by_string(self, node: ast.Call, scope: Scope) -> bool:
        """Apply the rule for `getattr(x, "is_cuda")` or `attrgetter("is_cuda")`; gives whether it was renamed."""
        is_builtin = isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr") and len(node.args) > 1
        is_text = len(node.args) == 1 and node.args[0].__class__ is ast.Constant
        if not is_builtin and not (is_text and last_name(node.func) == "attrgetter"):
            return False
        holder, name = node.args[0], node.args[int(is_builtin)]
        rule = self.rules.get(string_value(name) or "")
        if rule is None or rule.then.rename is None or rule.then.keep:
            return False
        text = StringText.of(self.file, name)
        if text is None or last_name(holder) in FLAG_HOLDERS or self.work.kinds.of(holder, scope, text.raw) == {OWN}:
            return False
        self.matches.edit(Edit(text.place, text.quoted(rule.then.rename), rule.id, rule.why))
        return True

    def _is_of(self, node: ast.Attribute, rule: Rule, scope: Scope) -> bool:
        """Return whether the attribute is read on what the rule asks for: the result of a certain function."""
        assert isinstance(rule.match, AttributeMatch)
        return rule.match.of is None or rule.match.of in self.names.callees(node.value, scope)
