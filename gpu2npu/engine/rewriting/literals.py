"""Rules about what strings say by themselves: whole texts, patterns, environment variables."""

from __future__ import annotations

import ast
import re

from gpu2npu.engine.file_rules import FileRules
from gpu2npu.engine.strings.prose import is_own_name, is_searched, is_spoken
from gpu2npu.engine.strings.texts import StringText
from gpu2npu.python.text.tokens import keyword_name
from gpu2npu.python.tree.nodes import code_words
from gpu2npu.python.tree.syntax import last_name
from gpu2npu.records import Bounds, Edit, FindingKind, Found, Severity
from gpu2npu.rulebook.rule import Rule

# Functions that set the variable their first argument names.
_SETTERS = frozenset({"setdefault", "putenv", "setenv"})
# In a command line: NAME=value, $NAME and ${NAME}.
_IN_COMMAND = re.compile(r"(?<![\w$-])(?P<set>[A-Za-z_]\w*)(?==)|\$\{?(?P<read>[A-Za-z_]\w*)")


class Literals:
    """Applies such rules in one file."""

    def __init__(self, work: FileRules) -> None:
        self.work = work
        self.file = work.file
        self.table = work.table
        self.matches = work.matches
        self.kinds = [kind for kind in work.table.classes if kind.in_strings]

    def text(self, string: StringText) -> bool:
        """Apply the first rule for the text of a string; gives whether there was one."""
        raw = string.raw
        if not string.is_formatted and raw in self.table.texts:
            rule = self.table.texts[raw]
            return self.edit(rule, string, raw, rule.then.rename)
        new, rules = self.patterns(string, raw)
        if any(rule.then.keep for rule in rules):
            return True
        new, variables = self.variables(string, new)
        rules += variables
        renaming = [rule for rule in rules if rule.then.rename is not None]
        if new != raw:
            self.replace(renaming[0], string, raw, new)
        return bool(rules) or any(kind.in_text(self.work, string) for kind in self.kinds)

    def patterns(self, string: StringText, raw: str) -> tuple[str, list[Rule]]:
        """The text under all rules for parts of it, and these rules; a rule that keeps it ends the search."""
        if self.table.pattern_text.search(raw.lower()) is None:
            return raw, []
        new, rules = raw, []
        for pattern, rule in self.table.patterns:
            if pattern.search(new) is None:
                continue
            rules.append(rule)
            if rule.then.keep or (rule.then.rename is None and is_spoken(self.file, string.node)):
                break
            if rule.then.rename is not None:
                new = pattern.replaced(rule.then.rename, new)
            self.matches.note(rule, string.place, raw)
            if rule.then.rename is None:
                break
        return new, rules

    def edit(self, rule: Rule, string: StringText, raw: str, new: str | None) -> bool:
        """Apply a rule for a whole text; gives True, since there was one."""
        if rule.then.keep or (new is None and is_spoken(self.file, string.node)):
            return True
        self.matches.note(rule, string.place, raw)
        if new is not None and new != raw:
            self.replace(rule, string, raw, new)
        return True

    def replace(self, rule: Rule, string: StringText, raw: str, new: str) -> None:
        """Write another text, or report that it does not fit into the string."""
        if string.can_be(new):
            self.matches.edits.append(Edit(string.place, string.quoted(new), rule.id, rule.why))
        else:
            message = f"{rule.why} The replacement does not fit into this string: change it by hand."
            self.matches.found.append(Found(string.place, rule.id, FindingKind.REVIEW, raw, message))

    def variables(self, string: StringText, raw: str) -> tuple[str, list[Rule]]:
        """`"CUDA_VISIBLE_DEVICES"`, and `"CUDA_VISIBLE_DEVICES=0 python train.py"`: the text with their new names, and
        the rules for them."""
        if not (self.table.variables or self.table.families):
            return raw, []
        if raw.isidentifier():
            if string.is_formatted:  # f"{prefix}NCCL_DEBUG" names something else
                return raw, []
            found = [(raw, 0, self.table.variable_rule(raw))]
        elif "=" in raw or "$" in raw:
            matched = [(match.group("set") or match.group("read"), match) for match in _IN_COMMAND.finditer(raw)]
            found = [(name, match.end() - len(name), self.table.variable_rule(name)) for name, match in matched]
        else:
            return raw, []
        known = [(name, start, rule) for name, start, rule in found if rule is not None and not rule.then.keep]
        if not known or is_spoken(self.file, string.node) or is_own_name(self.file, string.node):
            return raw, []
        if not raw.isidentifier() and is_searched(self.file, string.node):
            for name, _, rule in known:
                self._in_other_texts(rule, string.place, name)
            return raw, [rule for _, _, rule in known]
        new = raw
        given = self.given(string.node) if raw.isidentifier() else None
        for name, start, rule in reversed(known):
            if self.variable(rule, string.place, name, given):
                new = new[:start] + (rule.then.rename or name) + new[start + len(name) :]
        return new, [rule for _, _, rule in known]

    def _in_other_texts(self, rule: Rule, place: Bounds, name: str) -> None:
        """Report a variable in a text that the program looks for, such as a message of PyTorch."""
        named = f"speaks of {rule.then.rename} or of neither" if rule.then.rename else "does not speak of it"
        message = f"Looked for in another text, which on an NPU {named}: left as it is, check what is searched."
        self.matches.found.append(Found(place, rule.id, FindingKind.REVIEW, name, message))

    def given(self, node: ast.expr) -> StringText | None:
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

    def variable(self, rule: Rule, place: Bounds, name: str, given: StringText | None = None) -> bool:
        """Report what a rule says of a variable besides renaming it; gives whether it is to be renamed. The value that
        it is `given` is renamed with it."""
        values = dict(rule.then.values)
        value = values.get(given.raw) if given is not None else None
        if value is None:
            self.matches.note(rule, place, name)
        renamed = rule.then.rename
        if renamed is None or (values and value is None):
            return False
        if any(re.search(rf"\b{renamed}\b", word) for word in code_words(self.file.tree)):
            message = f"This file knows {renamed} already; left as it is."
            self.matches.found.append(Found(place, rule.id, FindingKind.REVIEW, name, message, Severity.NOTE))
            return False
        if value is not None and given is not None and value != given.raw:
            self.matches.edits.append(Edit(given.place, given.quoted(value), rule.id, rule.why))
        return True

    def keyword(self, keyword: ast.keyword) -> None:
        """Apply the rule for a variable that is a keyword: `dict(os.environ, CUDA_VISIBLE_DEVICES="0")`."""
        if keyword.arg is None or not keyword.arg.isupper():
            return
        rule = self.table.variable_rule(keyword.arg)
        if rule is None or rule.then.keep:
            return
        place = keyword_name(self.file, keyword)
        if self.variable(rule, place, keyword.arg, StringText.of(self.file, keyword.value)):
            self.matches.edits.append(Edit(place, rule.then.rename or "", rule.id, rule.why))
