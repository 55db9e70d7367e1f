"""Rules for environment variables."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import partial
from typing import Any, ClassVar

from msgspec.structs import replace

from gpu2npu.engine.file_rules import FileRules, Handlers, RuledString
from gpu2npu.engine.knowledge import Knowledge, NamedVariable, PlaceHandlers
from gpu2npu.engine.marks import Mark, applied, edit, reported
from gpu2npu.engine.strings.prose import is_own_name, is_searched, is_spoken
from gpu2npu.engine.strings.texts import StringText
from gpu2npu.engine.table import RuleTable
from gpu2npu.python.text.templates import plain
from gpu2npu.python.text.tokens import keyword_name
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import DEFINITIONS, FUNCTIONS, last_name
from gpu2npu.records import Bounds, Edit, FindingKind, Found, Severity
from gpu2npu.rulebook.match import IDENTIFIER, Json, Match
from gpu2npu.rulebook.rule import Rule

_REST = re.compile(r"\$[A-Z]\w*$")  # a metavariable at the end of a name
# Functions that set the variable their first argument names.
_SETTERS = frozenset({"setdefault", "putenv", "setenv"})
_OWN = frozenset({"os", "environ"})  # which set those of this process
_DEVICE = "torch.npu"
# What uses a device of the NPU or of CUDA.
_USES_DEVICE = re.compile(
    r"\.(?:cuda|npu)\(|\.to\([\"'](?:cuda|npu)|\bdevice\s*=\s*[\"'](?:cuda|npu)|"
    r"\.(?:cuda|npu)\.(?:set_device|synchronize|init|empty_cache|mem_get_info|memory_\w+|Stream|Event)\("
)
# In a command line: NAME=value, $NAME and ${NAME}.
_IN_COMMAND = re.compile(r"(?<![\w$-])(?P<set>[A-Za-z_]\w*)(?==)|\$\{?(?P<read>[A-Za-z_]\w*)")


class EnvironmentMatch(Match, frozen=True):
    """An environment variable, in Python, scripts and configurations; `*` at the end matches a family, and so does
    `$X`, whose text the new name may contain: `LIB_GPU_$X` becomes `LIB_NPU_$X`; `"set_before": ["torch"]` notes
    Python that sets it behind an import of one of these packages, `["torch.npu"]` behind a use of the device;
    `"known": ["NCCL_DEBUG"]` reports what is set of the family and is not among these or the variables of rules,
    with the name most like it, and with `"likeness": 80` only where one is that like."""

    variable: str
    set_before: frozenset[str] = frozenset()
    known: frozenset[str] = frozenset()
    likeness: int = 0

    key = "environment"
    shape: ClassVar[Json] = {
        "environment": {
            "description": "An environment variable, in Python, scripts and configurations; at its end, and there "
            "alone, it may have a star (NCCL_* is a family) or one metavariable (LIB_GPU_$X), whose text the new name "
            "may have too: LIB_NPU_$X.",
            "type": "string",
            "pattern": "^[A-Za-z_]\\w*(\\*|\\$[A-Z]\\w*)?$",
        },
        "set_before": {
            "description": "Packages that read the variable as they are imported, or when they are first used: Python "
            "that sets it behind an import of one gets a note; with torch.npu, behind a use of the device.",
            "$ref": "#/$defs/words",
        },
        "known": {
            "description": "Names of the family that exist though no rule is for them: of a family that has some, "
            "others that are set are reported, with the name that is most like theirs.",
            "$ref": "#/$defs/words",
        },
        "likeness": {
            "description": "Report of a family with `known` only names that are as like one that exists: per cent of "
            "difflib's ratio.",
            "type": "integer",
            "minimum": 1,
            "maximum": 99,
        },
    }
    actions = ("rename", "values")
    new_name = (re.compile(rf"{IDENTIFIER.pattern}(\$[A-Z]\w*)?"), "the name of an environment variable")
    in_strings = True
    order = 7
    starter: ClassVar[Json] = {
        "$comment": "An environment variable, in Python and in scripts.",
        "why": "The library reads another variable on the NPU.",
        "match": {"environment": "FASTLIB_CUDA_CACHE"},
        "then": {"rename": "FASTLIB_NPU_CACHE"},
        "examples": [
            {
                "before": "import os\nos.environ['FASTLIB_CUDA_CACHE'] = '/tmp'\n",
                "after": "import os\nos.environ['FASTLIB_NPU_CACHE'] = '/tmp'\n",
            }
        ],
    }

    @property
    def index(self) -> str:
        return _REST.sub("*", self.variable)

    def renamed(self, name: str, new: str) -> str:
        rest = _REST.search(self.variable)
        return new if rest is None else new.replace(rest[0], name[rest.start() :])

    @property
    def text(self) -> str:
        return f"the environment variable{'s' if self.index.endswith('*') else ''} `{self.variable}`"

    @property
    def subject(self) -> str:
        return f"{self.variable} (variable)"

    def is_on(self, line: str) -> bool:
        if not self.index.endswith("*"):
            return super().is_on(line)
        return re.search(rf"\b{self.index[:-1]}", line) is not None

    def meets(self, other: Match) -> bool:
        return isinstance(other, EnvironmentMatch) and self.index == other.index

    @classmethod
    def problems(cls, entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        rest = _REST.search(entry["then"].get("rename", ""))
        if rest is not None and not entry["match"]["environment"].endswith(rest[0]):
            yield "then.rename", f"the metavariable {rest[0]} is not in the variable that is matched"

    def severity(self, kind: FindingKind) -> Severity:
        return Severity.ENVIRONMENT

    @classmethod
    def in_text(cls, work: FileRules, ruled: RuledString) -> None:
        _Variables(work).in_text(ruled)

    @classmethod
    def handlers(cls, work: FileRules) -> Handlers:
        return {ast.keyword: _Variables(work).keyword}

    @classmethod
    def place_handlers(cls, rules: Knowledge) -> PlaceHandlers:
        return {NamedVariable: partial(_marks, rules)}


class _Variables:
    """Applies rules for environment variables in one file."""

    def __init__(self, work: FileRules) -> None:
        self.work, self.file, self.table, self.matches = work, work.file, work.table, work.matches

    def in_text(self, ruled: RuledString) -> None:
        """`"CUDA_VISIBLE_DEVICES"`, and `"CUDA_VISIBLE_DEVICES=0 python train.py"`."""
        string, text = ruled.string, ruled.text
        found = [(name, start, _rule(self.table, name)) for name, start in _named(string, text)]
        if string.is_formatted and text.isidentifier():
            found = [(text, 0, self._rule_of_beginning(string))]
        if text.isidentifier() and found[0][2] is not None:
            self._set_late(found[0][2], string, text)
        known = [(name, start, rule) for name, start, rule in found if rule is not None and not rule.then.keep]
        if not known or is_spoken(self.file, string.node) or is_own_name(self.file, string.node):
            return
        if _is_family_with_names(known[0][2]) and not self._is_given(string.node, *known[0][:1]):
            return
        ruled.rules += [rule for _, _, rule in known]
        if not text.isidentifier() and is_searched(self.file, string.node):
            for name, _, rule in known:
                self._in_other_texts(rule, string.place, name)
            return
        given = self._given(string.node) if text.isidentifier() else None
        for name, start, rule in reversed(known):
            if self._variable(rule, string.place, name, given):
                text = text[:start] + (rule.then.rename or name) + text[start + len(name) :]
        ruled.text = text

    def _set_late(self, rule: Rule, string: StringText, name: str) -> None:
        """Note that a variable is set behind an import of what reads it; a function runs behind all imports."""
        before = rule.match.set_before if isinstance(rule.match, EnvironmentMatch) else frozenset()
        if not before or not self._is_set(string.node):
            return
        if _DEVICE in before and self._is_behind_use(string.node):
            message = "It is read as the device is first used, which is further up: set it before that."
            self.matches.review(rule, string.place, name, message, Severity.NOTE)
            return
        line = string.node.lineno
        is_in_function = any(isinstance(each, FUNCTIONS) for each in self.file.above(string.node))
        for statement, scope in self.file.imports:
            if scope.kind == "module" and before & _packages(statement) and (is_in_function or statement.lineno < line):
                message = "It is set behind an import of what reads it, and may have no effect: set it before that."
                self.matches.review(rule, string.place, name, message, Severity.NOTE)
                return

    def _is_behind_use(self, node: ast.AST) -> bool:
        """Return whether a statement that runs before, in the same function or in the module, uses a device."""
        for above, below in self.file.steps(node):
            for each in self.file.before(below) if isinstance(below, ast.stmt) else ():
                if not isinstance(each, DEFINITIONS) and _USES_DEVICE.search(self.file.code(each)):
                    return True
            if isinstance(above, FUNCTIONS):
                return False
        return False

    def _is_set(self, node: ast.expr) -> bool:
        """Return whether this process's variable of this name is set: `os.environ[name] = ...`, `putenv(name, ...)`; a
        copy of its variables is for another process, and a test's own setenv for what the test looks at."""
        parent = self.file.parents[node]
        if isinstance(parent, ast.Call):
            owner = last_name(parent.func.value) if isinstance(parent.func, ast.Attribute) else "os"
            return owner in _OWN and last_name(parent.func) in _SETTERS and parent.args[:1] == [node]
        return (
            isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Store) and last_name(parent.value) in _OWN
        )

    def _is_given(self, node: ast.expr, name: str) -> bool:
        """Return whether a variable of this name is set for what is not this file: of a process, or in a command."""
        is_set = isinstance(self.file.parents[node], ast.Dict) or self._is_set(node) or self._given(node) is not None
        in_command = isinstance(node, ast.Constant) and node.value != name and f"{name}=" in str(node.value)
        return (is_set or in_command) and not _is_read(name, self.file.text)

    def _rule_of_beginning(self, string: StringText) -> Rule | None:
        """Return the rule that gives names another beginning, with which an f-string begins: `f"FASTLIB_GPU_{key}"`."""
        start, end = string.place
        if self.file.text[start - 1] not in "\"'" or not self.file.text.startswith("{", end):
            return None
        rule, longer = (self.table.variable_rule(name) for name in (string.raw, f"{string.raw}X"))
        if rule is None or longer is None or any(name.startswith(string.raw) for name in self.table.variables):
            return None
        return rule if rule.then.rename != longer.then.rename else None

    def _in_other_texts(self, rule: Rule, place: Bounds, name: str) -> None:
        """Report a variable in a text that the program looks for, such as a message of PyTorch."""
        named = f"speaks of {rule.then.rename} or of neither" if rule.then.rename else "does not speak of it"
        message = f"Looked for in another text, which on an NPU {named}: left as it is, check what is searched."
        self.matches.review(rule, place, name, message)

    def _given(self, node: ast.expr) -> StringText | None:
        """The string that the variable of this name is set to: `os.environ["NAME"] = "..."`, `{"NAME": "..."}`."""
        parent = self.file.parents[node]
        value: ast.expr | None = None
        if isinstance(parent, ast.Dict):
            value = next((value for key, value in zip(parent.keys, parent.values, strict=True) if key is node), None)
        elif isinstance(parent, ast.Call) and len(parent.args) > 1 and parent.args[0] is node:
            value = parent.args[1] if last_name(parent.func) in _SETTERS else None
        elif isinstance(parent, ast.Subscript):
            statement = self.file.parents[parent]
            value = statement.value if isinstance(statement, ast.Assign) and parent in statement.targets else None
        return StringText.of(self.file, value) if value is not None else None

    def _variable(self, rule: Rule, place: Bounds, name: str, given: StringText | None = None) -> bool:
        """Report what a rule says of a variable besides renaming it; gives whether it is to be renamed. The value that
        it is `given` is renamed with it."""
        values = dict(rule.then.values)
        value = values.get(given.raw) if given is not None else None
        if value is None:
            self.matches.note(rule, place, name)
        renamed = rule.then.rename
        if renamed is None or (values and value is None):
            return False
        if renamed in self.work.code_identifiers:
            message = f"This file knows {renamed} already; left as it is."
            self.matches.review(rule, place, name, message, Severity.NOTE)
            return False
        if value is not None and given is not None and value != given.raw:
            self.matches.edit(Edit(given.place, given.quoted(value), rule.id, rule.why))
        return True

    def keyword(self, keyword: ast.keyword, scope: Scope) -> None:
        """Apply the rule for a variable that is a keyword: `dict(os.environ, CUDA_VISIBLE_DEVICES="0")`."""
        if keyword.arg is None or not keyword.arg.isupper():
            return
        rule = _rule(self.table, keyword.arg)
        if rule is None or rule.then.keep or (_is_family_with_names(rule) and _is_read(keyword.arg, self.file.text)):
            return
        place = keyword_name(self.file, keyword)
        if self._variable(rule, place, keyword.arg, StringText.of(self.file, keyword.value)):
            self.matches.edit(Edit(place, plain(rule.then.rename or ""), rule.id, rule.why))


