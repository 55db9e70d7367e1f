"""Rules about what strings say by themselves: whole texts, patterns, environment variables, commands."""

from __future__ import annotations

import re

import libcst as cst

from gpu2npu.engine.edits import Edit
from gpu2npu.engine.matches import Found, Matches
from gpu2npu.engine.prose import is_spoken
from gpu2npu.engine.table import RuleTable
from gpu2npu.engine.tree import string_value
from gpu2npu.records import FindingKind
from gpu2npu.rulebook.rule import Rule

# In a command line: NAME=value, $NAME and ${NAME}.
_IN_COMMAND = re.compile(r"(?<![\w$-])(?P<set>[A-Za-z_]\w*)(?==)|\$\{?(?P<read>[A-Za-z_]\w*)")
_COMMAND = re.compile(r"\s*(?:[\w./]*/)?(?P<name>[\w.+-]+)(?=\s|$)")

Text = cst.SimpleString | cst.FormattedStringText


def is_for_part(table: RuleTable, text: str) -> bool:
    """Whether some rule may be for a part of a string: a pattern, or an environment variable of a command."""
    if any(pattern.search(text) for pattern, _ in table.patterns):
        return True
    found = (match.group("set") or match.group("read") for match in _IN_COMMAND.finditer(text))
    return any(table.variable_rule(name) is not None for name in found)


class Literals:
    """Applies such rules in one module. `source` is the module's text, `above` the walk's list of nodes above."""

    def __init__(self, source: str, table: RuleTable, matches: Matches, above: list[cst.CSTNode]) -> None:
        self.source = source
        self.table = table
        self.matches = matches
        self.above = above

    def text(self, node: Text) -> bool:
        """Apply the first rule for the text of a string; tells whether there was one."""
        if isinstance(self.above[-1], cst.Expr):  # a docstring
            return False
        raw = node.raw_value if isinstance(node, cst.SimpleString) else node.value
        if isinstance(node, cst.SimpleString) and raw in self.table.texts:
            rule = self.table.texts[raw]
            return self.edit(rule, node, raw, rule.then.rename)
        new, rules = self.patterns(node, raw)
        if any(rule.then.keep for rule in rules):
            return True
        new, variables = self.variables(node, new)
        rules += variables
        renaming = [rule for rule in rules if rule.then.rename is not None]
        if new != raw:
            self.replace(renaming[0], node, raw, new)
        return bool(rules) or self.command(node, raw)

    def patterns(self, node: Text, raw: str) -> tuple[str, list[Rule]]:
        """The text under all rules for parts of it, and these rules; a rule that keeps it ends the search."""
        new, rules = raw, []
        for pattern, rule in self.table.patterns:
            if pattern.search(new) is None:
                continue
            rules.append(rule)
            if rule.then.keep or (rule.then.rename is None and is_spoken(self.above)):
                break
            if rule.then.rename is not None:
                new = pattern.sub(rule.then.rename, new)
            self.matches.note(rule, node, raw, self.above)
            if rule.then.rename is None:
                break
        return new, rules

    def edit(self, rule: Rule, node: Text, raw: str, new: str | None) -> bool:
        if rule.then.keep or (new is None and is_spoken(self.above)):
            return True
        self.matches.note(rule, node, raw, self.above)
        if new is not None and new != raw:
            self.replace(rule, node, raw, new)
        return True

    def replace(self, rule: Rule, node: Text, raw: str, new: str) -> None:
        if _is_sound(node, raw, new):
            opening, closing = _quotes(node)
            self.matches.add(Edit(node, opening + new + closing, rule.id, rule.why), self.above)
        else:
            message = f"{rule.why} The replacement does not fit into this string: change it by hand."
            self.matches.add(Found(node, rule.id, FindingKind.REVIEW, raw, message), self.above)

    def variables(self, node: Text, raw: str) -> tuple[str, list[Rule]]:
        """`"CUDA_VISIBLE_DEVICES"`, and `"CUDA_VISIBLE_DEVICES=0 python train.py"`: the text with their new names, and
        the rules for them."""
        if not (self.table.variables or self.table.families):
            return raw, []
        if raw.isidentifier():
            if isinstance(node, cst.FormattedStringText):  # f"{prefix}NCCL_DEBUG" names something else
                return raw, []
            found = [(raw, 0, self.table.variable_rule(raw))]
        elif "=" in raw or "$" in raw:
            matched = [(match.group("set") or match.group("read"), match) for match in _IN_COMMAND.finditer(raw)]
            found = [(name, match.end() - len(name), self.table.variable_rule(name)) for name, match in matched]
        else:
            return raw, []
        known = [(name, start, rule) for name, start, rule in found if rule is not None and not rule.then.keep]
        if not known or is_spoken(self.above):
            return raw, []
        new = raw
        for name, start, rule in reversed(known):
            if self.variable(rule, node, name):
                new = new[:start] + (rule.then.rename or name) + new[start + len(name) :]
        return new, [rule for _, _, rule in known]

    def variable(self, rule: Rule, node: cst.CSTNode, name: str) -> bool:
        """What a rule says of a variable besides renaming it; tells whether it is to be renamed."""
        self.matches.note(rule, node, name, self.above)
        renamed = rule.then.rename
        if renamed is None:
            return False
        if re.search(rf"\b{renamed}\b", self.source) is not None:
            message = f"This file knows {renamed} already; left as it is."
            self.matches.add(Found(node, rule.id, FindingKind.REVIEW, name, message), self.above)
            return False
        return True

    def keyword(self, arg: cst.Arg) -> None:
        """`dict(os.environ, CUDA_VISIBLE_DEVICES="0")`."""
        if arg.keyword is None or not arg.keyword.value.isupper():
            return
        rule = self.table.variable_rule(arg.keyword.value)
        if rule is None or rule.then.keep:
            return
        if self.variable(rule, arg.keyword, arg.keyword.value):
            self.matches.add(Edit(arg.keyword, rule.then.rename or "", rule.id, rule.why), [*self.above, arg])

    def command(self, node: Text, raw: str) -> bool:
        """A program that Python code runs or looks for: its output is read by the code, so a person has to look."""
        matched = _COMMAND.match(raw) if self.table.commands else None
        rule = self.table.commands.get(matched.group("name")) if matched is not None else None
        if rule is None or matched is None or rule.then.keep or is_spoken(self.above) or self.is_key():
            return False
        report = rule.then.report
        message = report.message if report else f"{rule.why} Use {rule.then.rename}, and check what reads its output."
        kind = report.kind if report else FindingKind.REVIEW
        self.matches.add(Found(node, rule.id, kind, matched.group("name"), message), self.above)
        return True

    def is_key(self) -> bool:
        """Whether the string is what something is looked up by: `flags["nvcc"]`."""
        return isinstance(self.above[-1], (cst.Index, cst.DictElement))


def _quotes(node: Text) -> tuple[str, str]:
    return (node.prefix + node.quote, node.quote) if isinstance(node, cst.SimpleString) else ("", "")


def _is_sound(node: Text, raw: str, new: str) -> bool:
    """Whether the new text stays inside its quotes and says there what it says in the rule."""
    if isinstance(node, cst.FormattedStringText):
        return not any(character in new for character in "{}\"'\n\\")
    if new.count("\\") > raw.count("\\") and "r" not in node.prefix.lower():
        return False
    opening, closing = _quotes(node)
    try:
        return string_value(cst.parse_expression(opening + new + closing)) is not None
    except Exception:  # what is no string any more is a syntax error, or a literal that cannot be evaluated
        return False
