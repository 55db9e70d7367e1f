"""The differences between two versions of a Python file, each as the rule that would make it."""

from __future__ import annotations

import ast
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from gpu2npu.kinds.setting import keys_above
from gpu2npu.project.learn.generalization import UnsaidError, call_rule, code_rule, statement_text
from gpu2npu.project.learn.meaning import FileMeanings, Observed, Sample
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.tree.syntax import FUNCTIONS, Import, blocks, imported_names, last_name, local_name, string_value
from gpu2npu.rulebook.match import Json

VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")
_LONGEST = 60  # lines of an example
_Rule = tuple[Json, Json]


def python_differences(before: Names, after: Names) -> Iterator[Observed]:
    """Every difference that a rule could make, by where it is in the version before."""
    versions = _Versions(FileMeanings(before), FileMeanings(after))
    yield from versions.block(before.file.tree.body, after.file.tree.body)


class _Versions:
    """Two versions of one file."""

    def __init__(self, old: FileMeanings, new: FileMeanings) -> None:
        self.old = old
        self.new = new

    def block(self, before: Sequence[ast.stmt], after: Sequence[ast.stmt]) -> Iterator[Observed]:
        """The differences of two blocks."""
        above: ast.stmt | None = None
        for one, other in aligned(before, after):
            if one is not None and other is not None:
                yield from self._statement(one, other)
            elif one is not None:
                yield from self._removed(one)
            elif other is not None and above is not None:
                yield from self._added(above, other)
            above = one

    def _statement(self, one: ast.stmt, other: ast.stmt) -> Iterator[Observed]:
        if isinstance(one, (ast.Import, ast.ImportFrom)):
            assert isinstance(other, (ast.Import, ast.ImportFrom))
            yield from self._imported(one, other)
            return
        if isinstance(one, ast.ClassDef):
            assert isinstance(other, ast.ClassDef)
            yield from self._bases(one, other)
        if isinstance(one, (*FUNCTIONS, ast.ClassDef)):
            assert isinstance(other, (*FUNCTIONS, ast.ClassDef))
            yield from self._definition(one, other)
        yield from self._children(one, other)
        for old_block, new_block in zip(blocks(one), blocks(other), strict=False):
            yield from self.block(old_block, new_block)

    # Statements

    def _imported(self, one: Import, other: Import) -> Iterator[Observed]:
        new = {local_name(alias, other): name for alias, name in imported_names(other)}
        for index, (alias, name) in enumerate(imported_names(one)):
            by_place = list(new.values())[index] if len(one.names) == len(new) else None
            target = new.get(local_name(alias, one), by_place)
            if target is not None and alias.name != "*" and self.old.is_foreign(name) and self.new.is_foreign(target):
                yield self._seen(({"name": name}, {"rename": target}), one)

    def _bases(self, one: ast.ClassDef, other: ast.ClassDef) -> Iterator[Observed]:
        old, new = [self.old.qualified(each) for each in one.bases], [self.new.qualified(each) for each in other.bases]
        retained = [name for name in old if name is not None and name in new]
        if new[1:] == old and new and new[0] is not None and retained:
            yield self._seen(({"class": retained[0]}, {"add": {"base": new[0]}}), one)
        for name in old if len(new) < len(old) else ():
            if name is not None and name not in new:
                yield self._seen(({"class": name}, {"remove": True}), one)

    def _definition(
        self,
        one: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef,
        other: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef,
    ) -> Iterator[Observed]:
        new = {self._decorator(each, self.new) for each in other.decorator_list}
        for each in one.decorator_list:
            name = self._decorator(each, self.old)
            if name is not None and name not in new and len(other.decorator_list) < len(one.decorator_list):
                yield self._seen(({"decorator": name}, {"remove": True}), one)
        cls = self.old.enclosing_definition(one)
        base = self.old.base_of(cls) if isinstance(cls, ast.ClassDef) else None
        if one.name != other.name and base is not None:
            yield self._seen(({"member": f"{base}.{one.name}"}, {"rename": other.name}), one)

    def _decorator(self, node: ast.expr, meaning: FileMeanings) -> str | None:
        return meaning.qualified(node.func if isinstance(node, ast.Call) else node)

    def _removed(self, statement: ast.stmt) -> Iterator[Observed]:
        name = _called(statement, self.old)
        if name is not None:
            yield self._seen(({"code": f"{name}(...)"}, {"remove": True}), statement)

    def _added(self, above: ast.stmt, statement: ast.stmt) -> Iterator[Observed]:
        """A call that is below a statement with another call."""
        name = next((name for call in ast.walk(above) if (name := _called(call, self.old)) is not None), None)
        if name is None or not isinstance(statement, ast.Expr) or _called(statement, self.new) is None:
            return
        try:
            added = {"statement": statement_text(statement, self.new), "place": "after"}
        except UnsaidError:
            return
        yield self._seen(({"code": f"{name}(...)"}, {"add": added}), above)

    # Expressions

    def _children(self, one: ast.AST, other: ast.AST) -> Iterator[Observed]:
        """The differences of the expressions right below two nodes of one type."""
        for field in one._fields:
            old, new = _expressions(one, field), _expressions(other, field)
            if len(old) == len(new):
                for part, replacement in zip(old, new, strict=True):
                    yield from self._expression(part, replacement)

    def _expression(self, one: ast.AST, other: ast.AST) -> Iterator[Observed]:
        name, target = self.old.qualified(one), self.new.qualified(other)
        if name is not None and target is not None:
            yield self._seen(({"name": name}, {"rename": target}), one)
        elif isinstance(one, ast.Constant) and isinstance(other, ast.Constant):
            yield from self._string(one, other)
        elif type(one) is not type(other) or (isinstance(one, ast.expr) and not _same_shape(one, other)):
            yield from self._replaced(one, other)
        elif isinstance(one, ast.Call) and isinstance(other, ast.Call):
            yield from self._call(one, other)
        elif isinstance(one, ast.Attribute) and isinstance(other, ast.Attribute):
            yield from self._attribute(one, other)
        else:
            yield from self._children(one, other)

    def _string(self, one: ast.Constant, other: ast.Constant) -> Iterator[Observed]:
        old, new = string_value(one), string_value(other)
        if not old or not new or old == new:
            return
        if VARIABLE.fullmatch(old) and VARIABLE.fullmatch(new):
            yield self._seen(({"environment": old}, {"rename": new}), one)
        elif keys := tuple(reversed(list(keys_above(self.old.file, one)))):
            yield self._seen(({"setting": ".".join(keys), "values": [old]}, {"rename": new}), one)
        elif is_specific(old):
            yield self._seen(({"string": old}, {"rename": new}), one)

    def _attribute(self, one: ast.Attribute, other: ast.Attribute) -> Iterator[Observed]:
        yield from self._expression(one.value, other.value)
        if one.attr == other.attr:
            return
        cls = self.old.class_of(one.value)
        if cls is not None:
            yield self._seen(({"member": f"{cls}.{one.attr}"}, {"rename": other.attr}), one)
        elif not is_specific(one.attr):
            return
        elif self.old.file.call_of(one) is not None:
            yield self._seen(({"method": one.attr}, {"rename": other.attr}), one)
        else:
            yield self._seen(({"attribute": one.attr}, {"rename": other.attr}), one)

    def _replaced(self, one: ast.AST, other: ast.AST) -> Iterator[Observed]:
        """The rule for an expression as a whole, or for the nearest one above it that a pattern can say."""
        if isinstance(one, ast.expr) and isinstance(other, ast.expr):
            try:
                yield self._seen(code_rule(one, other, self.old, self.new), one)
            except UnsaidError:
                return

    # Calls

    def _call(self, one: ast.Call, other: ast.Call) -> Iterator[Observed]:
        yield from self._expression(one.func, other.func)
        name = self.old.qualified(one.func)
        any_owner = isinstance(one.func, ast.Attribute) and is_specific(one.func.attr)
        callee = name or (f"*.{last_name(one.func)}" if any_owner else None)
        if callee is None or self.old.is_own(one.func):
            callee = None
        for index, (value, replacement) in enumerate(zip(one.args, other.args, strict=True)):
            yield from self._argument(callee, index, value, replacement)
        new = {each.arg: each for each in other.keywords}
        gone = [each for each in one.keywords if each.arg not in new]
        for keyword in one.keywords:
            if keyword.arg in new:
                yield from self._argument(callee, keyword.arg, keyword.value, new.pop(keyword.arg).value)
        if callee is not None:
            yield from self._keywords(callee, one, gone, list(new.values()))

    def _argument(
        self, callee: str | None, which: str | int | None, one: ast.expr, other: ast.expr
    ) -> Iterator[Observed]:
        old, new = string_value(one), string_value(other)
        if callee is not None and which is not None and old and new and old != new and not VARIABLE.fullmatch(old):
            yield self._seen(({"argument": which, "of": callee, "value": old}, {"rename": new}), one)
        elif (
            (isinstance(one, ast.Constant) and not (isinstance(one.value, str) and one.value))
            and ast.dump(one) != ast.dump(other)
            and callee
            and "*" not in callee
            and isinstance(which, str)
        ):
            yield from self._argument_rules(callee, ast.keyword(which, one), ast.keyword(which, other), one)
        else:
            yield from self._expression(one, other)

    def _keywords(
        self, callee: str, call: ast.Call, gone: Sequence[ast.keyword], added: Sequence[ast.keyword]
    ) -> Iterator[Observed]:
        rest = list(added)
        for keyword in gone:
            same = [each for each in rest if ast.dump(each.value) == ast.dump(keyword.value)]
            match = {"argument": keyword.arg, "of": callee}
            if same:
                rest.remove(same[0])
                yield self._seen((match, {"replace": f"{same[0].arg}={{value}}"}), keyword)
            elif keyword.arg is not None:
                yield self._seen((match, {"remove": True}), keyword)
        for keyword in rest if "*" not in callee else ():
            yield from self._argument_rules(callee, None, keyword, call)

    def _argument_rules(
        self, callee: str, keyword: ast.keyword | None, after: ast.keyword | None, place: ast.AST
    ) -> Iterator[Observed]:
        try:
            yield self._seen(call_rule(callee, keyword, after, self.old, self.new), place)
        except UnsaidError:
            return

    # Places

    def _seen(self, rule: _Rule, node: ast.AST) -> Observed:
        line = self.old.file.span(node).start_line
        return Observed(*rule, self.old.file.path, line, tuple(self._samples(node)))

    def _samples(self, node: ast.AST) -> Iterator[Sample]:
        """The statement of a place, the function or class around it, and the whole file, as texts that are alone."""
        file = self.old.file
        statement = file.statement(node) if not isinstance(node, ast.keyword) else file.statement(file.parents[node])
        enclosing = self.old.enclosing_definition(statement)
        outermost = [each for each in file.above(statement) if isinstance(each, ast.stmt)][-1:]
        for each in (statement, enclosing, *outermost):
            if isinstance(each, ast.stmt):
                start, end = file.bounds(each)
                text = textwrap.dedent(file.indentation(start) + file.text[start:end])
                if isinstance(each, ast.Return) and each.value is not None and "\n" not in text:
                    text = f"result = {file.code(each.value)}"
                if text.count("\n") < _LONGEST:
                    imports = "" if isinstance(each, (ast.Import, ast.ImportFrom)) else self.old.imports_for(each)
                    yield Sample("example.py", f"{imports}{text}\n")
        if file.text.count("\n") < _LONGEST:
            yield Sample("example.py", file.text)