def _packages(statement: ast.Import | ast.ImportFrom) -> frozenset[str]:
    """The packages that an import statement names."""
    if isinstance(statement, ast.ImportFrom):
        return frozenset({(statement.module or "").partition(".")[0]} if not statement.level else ())
    return frozenset(alias.name.partition(".")[0] for alias in statement.names)


def _is_family_with_names(rule: Rule) -> bool:
    return isinstance(rule.match, EnvironmentMatch) and bool(rule.match.known)


def _is_read(name: str, text: str) -> bool:
    """Return whether a file reads a variable as well, which is then its own."""
    return re.search(rf"\bget(?:env)?\(\s*[\"']{name}\b|\$\{{?{name}\b", text) is not None


def _rule(table: RuleTable, name: str) -> Rule | None:
    """The rule for a variable; of a family whose names are known it says which is most like this one."""
    rule = table.variable_rule(name)
    if rule is None or rule.then.report is None or not _is_family_with_names(rule):
        return rule
    return _rule_for_none(table, rule, name)


def _rule_for_none(table: RuleTable, rule: Rule, name: str) -> Rule | None:
    match, report = rule.match, rule.then.report
    if not isinstance(match, EnvironmentMatch) or report is None or name in match.known:
        return None
    families = [each.match for each in table.families.values() if _is_family_with_names(each)]
    ruled = (each for each in table.variables if each.startswith(tuple(one.index[:-1] for one in families)))
    listed = (each for one in families if isinstance(one, EnvironmentMatch) for each in one.known)
    names = sorted({*ruled, *listed})
    by_word = [each for each in names if _differs_in_one_word(name, each)]
    cutoff = (match.likeness or 70) / 100
    near = get_close_matches(name, names, n=1, cutoff=cutoff) or get_close_matches(name, by_word, n=1, cutoff=0.8)
    if not near:
        return None if match.likeness else rule
    message = f"{report.message} Look whether {near[0]} is meant."
    return replace(rule, then=replace(rule.then, report=replace(report, message=message)))


