"""Rules for attributes by their names alone."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gpu2npu.engine.code_matching import FLAG_HOLDERS
from gpu2npu.engine.file_rules import FileRules, Handlers
from gpu2npu.engine.matches import ReceiverQuestion
from gpu2npu.engine.strings.texts import StringText
from gpu2npu.python.meaning.mocks import CONFIGURE, SPECS, is_mock
from gpu2npu.python.meaning.object_kinds import MODULE, OWN
from gpu2npu.python.meaning.types import TENSOR
from gpu2npu.python.text.tokens import name_bounds
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import elements, last_name, string_value
from gpu2npu.records import Edit
from gpu2npu.rulebook.match import IDENTIFIER, Evidence, Json, Match, leaf
from gpu2npu.rulebook.rule import Rule

if TYPE_CHECKING:
    from gpu2npu.project.line_sites import Site
    from gpu2npu.python.meaning.names import Names


@dataclass(frozen=True)
class AttributeMatch(Match):
    """An attribute that is read, `x.is_cuda`, on anything but an object whose class defines it itself.

    `of`: only on what a call of this function gave; else on any object.
    """

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
        "why": "Our wrappers tell the device by another attribute.",
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


class Attributes:
    """Applies rules for attributes in one file."""

    def __init__(self, work: FileRules) -> None:
        self.names = work.names
        self.file = work.file
        self.rules = work.table.attributes
        self.matches = work.matches
        self.work = work

    def attribute(self, node: ast.Attribute, scope: Scope) -> None:
        """Apply the rules for the attributes in a dotted expression."""
        part: ast.expr = node
        while isinstance(part, ast.Attribute):
            rule = self.rules.get(part.attr)
            if rule is not None and self._is_wanted(part, scope) and self._is_of(part, rule, scope):
                self.member(part, rule, scope)
            part = part.value

    def _is_wanted(self, node: ast.Attribute, scope: Scope) -> bool:
        """Return whether an attribute is read, or given to a mock, and no rule is for its qualified name."""
        if not self.work.is_read(node):
            return any(map(is_mock, self.names.callees(node.value, scope)))
        qualified = self.names.qualified(node, scope)
        return qualified is None or self.work.table.rule_for(qualified) is None

    def call(self, node: ast.Call, scope: Scope) -> bool:
        """Apply the rules for a method of a result, and for an attribute that is asked for by a string."""
        if is_mock(self.names.qualified(node.func, scope)) or last_name(node.func) == CONFIGURE:
            self.given_to_mock(node)
        self.called_member(node.func, scope)
        is_renamed = self.member_by_string(node, scope)
        if is_renamed:
            self.work.settled.add(node.args[1])
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
            if rule.then.rename is not None and not kinds & {MODULE, TENSOR}:
                edit = Edit(place, rule.then.rename, rule.id, rule.why)
                self.matches.questions.append(ReceiverQuestion(holder, member, edit))
                return
        self.matches.note(rule, place, member)
        if rule.then.rename is not None:
            self.matches.edits.append(Edit(place, rule.then.rename, rule.id, rule.why))

    def given_to_mock(self, node: ast.Call) -> None:
        """Apply the rules for attributes to those that a mock is made with: `Mock(is_cuda=True)`, and those for methods
        too to names in strings: `Mock(spec=["cuda"])`, `m.configure_mock(**{"cuda.return_value": m})`."""
        for keyword in node.keywords:
            for each in _named_by_string(keyword):
                self.mocked_name(each)
            rule = self.rules.get(keyword.arg or "")
            if rule is not None and rule.then.rename is not None and not rule.then.keep:
                start = self.file.bounds(keyword)[0]
                place = start, start + len(keyword.arg or "")
                self.matches.edits.append(Edit(place, rule.then.rename, rule.id, rule.why))

    def mocked_name(self, node: ast.expr) -> None:
        """Rename what a string says that a mock has, `cuda.return_value`."""
        text = StringText.of(self.file, node)
        if text is None:
            return
        parts = text.raw.split(".")
        rules = [self.rules.get(part) or self.work.table.methods.get(part) for part in parts]
        renaming = [rule if rule is not None and rule.then.rename and not rule.then.keep else None for rule in rules]
        named = next((rule for rule in renaming if rule is not None), None)
        if named is not None:
            new = ".".join(
                rule.then.rename or part if rule else part for part, rule in zip(parts, renaming, strict=True)
            )
            self.matches.edits.append(Edit(text.place, text.quoted(new), named.id, named.why))
            self.work.settled.add(node)

    def called_member(self, node: ast.expr, scope: Scope) -> None:
        """Apply an attribute rule for the results of one function to a method of such a result: `prof.events()`."""
        rule = self.rules.get(node.attr) if isinstance(node, ast.Attribute) else None
        if rule is None or not isinstance(node, ast.Attribute) or not isinstance(rule.match, AttributeMatch):
            return
        if rule.match.of is not None and self._is_of(node, rule, scope):
            self.member(node, rule, scope)

    def member_by_string(self, node: ast.Call, scope: Scope) -> bool:
        """Apply the rule for `getattr(x, "is_cuda", False)`; gives whether it was renamed."""
        if not (isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr") and len(node.args) > 1):
            return False
        holder, name = node.args[:2]
        rule = self.rules.get(string_value(name) or "")
        if rule is None or rule.then.rename is None or rule.then.keep:
            return False
        text = StringText.of(self.file, name)
        if text is None or last_name(holder) in FLAG_HOLDERS or self.work.kinds.of(holder, scope, text.raw) == {OWN}:
            return False
        self.matches.edits.append(Edit(text.place, text.quoted(rule.then.rename), rule.id, rule.why))
        return True

    def _is_of(self, node: ast.Attribute, rule: Rule, scope: Scope) -> bool:
        """Return whether the attribute is read on what the rule asks for: the result of a certain function."""
        assert isinstance(rule.match, AttributeMatch)
        return rule.match.of is None or rule.match.of in self.names.callees(node.value, scope)


def _named_by_string(keyword: ast.keyword) -> Sequence[ast.expr]:
    """The strings of an argument of a mock that name what it has."""
    if keyword.arg is None and isinstance(keyword.value, ast.Dict):
        return [each for each in keyword.value.keys if each is not None]
    return elements(keyword.value) if keyword.arg in SPECS else ()
