"""The part that rules for calls and those for their arguments have in common."""

from __future__ import annotations

import ast
import re
from functools import partial
from itertools import accumulate

from gpu2npu.engine.file_rules import FileRules
from gpu2npu.engine.imports import import_of
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import chain, last_name
from gpu2npu.records import Bounds, Code, FindingKind, Found
from gpu2npu.rulebook.rule import Rule

# The name that a dotted one begins with.
_FIRST = r"(?<![\w.'\"]){}(?=\.[A-Za-z_])"
_ANY_FIRST = re.compile(_FIRST.format(r"[A-Za-z_]\w*"))

Argument = ast.expr | ast.keyword


class Callees:
    """The callees in one file, and the code that rules write for their calls."""

    def __init__(self, work: FileRules) -> None:
        self.names = work.names
        self.file = work.file
        self.table = work.table
        self.matches = work.matches
        self.work = work

    def callees(self, node: ast.Call, scope: Scope) -> tuple[str, ...]:
        """The names a callee goes by: as it is written, and its own where it was imported under another."""
        if not isinstance(node.func, (ast.Name, ast.Attribute)):
            return ()
        written = last_name(node.func) or ""
        qualified = self.names.qualified(node.func, scope) if isinstance(node.func, ast.Name) else None
        own = (qualified or written).rpartition(".")[2]
        return (written,) if own == written else (written, own)

    def is_call_of(self, node: ast.Call, wanted: str, scope: Scope) -> bool:
        if wanted.startswith("*"):
            return True
        qualified = self.names.qualified(node.func, scope) or ""
        if wanted.endswith(".*"):  # but for what a rule for its package renames: that takes its own arguments
            return qualified.startswith(wanted[:-1]) and not self._is_in_renamed(qualified)
        return qualified == wanted

    def _is_in_renamed(self, qualified: str) -> bool:
        packages = accumulate(qualified.split(".")[:-1], "{}.{}".format)
        return any(rule.then.rename is not None for name in packages for rule in self.table.names.get(name, ()))

    def spelled(
        self, code: tuple[Code, ...], rule: Rule, node: ast.Call, scope: Scope
    ) -> tuple[tuple[Code, ...], tuple[str, ...]]:
        """The code of a template with its packages as the call spells them, and those that nothing here spells."""
        known = {rule.match.qualified or "", rule.then.imports or ""}
        packages = {name.partition(".")[0] for name in known}
        needs = []
        for package in sorted({root for piece in code if isinstance(piece, str) for root in _ANY_FIRST.findall(piece)}):
            if package not in packages or self.names.binds(package, scope):
                continue
            owners = [part for part in chain(node.func)[:-1] if self.names.qualified(part, scope) == package]
            if owners:  # import torch as th
                spelled = partial(re.sub, _FIRST.format(package), self.file.code(owners[-1]))
                code = tuple(spelled(piece) if isinstance(piece, str) else piece for piece in code)
            else:
                needs.append(import_of(package, rule.then.imports))
        return code, tuple(needs)

    def misfit(self, rule: Rule, place: Bounds, api: str) -> None:
        message = f"{rule.why} The arguments of this call do not fit the rule's replacement: change it by hand."
        self.matches.report(Found(place, rule.id, FindingKind.REVIEW, api, message))