def _differs_in_one_word(name: str, other: str) -> bool:
    pairs = zip(words := name.split("_"), others := other.split("_"), strict=False)
    return len(words) == len(others) and sum(one != each for one, each in pairs) == 1


def _named(string: StringText, text: str) -> list[tuple[str, int]]:
    """The variables that a text may name, each with its offset."""
    if text.isidentifier():
        return [] if string.is_formatted else [(text, 0)]  # f"{prefix}NCCL_DEBUG" names something else
    if "=" not in text and "$" not in text:
        return []
    found = ((match["set"] or match["read"], match.end()) for match in _IN_COMMAND.finditer(text))
    return [(name, end - len(name)) for name, end in found]


def _marks(rules: Knowledge, place: NamedVariable) -> list[Mark] | None:
    """Return the marks for an environment variable, and for what it is set to; None if no rule is for it."""
    name, start, given = place.name, place.start, place.given
    rule = _rule(rules.table, name)
    if rule is None or rule.then.keep or (name in rules.own and name not in rules.table.variables):
        return None
    if _is_family_with_names(rule) and (given is None or _is_read(name, rules.text)):
        return None
    end = start + len(name)
    new_name = rule.then.rename
    if new_name is not None and new_name in rules.text and re.search(rf"\b{new_name}\b", rules.text):
        message = f"This file knows {new_name} already; left as it is."
        return [Found((start, end), rule.id, FindingKind.REVIEW, name, message, Severity.NOTE)]
    if not rule.then.values:
        return applied(rule, start, end, name)
    new = dict(rule.then.values).get(given.text) if given is not None else None
    if given is None or new is None or new_name is None:
        return reported(rule, start, end, name)
    marks: list[Mark] = [edit(rule, start, end, new_name)]
    written = f'"{new}"' if given.bare and not new.isalnum() else new
    return marks if new == given.text else [*marks, edit(rule, given.start, given.start + len(given.text), written)]
