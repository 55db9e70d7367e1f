"""Rules for programs that scripts run, and for their command lines."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from gpu2npu.engine.file_rules import FileRules, RuledString
from gpu2npu.engine.knowledge import CommandLine, Knowledge, PlaceHandlers
from gpu2npu.engine.marks import Mark, applied, edit, reported, review
from gpu2npu.engine.strings.prose import is_spoken
from gpu2npu.engine.strings.texts import StringText
from gpu2npu.engine.table import RuleTable
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.syntax import string_value
from gpu2npu.records import FindingKind, Found, Severity
from gpu2npu.rulebook.match import Json, Match

_COMMAND = re.compile(r"\s*(?:[\w./]*/)?(?P<name>[\w.+-]+)(?=\s|$)")
_ANY = re.compile(r"\$[A-Z]\w*")


class CommandMatch(Match, frozen=True):
    """A program that scripts run; with more words a command line of it, `teamrun --gpus $N` or `python train.py
    --gpus $N`, where `$N` is any word, and options may be in any order, also as `--gpus=4`; what follows `--` is for
    what the program runs. Python code that runs it is reported."""

    command: str

    key = "command"
    shape: ClassVar[Json] = {
        "command": {
            "description": "A program that scripts, or subprocess calls in Python, run; or a command line of it, in "
            "which $X is any word: teamrun --gpus $N. Its options may be in any order, among others.",
            "type": "string",
            "pattern": "^[\\w.+-]+( [^\\s'\"]+)*$",
        }
    }
    actions = ("rename",)
    in_strings = True
    order = 8
    starter: ClassVar[Json] = {
        "$comment": "A program that scripts run. Where Python runs it, it is reported: its output may be read.",
        "why": "The monitor of our cluster has another name on NPU nodes.",
        "match": {"command": "gpu-watch"},
        "then": {"rename": "npu-watch"},
        "examples": [
            {"file": "run.sh", "before": "gpu-watch\n", "after": "npu-watch\n"},
            {"keep": "import subprocess\nsubprocess.run(['gpu-watch', '-n', '1'])\n", "reports": "review"},
        ],
    }

    @property
    def index(self) -> str:
        return self.words[0]

    def places(self, words: Sequence[str]) -> list[tuple[int, int]] | None:
        """The places of the words of the command line after the program: for each the index of one of the `words` that
        the program is given, and the offset in it. None where they are not all there. What follows `--` is for what the
        program runs, unless the command line has it too."""
        if "--" in words and "--" not in self.words:
            words = words[: words.index("--")]
        found: list[tuple[int, int]] = []
        previous = ""
        for wanted in self.words[1:]:
            at = found[-1][0] + 1 if found else 0
            if wanted.startswith("-"):
                fitting = (i for i, word in enumerate(words) if word.partition("=")[0] == wanted)
                place = next(((i, 0) for i in fitting), None)
            elif previous.startswith("-") and "=" in words[at - 1]:  # --gpus=2
                place = at - 1, words[at - 1].index("=") + 1
            else:
                place = (at, 0) if at < len(words) else None
            is_any = wanted.startswith("-") or _ANY.fullmatch(wanted) is not None
            if place is None or not (is_any or words[place[0]][place[1] :] == wanted):
                return None
            found.append(place)
            previous = wanted
        return found

    def renamed_words(self, new: str) -> list[tuple[str, str]]:
        """The words of the command line with those that take their places."""
        return list(zip(self.words, new.split(), strict=True))

    @property
    def words(self) -> list[str]:
        """The words of the command line."""
        return self.command.split()

    @classmethod
    def problems(cls, entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        old, new = entry["match"]["command"].split(), entry["then"].get("rename", "").split()
        if len(old) > 1 and new and len(old) != len(new):
            yield "then.rename", f"has {len(new)} words for {len(old)}; each word takes the place of one"
        for one, other in zip(old, new, strict=False) if len(old) > 1 else ():
            if "$" in one + other and one != other:
                yield "then.rename", f"has {other!r} where the match has {one!r}; a metavariable stays in its place"

    @property
    def text(self) -> str:
        return f"the command `{self.command}` in scripts, and where Python code runs it"

    @property
    def subject(self) -> str:
        return f"{self.command} (command)"

    def severity(self, kind: FindingKind) -> Severity:
        return Severity.ENVIRONMENT

    @classmethod
    def in_text(cls, work: FileRules, ruled: RuledString) -> None:
        """Report a program that Python code runs or looks for: its output is read by the code."""
        string = ruled.string
        matched = _COMMAND.match(string.raw) if not ruled.rules else None
        rules = work.table.of(cls.key).get(matched["name"], ()) if matched is not None else ()
        rule = next((rule for rule in rules if _is_run(rule.match, string, work.file)), None)
        if rule is None or matched is None or rule.then.keep:
            return
        if is_spoken(work.file, string.node) or _is_key(work.file, string.node):
            return
        report = rule.then.report
        message = report.message if report else f"{rule.why} Use {rule.then.rename}, and check what reads its output."
        kind = report.kind if report else FindingKind.REVIEW
        severity = report.severity if report else Severity.CHANGE
        work.matches.report(Found(string.place, rule.id, kind, matched["name"], message, severity))
        ruled.rules.append(rule)

    @classmethod
    def place_handlers(cls, rules: Knowledge) -> PlaceHandlers:
        return {CommandLine: partial(_marks, rules.table)}


def _is_run(match: Match, string: StringText, file: PythonFile) -> bool:
    """Return whether a string is the command line of a match, or begins the list that is one."""
    assert isinstance(match, CommandMatch)
    parent, words = file.parents.get(string.node), string.raw.split()[1:]
    if not words and isinstance(parent, (ast.List, ast.Tuple)) and parent.elts[0] is string.node:
        words = [string_value(each) or "" for each in parent.elts[1:]]
    return match.places(words) is not None


def _is_key(file: PythonFile, node: ast.expr) -> bool:
    """Return whether a string is the key by which something is looked up: `flags["nvcc"]`."""
    parent = file.parents.get(node)
    return isinstance(parent, ast.Dict) or (isinstance(parent, ast.Subscript) and parent.slice is node)


def _marks(table: RuleTable, line: CommandLine) -> list[Mark] | None:
    """Return the marks for a command with the words after it; None if no rule is for it."""
    name, start, words = line.name, line.start, line.words
    if words is None:
        return _program_marks(table, line)
    for rule in table.of(CommandMatch.key).get(name, ()):
        assert isinstance(rule.match, CommandMatch)
        places = rule.match.places([text for text, _ in words])
        if places is None:
            continue
        if rule.then.keep:
            return []
        end = start + len(name)
        if rule.then.rename is None or (line.is_bare and not places):
            return applied(rule, start, end, name)
        if not places:
            message = f"{rule.why} Its options and its output are others than those of {name}: change it by hand."
            return [review(rule, start, end, name, message)]
        starts = [start, *(words[index][1] + offset for index, offset in places)]
        pairs = zip(starts, rule.match.renamed_words(rule.then.rename), strict=True)
        edits: list[Mark] = [edit(rule, at, at + len(old), new) for at, (old, new) in pairs if old != new]
        return edits + reported(rule, start, end, name)
    return None


def _program_marks(table: RuleTable, line: CommandLine) -> list[Mark] | None:
    """Return the marks for a program that is looked for by its name; rules for its command lines are not for that."""
    rules = table.of(CommandMatch.key).get(line.name, ())
    rule = next((rule for rule in rules if rule.match == CommandMatch(line.name)), None)
    end = line.start + len(line.name)
    if rule is None or rule.then.rename is None:
        return None if rule is None else reported(rule, line.start, end, line.name)
    return applied(rule, line.start, end, line.name, rule.then.rename.partition(" ")[0])
