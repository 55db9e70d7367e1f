"""Comparisons of what a name has from a call, as rules match them where the call is compared itself."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence

from gpu2npu.engine.code_matching import Matched
from gpu2npu.engine.other_devices.capability import compared_answer
from gpu2npu.engine.other_devices.choices import chooses
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.text.templates import code
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.scopes import Assigned
from gpu2npu.python.tree.syntax import elements
from gpu2npu.records import Edit
from gpu2npu.rulebook.code_pattern import parse_code
from gpu2npu.rulebook.rule import Rule


def through_names(
    names: Names, rules: Mapping[str, Sequence[Rule]], met: Collection[ast.AST]
) -> Iterator[tuple[Rule, Matched]]:
    """Yield the comparisons beside those `met` for which code rules choose: `if major >= 8:` below `major, _ = f()`."""
    file = names.file
    wanted: dict[tuple[str, type[ast.AST]], tuple[Rule, str]] = {}
    for rule in (rule for each in rules.values() for rule in each):
        word = getattr(rule.match, "chooses", None)
        tree = parse_code(rule.match.subject).tree if word is not None else None
        if word is not None and isinstance(tree, ast.Compare):
            wanted[_answer(tree.left), type(tree.ops[0])] = rule, word
    for node in file.unordered().get(ast.Compare, ()) if wanted else ():
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and node not in met:
            words = [word for _, word in wanted.values() if chooses(file, node, word)]
            found = wanted.get((compared_answer(node, names) or "", type(node.ops[0]))) if words else None
            if found is not None and found[1] in words:
                yield found[0], Matched(node, file.scope_of(node))


def _answer(code: ast.expr) -> str:
    """The code of a pattern as `compared_answer` gives it."""
    if isinstance(code, ast.Call):
        return f"{_answer(code.func)}()"
    if isinstance(code, ast.Subscript):
        return f"{_answer(code.value)}[{ast.unparse(code.slice)}]"
    return f"{_answer(code.value)}.{code.attr}" if isinstance(code, ast.Attribute) else ast.unparse(code)


def unpacked(file: PythonFile, replaced: Sequence[tuple[Rule, Matched]]) -> Iterator[Edit]:
    """Yield `a, b = f() or (0, 0)` for `a, b = f()`, which gives None, where all other uses of the names test whether
    they are large: the answer is that of a GPU which can do nothing."""
    gone = {node for _, matched in replaced for node in walk(matched.node)}
    for binding in {each for _, matched in replaced for each in _bindings(matched)}:
        statement = binding.statement
        if not (binding.is_part and isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call)):
            continue
        parts = {ast.unparse(part) for target in statement.targets for part in elements(target)}
        scope = file.scope_of(statement)
        uses = [
            use
            for use, other in file.uses
            if isinstance(use, (ast.Name, ast.Attribute)) and isinstance(use.ctx, ast.Load)
            if other is scope and ast.unparse(use) in parts
        ]
        if all(use in gone or _is_lower_bound(file.parents[use], use) for use in uses):
            rule, bounds = replaced[0][0], file.bounds(statement.value)
            zeros = ast.unparse(ast.Tuple([ast.Constant(0) for _ in parts], ast.Load()))
            yield Edit(bounds, code("{answer} or {zeros}", answer=bounds, zeros=zeros), rule.id, rule.why)


def _bindings(matched: Matched) -> Iterator[Assigned]:
    """Yield the assignments of the names in a comparison."""
    for node in walk(matched.node):
        if isinstance(node, (ast.Name, ast.Attribute)):
            yield from (each for each in matched.scope.bound(node) if isinstance(each, Assigned))


def _is_lower_bound(test: ast.AST, value: ast.AST) -> bool:
    """`value >= 9`, which is not so for 0"""
    return isinstance(test, ast.Compare) and test.left is value and isinstance(test.ops[0], (ast.Gt, ast.GtE))
