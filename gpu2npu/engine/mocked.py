"""Members that a mock is made with or given by name, which are renamed with the code that reads them of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from gpu2npu.engine.code_matching import FLAG_HOLDERS
from gpu2npu.engine.file_rules import FileRules
from gpu2npu.engine.strings.texts import StringText
from gpu2npu.python.meaning.mocks import ATTACH, CONFIGURE, MOCK_MEMBERS, SET_UP, SPECS, makes_mock
from gpu2npu.python.meaning.object_kinds import OWN
from gpu2npu.python.text.templates import plain
from gpu2npu.python.tree.scopes import Defined, Scope
from gpu2npu.python.tree.syntax import elements, last_name
from gpu2npu.records import Edit, FindingKind, Found, Severity
from gpu2npu.rulebook.rule import Rule

_OPEN = "A mock is given this name; rename it if the code that gets the mock reads the new one."
_PLAIN = (ast.Constant, ast.Dict, ast.JoinedStr, ast.List, ast.Set, ast.Tuple)


class _Mock(Struct, frozen=True):
    """A call that makes or sets up a mock. `holder` is what the mock is bound to: a name, or an attribute."""

    call: ast.Call
    scope: Scope
    holder: ast.expr | None


class _Member(Struct, frozen=True):
    """A name that a mock is given: a string, `"cuda.return_value"`, or a keyword; `value` is what the mock has by it,
    None where that is not said. `is_shared`: the name is for other code as well, or only perhaps for the mock."""

    node: ast.expr | ast.keyword
    value: ast.expr | None
    is_shared: bool = False


class MockedMembers:
    """Renames in one file what mocks are given by name."""

    def __init__(self, work: FileRules) -> None:
        self.work = work
        self.file = work.file
        self.names = work.names
        self.seen: set[ast.AST] = set()

    def given(self, call: ast.Call, scope: Scope) -> None:
        """Apply the rules for attributes to those that a mock is made with: `Mock(is_cuda=True)`, and those for methods
        too to names in strings: `Mock(spec=["cuda"])`, `m.configure_mock(**{"cuda.return_value": m})`."""
        mock = _Mock(call, scope, self._holder(call))
        if last_name(call.func) == ATTACH:
            for child, name in [call.args] if len(call.args) == 2 else ():
                self._member(_Member(name, child), mock)
            return
        for keyword in call.keywords:
            for member in self._members(keyword, scope):
                if member.node not in self.seen:
                    self.seen.add(member.node)
                    self._member(member, mock)

    def _members(self, keyword: ast.keyword, scope: Scope) -> Iterator[_Member]:
        """Yield what one argument names."""
        if keyword.arg in SPECS:
            yield from (_Member(each, None) for each in elements(keyword.value))
        elif keyword.arg is not None:
            yield _Member(keyword, keyword.value)
        else:
            yield from self._unpacked(keyword.value, scope)

    def _unpacked(self, value: ast.expr, scope: Scope) -> Iterator[_Member]:
        """Yield what a dict names that `**` unpacks; that of a name is the mock's alone where it is assigned once, and
        is read only where such calls unpack it."""
        if not isinstance(value, ast.Name):
            yield from _of_dict(value)
            return
        is_shared = scope.only_value(value.id) is None or not all(map(self._is_given, self.file.reads(value.id, scope)))
        for made in scope.values(value):
            for each in _of_dict(made) if made is not None else ():
                yield replace(each, is_shared=is_shared)

    def _is_given(self, node: ast.expr) -> bool:
        """Return whether a name is the `x` of `**x` in a call that makes or sets up a mock."""
        above = self.file.parents[node]
        call = self.file.parents[above] if isinstance(above, ast.keyword) and above.arg is None else None
        if not isinstance(call, ast.Call):
            return False
        scope = self.file.scope_of(node)
        return last_name(call.func) == CONFIGURE or makes_mock(call, self.names.qualified(call.func, scope))

    def _holder(self, call: ast.Call) -> ast.expr | None:
        if last_name(call.func) in SET_UP:
            return call.func.value if isinstance(call.func, ast.Attribute) else None
        above = self.file.parents[call]
        if isinstance(above, ast.Assign):
            return above.targets[0]
        if isinstance(above, (ast.AnnAssign, ast.NamedExpr)):
            return above.target
        return above.optional_vars if isinstance(above, ast.withitem) else None

    def _member(self, member: _Member, mock: _Mock) -> None:
        """Rename what one argument, or one string of it, names."""
        text = None
        if isinstance(member.node, ast.keyword):
            start, name = self.file.bounds(member.node)[0], member.node.arg or ""
            place = start, start + len(name)
        else:
            text = StringText.of(self.file, member.node)
            if text is None:
                return
            name, place = text.raw, text.place
        parts = name.split(".")
        found = [self._rule(parts, index, member) for index in range(len(parts))]
        rule = next((each for each in found if each is not None), None)
        if rule is None or self._is_own(parts[0], mock):
            return
        answers = [self._is_renamed(parts, index, member, mock) for index, each in enumerate(found) if each is not None]
        if member.is_shared or None in answers or self._is_own(CONFIGURE, mock):
            message = f"{rule.why} {_OPEN}"
            self.work.matches.report(Found(place, rule.id, FindingKind.REVIEW, name, message, Severity.CHANGE))
            return
        renamed = iter(answers)
        new = ".".join(
            each.then.rename or part if each is not None and next(renamed) else part
            for part, each in zip(parts, found, strict=True)
        )
        if new != name:
            self.work.matches.edit(Edit(place, text.quoted(new) if text is not None else plain(new), rule.id, rule.why))
            self.work.handled.add(member.node)

    def _rule(self, parts: list[str], index: int, member: _Member) -> Rule | None:
        """The rule that renames a part of a name: one for attributes, or in a string one for methods."""
        table = self.work.table
        rule = table.attributes.get(parts[index])
        if rule is None and not isinstance(member.node, ast.keyword):
            rule = table.methods.get(parts[index])
        return rule if rule is not None and rule.then.rename is not None else None

    def _is_own(self, name: str, mock: _Mock) -> bool:
        """Return whether the class of the project that a mock is like, or an object is of, defines a member."""
        func = mock.call.func
        node = func.value if last_name(func) in SET_UP and isinstance(func, ast.Attribute) else mock.call
        return self.work.kinds.of(node, mock.scope, name) == {OWN}

    def _is_renamed(self, parts: list[str], index: int, member: _Member, mock: _Mock) -> bool | None:
        """Return whether the reads of a part of a name are renamed; None where that is not known."""
        owner = parts[index - 1] if index else last_name(mock.holder) if mock.holder is not None else None
        name, is_last = parts[index], index == len(parts) - 1
        if name in self.work.table.attributes:
            return owner not in FLAG_HOLDERS
        if is_last and isinstance(member.value, (*_PLAIN, ast.Compare, ast.UnaryOp)):
            return False
        uses = {self._is_method(each) for each in self._uses(name, mock)} if not index else set()
        if uses:
            return uses.pop() if len(uses) == 1 else None
        if owner in FLAG_HOLDERS:
            return False
        if member.value is None or not is_last:
            return True
        return True if self._is_callable(member.value, mock.scope) else None

    def _uses(self, name: str, mock: _Mock) -> Iterator[ast.Attribute]:
        """Yield where a member of the name that a mock is bound to is read or set."""
        holder = mock.holder
        if not isinstance(holder, (ast.Name, ast.Attribute)):
            return
        found = mock.scope.lookup(holder.id) if isinstance(holder, ast.Name) else None
        for node in self.file.parents:
            if not isinstance(node, ast.Attribute) or node.attr != name or last_name(node.value) != last_name(holder):
                continue
            of = node.value
            if isinstance(of, ast.Name) and self.file.scope_of(of).lookup(of.id) != found:
                continue
            if type(of) is type(holder):
                yield node

    def _is_method(self, node: ast.Attribute) -> bool:
        """Return whether a use of a member says that it is a method: it is called, or used as a mock."""
        above = self.file.parents[node]
        if isinstance(above, ast.Attribute):
            return above.attr in MOCK_MEMBERS
        return self.file.call_of(node) is not None

    def _is_callable(self, value: ast.expr, scope: Scope) -> bool:
        if isinstance(value, ast.Call):
            return makes_mock(value, self.names.qualified(value.func, scope))
        bound = scope.bound(value)
        return isinstance(value, ast.Lambda) or (bool(bound) and all(isinstance(each, Defined) for each in bound))


def _of_dict(value: ast.expr) -> Iterator[_Member]:
    """Yield the names in a dict display, or in `dict({...}, name=value)`."""
    if isinstance(value, ast.Dict):
        for key, each in zip(value.keys, value.values, strict=True):
            if key is not None:
                yield _Member(key, each)
            else:
                yield from _of_dict(each)
    elif isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "dict":
        for first in value.args[:1]:
            yield from _of_dict(first)
        for keyword in value.keywords:
            if keyword.arg is not None:
                yield _Member(keyword, keyword.value)
            else:
                yield from _of_dict(keyword.value)
