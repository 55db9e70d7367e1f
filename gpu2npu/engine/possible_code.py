"""Code that may be what a rule's pattern means, where not all of it is known: it is reported and stays."""

from __future__ import annotations

import ast

from gpu2npu.engine.code_matching import Matched, Unknown
from gpu2npu.engine.file_rules import FileRules
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.meaning.object_kinds import UNKNOWN
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import last_name
from gpu2npu.rulebook.code_pattern import CodePattern, qualified_name
from gpu2npu.rulebook.rule import Rule

# What is handed a function or class and does not call it.
_LOOKS_AT = frozenset(
    {"isinstance", "issubclass", "callable", "hasattr", "getattr", "type", "id", "print", "repr", "cast", "signature"}
)


def function_as_value(names: Names, pattern: CodePattern, part: ast.expr, scope: Scope) -> Matched | None:
    """A function that a pattern calls, where code hands it to something else: `functools.partial(lib.norm, eps=1)`,
    `map(lib.norm, xs)`, `{"norm": lib.norm}`, `def f(norm=lib.norm)`, `self.norm = lib.norm`."""
    called = pattern.tree.func if isinstance(pattern.tree, ast.Call) else None
    qualified = qualified_name(called) if called is not None else None
    if qualified is None or "." not in qualified or not _is_forwarded(names, part):
        return None
    if names.qualified(part, scope) != qualified:
        return None
    return Matched(
        part, scope, names=[part], unknown=[Unknown("it is not called here, and what calls it is not known")]
    )


def _is_forwarded(names: Names, node: ast.expr) -> bool:
    parents = names.file.parents
    above = parents[node]
    if isinstance(above, ast.keyword):
        above = parents[above]
    elif isinstance(above, ast.Call) and node not in above.args:
        return False
    if isinstance(above, (ast.List, ast.Tuple, ast.IfExp, ast.BoolOp)):
        taking = (ast.Assign, ast.AnnAssign, ast.Return, ast.For, ast.comprehension, ast.arguments)
        return isinstance(parents[above], taking)
    if isinstance(above, ast.Call):
        return last_name(above.func) not in _LOOKS_AT
    if isinstance(above, ast.Assign):  # uses of a name that is assigned are followed
        return not all(isinstance(target, ast.Name) for target in above.targets)
    return isinstance(above, (ast.Dict, ast.Return, ast.arguments))


def possible_message(work: FileRules, rule: Rule, matched: Matched) -> str | None:
    """The sentence for a possible match of a rule; None where none is worth one: where another rule is for the name, a
    rule is for objects that are not known or for a dict that is written out, or the file has nothing to do with the
    class that it may be of."""
    if rule.then.keep or UNKNOWN in dict(getattr(rule.match, "types", ())).values():
        return None
    pattern = getattr(rule.match, "pattern", None)
    if isinstance(pattern, CodePattern) and any(isinstance(each, ast.Dict) for each in walk(pattern.tree)):
        return None
    node = matched.node
    qualified = work.names.qualified(node, matched.scope)
    if qualified is not None and work.table.rule_for(qualified) is not None:
        return None
    member = node.attr if isinstance(node, ast.Attribute) else ""
    if any(each.cls is not None and not work.may_use(each.cls, member) for each in matched.unknown):
        return None
    return f"{rule.why} This may be such a place: {'; '.join(each.text for each in matched.unknown)}. Check it by hand."
