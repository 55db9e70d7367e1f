"""The needs, on the NPU, of the names that a library uses: by the migration's rules, the facts of the release, and the
CUDA operators that the library exports itself."""

from __future__ import annotations

from gpu2npu.analysis.cuda_cpp.callers import OperatorNames
from gpu2npu.engine.table import RuleTable, rule_table
from gpu2npu.kinds.call import CallMatch
from gpu2npu.records import FindingKind
from gpu2npu.report.third_party import Need, NeedKind
from gpu2npu.rulebook.rule import Rule, Rulebook, Where
from gpu2npu.support.release_tables import has_cuda_name, has_npu_name, table_for
from gpu2npu.support.spellings import is_torch_api
from gpu2npu.support.verdicts import VerdictKind, verdict


class Needs:
    """The needs of names with torch_npu for PyTorch `version`, each given once."""

    def __init__(self, version: str, rulebook: Rulebook, operators: OperatorNames) -> None:
        self._version = version
        self._support = table_for(version)
        self._table: RuleTable = rule_table(rulebook, version)
        self._operators = operators
        self._known: dict[tuple[str, str], Need | None] = {}

    def of(self, name: str, how: str) -> Need | None:
        """The need of an outside name that is called, handed on or read (see graph.Use), or that is a
        member of an outside class ("member"): of those, only what is known not to work counts, and the methods that the
        migration rewrites."""
        question = name, how
        if question not in self._known:
            self._known[question] = self._of(name, how)
        return self._known[question]

    def of_method(self, name: str, receiver: str, is_python: bool) -> Need | None:
        """The need of a method that is called on an object that is not known."""
        operator = self._operators.method(name, receiver, is_python)
        if operator is not None:
            return _own_operator(operator)
        if name in self._table.methods and not is_python:
            return Need(NeedKind.MIGRATION, f"*.{name}", self._table.methods[name].why)
        return None

    def _of(self, name: str, how: str) -> Need | None:
        if (operator := self._operators.named(name)) is not None:
            return _own_operator(operator)
        owner, _, leaf = name.rpartition(".")
        if how == "member" and leaf in self._table.methods and owner.startswith("torch."):
            return Need(NeedKind.MIGRATION, f"*.{leaf}", self._table.methods[leaf].why)
        found = self._table.rule_for(name)
        if found is not None and found[0].where == Where():
            # Of the members of an object, those that a rule names; its class was reported where it was made.
            if how != "member":
                return self._by_rule(name, *found)
            need = self._by_rule(name, *found) if found[1] == name else None
            return need if need is not None and need.kind is NeedKind.UNSUPPORTED else None
        if how in ("call", "member"):
            for rule in self._table.calls.get(leaf, ()):
                match = rule.match
                if isinstance(match, CallMatch) and match.call == name and match.without is None and rule.then.report:
                    return _reported(rule, name)
        package = self._table.package_rule(name)
        if package is not None:
            return self._of_package(name, package) if how in ("call", "pass") else None
        return self._by_facts(name, how)

    def _by_rule(self, name: str, rule: Rule, prefix: str) -> Need | None:
        then = rule.then
        if then.report is not None:
            return _reported(rule, name)
        if then.rename is not None and then.needs_target:
            target = then.rename + name[len(prefix) :]
            if not has_npu_name(self._support, target):
                known = has_cuda_name(name)
                evidence = f"{target} is not in {self._support.evidence}."
                return Need(NeedKind.UNSUPPORTED if known else NeedKind.UNKNOWN, name, evidence)
        if then.rename is None and then.replace is None:
            return None
        return Need(NeedKind.MIGRATION, name, rule.why)

    def _of_package(self, name: str, rule: Rule) -> Need | None:
        if rule.then.report is None or rule.then.report.kind is FindingKind.REVIEW:
            return None
        unknown = rule.then.report.kind is FindingKind.UNKNOWN
        return Need(NeedKind.UNKNOWN if unknown else NeedKind.OPERATOR, name, rule.then.report.message)

    def _by_facts(self, name: str, how: str) -> Need | None:
        if how == "read" or not is_torch_api(name) or name.startswith(("torch.npu", "torch_npu")):
            return None
        judged = verdict(name, self._version)
        if judged.kind is VerdictKind.UNSUPPORTED:
            return Need(NeedKind.UNSUPPORTED, judged.api, judged.evidence)
        # A name that is handed on may be a constant, a type or a module; a member that PyTorch is not
        # known to have shows that the object was taken for what it is not.
        if judged.kind is VerdictKind.UNKNOWN and how == "call":
            return Need(NeedKind.UNKNOWN, judged.api, judged.evidence)
        return None


def _own_operator(operator: str) -> Need:
    return Need(NeedKind.OPERATOR, operator, "the library's own C++ or CUDA code exports it")


def _reported(rule: Rule, name: str) -> Need:
    """The need by a rule that reports a place instead of editing it: a migration leaves it to a person."""
    assert rule.then.report is not None
    kinds = {FindingKind.UNSUPPORTED: NeedKind.UNSUPPORTED, FindingKind.UNKNOWN: NeedKind.UNKNOWN}
    return Need(kinds.get(rule.then.report.kind, NeedKind.MIGRATION), name, rule.then.report.message)