def is_specific(text: str) -> bool:
    """Return whether a rule may be meant for a text wherever it is, since it is more than one word: `gpu` may mean
    anything in other projects, `to_gpu` and `gpu-pinned` have a meaning of their own."""
    return len(re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", text)) > 1


def _expressions(node: ast.AST, field: str) -> list[ast.AST]:
    """The nodes in a field of a node, without statements."""
    value = getattr(node, field, None)
    parts = value if isinstance(value, list) else [value]
    return [each for each in parts if isinstance(each, ast.AST) and not isinstance(each, (ast.stmt, ast.expr_context))]


def _same_shape(one: ast.AST, other: ast.AST) -> bool:
    """Return whether what is right below two expressions can be compared part by part."""
    if isinstance(one, ast.Call) and isinstance(other, ast.Call):
        stars = [each for each in (*one.args, *other.args) if isinstance(each, ast.Starred)]
        return len(one.args) == len(other.args) and not stars
    if isinstance(one, ast.Name) and isinstance(other, ast.Name):
        return one.id == other.id
    return all(len(_expressions(one, field)) == len(_expressions(other, field)) for field in one._fields)


def _called(node: ast.AST, meaning: FileMeanings) -> str | None:
    """The qualified name of the function that an expression, or the expression of a statement, calls."""
    call = node.value if isinstance(node, ast.Expr) else node
    return meaning.qualified(call.func) if isinstance(call, ast.Call) else None


Pair = tuple[ast.stmt | None, ast.stmt | None]
_WORD = re.compile(r"\w+")
_PLAIN = frozenset({"import", "from", "as", "def", "class", "self", "return", "if", "for", "in", "with", "None"})
_LEAST = 0.3  # the part of their words that two statements share at least
_SAME_NAME = 0.9


def aligned(before: Sequence[ast.stmt], after: Sequence[ast.stmt]) -> Iterator[Pair]:
    """The statements of two blocks in their order, in pairs; None is beside one without a partner."""
    matcher = SequenceMatcher(None, list(map(ast.dump, before)), list(map(ast.dump, after)), autojunk=False)
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        if tag == "equal":
            yield from zip(before[start:end], after[new_start:new_end], strict=True)
        else:
            yield from _most_alike(before[start:end], after[new_start:new_end])


def _most_alike(before: Sequence[ast.stmt], after: Sequence[ast.stmt]) -> Iterator[Pair]:
    """The pairs, in order, whose likeness comes to the most in all."""
    old, new = [_words(each) for each in before], [_words(each) for each in after]
    likeness = [
        [_likeness(one, other, old[i], new[j]) for j, other in enumerate(after)] for i, one in enumerate(before)
    ]
    best = [[0.0] * (len(after) + 1) for _ in range(len(before) + 1)]
    for i in reversed(range(len(before))):
        for j in reversed(range(len(after))):
            both = likeness[i][j] + best[i + 1][j + 1] if likeness[i][j] else 0.0
            best[i][j] = max(both, best[i + 1][j], best[i][j + 1])
    i = j = 0
    while i < len(before) and j < len(after):
        if likeness[i][j] and best[i][j] == likeness[i][j] + best[i + 1][j + 1]:
            yield before[i], after[j]
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            yield before[i], None
            i += 1
        else:
            yield None, after[j]
            j += 1
    yield from ((each, None) for each in before[i:])
    yield from ((None, each) for each in after[j:])


def _words(statement: ast.stmt) -> Counter[str]:
    words = Counter(_WORD.findall(ast.unparse(statement)))
    return Counter({word: count for word, count in words.items() if word not in _PLAIN}) or words


def _likeness(one: ast.stmt, other: ast.stmt, words: Counter[str], others: Counter[str]) -> float:
    """The part of their words that two statements share, 0 for those that are not versions of each other."""
    if type(one) is not type(other) or not words or not others:
        return 0.0
    shared = 2 * (words & others).total() / (words.total() + others.total())
    if getattr(one, "name", "") and getattr(one, "name", "") == getattr(other, "name", ""):
        return max(shared, _SAME_NAME)
    return shared if shared >= _LEAST else 0.0
