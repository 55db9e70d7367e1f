"""Rules for whole strings, wherever they are or where they have a role."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Set
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from gpu2npu.engine.file_rules import FileRules, Handlers, Quoted, RuledString
from gpu2npu.engine.knowledge import AnyText, KeyedValue, Knowledge, PlaceHandlers
from gpu2npu.engine.marks import Mark, applied, reported, review
from gpu2npu.engine.other_devices.foreign_calls import foreign_rule
from gpu2npu.engine.strings.flow import Flow, is_read, judge_by_flow, judge_by_texts, judge_data
from gpu2npu.engine.strings.judgement import judge
from gpu2npu.engine.strings.keys import is_key, is_option, stays
from gpu2npu.engine.strings.places import LEFT, NO, UNSURE, YES, Siblings, StringPlace
from gpu2npu.engine.strings.prose import is_spoken
from gpu2npu.engine.strings.texts import StringText, formatted_texts
from gpu2npu.engine.strings.words import is_word
from gpu2npu.engine.table import RuleTable, StringRule
from gpu2npu.kinds.pattern import PatternMatch
from gpu2npu.python.flow.values import Values
from gpu2npu.python.text.templates import plain
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import string_value
from gpu2npu.records import Edit, FindingKind, Found
from gpu2npu.rulebook.match import Json, Match
from gpu2npu.rulebook.rule import Role, Rule

if TYPE_CHECKING:
    from gpu2npu.engine.line_sites import Site
    from gpu2npu.python.meaning.names import Names

# What is in a value for something known later: $RANK, ${rank}, {{ rank }}, %(rank)s.
_PLACEHOLDER = re.compile(r"\$\{[^{}]*\}|\$\{\{.*?\}\}|\{\{.*?\}\}|\$\w+|%\(\w+\)s|\$\(\w+\)")
# Keys whose values are words about a thing, or names of files and images, and no settings.
_SPOKEN = frozenset(
    {"keywords", "keyword", "classifiers", "topics", "topic", "tags", "tag", "labels", "label", "name", "title", "id",
     "description", "markers", "help", "doc", "comment", "text", "summary", "message", "channels", "image", "container",
     "from", "repo", "repository", "uses", "url", "path", "paths", "file", "files", "exclude", "include", "ignore",
     "display_name", "language", "words", "group", "extra"}
)  # fmt: skip


_FILLED_LATER = re.compile(r"(?:%[ds]|\{\w*\})$")  # "cuda%s" % index, where the index may be empty or have the colon
_LONGEST = 40  # characters of a text that a device is a part of
# Names that are beside each other in a list without commas.
_LISTED = frozenset({"cuda", "cpu", "mps", "xpu", "gpu", "hip", "meta", "auto", "nccl", "gloo", "mpi", "ucc"})


class StringMatch(Match, frozen=True):
    """A whole string, where its role gives it a meaning; without a role, anywhere."""

    string: str
    role: str | None = None

    key = "string"
    shape: ClassVar[Json] = {
        "string": {"description": "The string's text, on one line.", "type": "string", "pattern": "^[^\\r\\n]+$"},
        "role": {
            "description": "What it must mean where it is: the name of a role. Without one, anything.",
            "type": "string",
        },
    }
    actions = ("rename", "needs_target", "imports")
    in_strings = True
    order = 5
    starter: ClassVar[Json] = {
        "$comment": 'A whole string. With "role": "device" only where it means a device.',
        "why": "Our launcher calls the NPU partition by another name.",
        "match": {"string": "gpu-partition"},
        "then": {"rename": "npu-partition"},
        "examples": [{"before": "submit('gpu-partition')\n", "after": "submit('npu-partition')\n"}],
    }

    @property
    def roles(self) -> frozenset[str]:
        return frozenset() if self.role is None else frozenset({self.role})

    @property
    def text(self) -> str:
        named = f"the string `{self.string}`"
        return named if self.role is None else f"{named} where it means a {self.role}"

    @property
    def subject(self) -> str:
        return f"{self.string!r}" + (f" as {self.role}" if self.role else "")

    def before(self, other: Match) -> str | None:
        if self.role is not None:
            return None
        if isinstance(other, StringMatch) and self.string == other.string:
            return "rules for whole strings come before rules for strings with a role"
        if isinstance(other, PatternMatch) and other.is_on(self.string):
            return "rules for whole strings come before patterns"
        return None

    @classmethod
    def in_text(cls, work: FileRules, ruled: RuledString) -> None:
        rule = work.table.texts.get(ruled.string.raw) if not ruled.string.is_formatted else None
        if rule is None:
            return
        ruled.rules.append(rule)
        ruled.is_handled = True
        if not rule.then.keep and (rule.then.rename is not None or not is_spoken(work.file, ruled.string.node)):
            work.matches.note(rule, ruled.string.place, ruled.string.raw)
            ruled.text = rule.then.rename if rule.then.rename is not None else ruled.text

    @classmethod
    def handlers(cls, work: FileRules) -> Handlers:
        strings = _Strings(work)
        text = work.file.text
        has_keyword = "dict(" in text and any(f"{each.text}=" in text for each in work.table.strings)
        return {Quoted: strings.quoted} | ({ast.Call: strings.keywords} if has_keyword else {})

    @classmethod
    def place_handlers(cls, rules: Knowledge) -> PlaceHandlers:
        return {KeyedValue: partial(_value_marks, rules.table), AnyText: partial(_text_marks, rules.table)}

    def why_not_text(self, site: Site, names: Names, new: str, roles: Mapping[str, Role]) -> Iterator[str]:
        if self.string not in site.word or not isinstance(site.node, ast.expr):
            return
        if self.role is None:
            yield f"the whole string would have to be '{self.string}', without anything around it"
            return
        verdict = judge(StringPlace(site.node, site.scope, names, new, Siblings()), roles[self.role])
        if verdict == NO:
            yield f"the string is where it cannot mean a {self.role}: it is read by people, or names something"
        elif verdict != YES:
            yield f"nothing beside the string says that it means a {self.role} (docs/rules/roles.md)"
        elif site.word != self.string:
            yield f"the string says more than '{self.string}', and not in a way that a {self.role} is written"


class _Strings:
    """Applies rules for strings with a role in one file."""

    def __init__(self, work: FileRules) -> None:
        self.names, self.file, self.table = work.names, work.file, work.table
        self.matches, self.targets = work.matches, work.targets
        self.siblings = Siblings()

    def quoted(self, quoted: Quoted, scope: Scope) -> None:
        """Apply the first rule that is for a string or an f-string."""
        node, literals = quoted.node, quoted.literals
        if len(literals) != 1:
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            spelled = (string_value(parts[0]) if parts else None) or ""
            is_begun = spelled.endswith(":") and all(isinstance(each, ast.FormattedValue) for each in parts[1:])
            if (is_begun or len(parts) == 1) and self.table.literal.search(spelled) is not None:
                self.spelled_in_parts(node, spelled, scope)
            return
        text = quoted.text if isinstance(node, ast.Constant) else self._beginning(quoted)
        if text is None:
            return
        is_spelled = self.table.literal.search(text.raw) is not None
        for candidate in self.table.strings if is_spelled else ():
            whole = candidate.literal.fullmatch(text.raw)
            if whole is not None and (not text.is_formatted or len(literals[0].parts) > 1 or not whole["suffix"]):
                self.literal(text, whole, candidate, scope)
                return
        if quoted.text is not None:
            self.otherwise(text, scope)

    def keywords(self, node: ast.Call, scope: Scope) -> None:
        """Rename the keywords of `dict(cuda=1)` that are looked up as what a rule is about."""
        if not isinstance(node.func, ast.Name) or node.func.id != "dict":
            return
        for keyword in node.keywords:
            rule = next((each for each in self.table.strings if each.text == keyword.arg), None)
            new = rule.rule.then.rename if rule is not None else None
            if rule is None or new is None or not new.isidentifier() or new in {each.arg for each in node.keywords}:
                continue
            key = self.place(ast.copy_location(ast.Constant(rule.text), keyword), scope, new)
            siblings = {each.arg for each in node.keywords} & rule.role.siblings
            flow = Flow(YES) if siblings and not stays(key) else judge_by_flow(key, rule.role, self.is_foreign)
            start = self.file.bounds(keyword)[0]
            place = start, start + len(rule.text)
            if flow.verdict == YES:
                why = self.targets.why(rule.rule, new) + flow.why_edited()
                self.matches.edit(Edit(place, plain(new), rule.rule.id, why))

    def otherwise(self, text: StringText, scope: Scope) -> None:
        """Apply a rule to its text in capitals or with blanks around it; report a text that has it as a part."""
        core = text.raw.strip()
        lowered = core.lower()
        for each in self.table.strings:
            new = each.rule.then.rename
            if new is None or each.text not in lowered or not re.search(rf"\b{re.escape(each.text)}\b", lowered):
                continue
            is_set = re.search(rf"[:=]\s*[\"']?{re.escape(each.text)}\b", core)
            if is_set and is_read(self.place(text.node, scope, new)):
                self._report_part(text, each.rule, new)
                return
            if " " in core or len(core) >= _LONGEST:
                continue
            flow = judge_by_flow(self.place(text.node, scope, new), each.role, self.is_foreign)
            if flow.verdict != YES:
                continue
            if each.literal.fullmatch(_FILLED_LATER.sub("", lowered)) is None:
                self._report_part(text, each.rule, new)
                return
            self.matches.note(each.rule, text.place, text.quoted(text.raw))
            renamed = text.raw.replace(each.text, new).replace(each.text.upper(), new.upper())
            why = self.targets.why(each.rule, new) + flow.why_edited()
            self.matches.edit(Edit(text.place, text.quoted(renamed), each.rule.id, why))
            return

    def _report_part(self, text: StringText, rule: Rule, new: str) -> None:
        written_text = text.quoted(text.raw)
        self.matches.note(rule, text.place, written_text)
        message = f"A part of this text means '{new}' on the NPU: change it by hand."
        self.matches.review(rule, text.place, written_text, message)

    def _beginning(self, quoted: Quoted) -> StringText | None:
        """The text of an f-string before the code that is all of the rest; None where it has another form."""
        literals = quoted.literals
        if len(literals) != 1 or not literals[0].parts or literals[0].parts[0].is_code:
            return None
        is_rest = all(part.is_code for part in literals[0].parts[1:])
        return formatted_texts(self.file, quoted.node, literals[0])[0] if is_rest else None

    def spelled_in_parts(self, node: ast.expr, whole: str, scope: Scope) -> None:
        """Report `"cuda" ":0"`, `"cuda:" f"{card}"`: too rare to be edited, but not to be passed over."""
        for candidate in self.table.strings:
            if candidate.literal.fullmatch(whole) and candidate.rule.then.rename is not None:
                place = self.place(node, scope, candidate.rule.then.rename)
                if judge(place, candidate.role) != NO:
                    message = f"Written in parts: if it means '{candidate.rule.then.rename}' on the NPU, change it."
                    bounds = self.file.bounds(node)
                    self.matches.review(candidate.rule, bounds, whole, message)
                return

    def place(self, node: ast.expr, scope: Scope, new: str) -> StringPlace:
        """The place of a string that a rule would write otherwise."""
        return StringPlace(node, scope, self.names, new, self.siblings)

    def literal(self, text: StringText, matched: re.Match[str], candidate: StringRule, scope: Scope) -> None:
        """Apply a string rule to a text that it matches, if the text means there what the rule is about."""
        rule = candidate.rule
        new = rule.then.rename or candidate.text
        prefix, suffix = matched.group("prefix") or "", matched.group("suffix") or ""
        place = self.place(text.node, scope, rule.then.rename or "")
        verdict = judge(place, candidate.role)
        if verdict != NO and prefix.endswith("."):  # "app.engine.torch.cuda.is_available"
            is_same = self.names.follow(matched.group()).startswith(f"{candidate.text}.")
            verdict = YES if is_same else LEFT
        elif verdict in (UNSURE, LEFT) and (prefix or suffix):
            is_own_key = suffix.islower() and is_key(place)  # state["torch.cuda.get_rng_state"]
            verdict = NO if is_own_key else YES
        is_raised = verdict == NO and isinstance(self.file.parents[self.file.parents[text.node]], ast.Raise)
        if (verdict == NO and not is_raised) or rule.then.keep:
            return
        flow = judge_by_texts(place, candidate.role, self.is_foreign)
        if flow is None:
            # Names of devices in a list are for whoever reads the list, and decide for themselves.
            is_listed = isinstance(self.file.parents[text.node], (ast.List, ast.Tuple, ast.Set))
            is_decided = verdict == LEFT or (verdict == YES and is_listed)
            is_named = verdict == YES
            flow = Flow(verdict) if is_decided else judge_by_flow(place, candidate.role, self.is_foreign, is_named)
        # f"cuda{index}" may name a version, a file or a key as well: only a use as a device makes it one.
        is_open = not suffix and isinstance(text.node, ast.JoinedStr) and len(text.node.values) > 1
        if flow.verdict == NO or (flow.verdict != YES and (is_raised or is_open or rule.then.rename is None)):
            return
        if self.targets.is_missing(rule, new + suffix):
            self.targets.report_missing(rule, text.place, matched.group(), new + suffix)
            return
        written_text = text.quoted(text.raw)
        if flow.verdict != YES:
            if any(found.place in self._argument_places(text) for found in self.matches.proposed[-3:]):
                return  # a rule for the argument has reported it
            if (flow.use is None or flow.use.kind == "compared") and is_option(place, candidate.role):
                return
            message = f"May mean '{new}' on the NPU; left as it is because {flow.why_left()}."
            cause = f"May mean '{new}' on the NPU; left as it is because its use does not say so."
            found = Found(text.place, rule.id, FindingKind.REVIEW, written_text, message, advice=cause)
            self.matches.report(found)
            return
        self.matches.note(rule, text.place, written_text)
        if rule.then.rename is not None:
            rest = text.raw[len(prefix + candidate.text) :]
            shown = self.file.bounds(text.node) if text.is_formatted else None
            why = self.targets.why(rule, new + suffix) + flow.why_edited()
            edit = Edit(text.place, text.quoted(prefix + new + rest), rule.id, why, shown)
            self.matches.edit(edit)

    def is_foreign(self, qualified: str) -> bool:
        """Return whether a name is of a package that computes without PyTorch and knows no NPU."""
        return foreign_rule(qualified, self.names, self.table) is not None

    def _argument_places(self, text: StringText) -> list[tuple[int, int]]:
        """The bounds of the argument that a string is, with its keyword; none where it is not one."""
        parent = self.file.parents[text.node]
        if isinstance(parent, ast.keyword):
            return [self.file.bounds(parent)]
        return [text.place] if isinstance(parent, ast.Call) else []


def _value_marks(table: RuleTable, place: KeyedValue) -> list[Mark] | None:
    """Return the marks for a value under a key, one of those beside it in a list; None for an option of one program."""
    key, value, start, siblings = place.key, place.value, place.start, place.siblings
    if value is None or place.of != "*":
        return None
    masked = _PLACEHOLDER.sub(lambda match: "{" + "_" * (len(match[0]) - 2) + "}", value)
    last = (key or "").rpartition(".")[2].lstrip("-+~")
    listed = masked.split("," if "," in masked else " ")
    for rule in table.strings:
        target = rule.rule.then.rename
        whole = rule.literal.fullmatch(masked)
        if whole is None and not (_is_list(masked, listed) and is_word(last, rule.role)):
            continue
        parts = [(0, whole)] if whole is not None else list(_parts(listed, rule))
        if not parts or target in siblings or target in listed:
            continue
        if not _has_role(rule, last, whole):
            bare = whole is not None and masked == rule.text and last.lower() not in _SPOKEN and bool(last)
            return [_review(rule, start, value)] if bare and target is not None else []
        return [mark for at, match in parts for mark in _rewritten(rule, match, start + at)]
    return []


def _text_marks(table: RuleTable, place: AnyText) -> list[Mark] | None:
    """Return the marks for a text that a rule without a role is for."""
    rule = table.texts.get(place.text)
    return None if rule is None else applied(rule, place.start, place.start + len(place.text), place.text)


def _has_role(rule: StringRule, key: str, whole: re.Match[str] | None) -> bool:
    if is_word(key, rule.role):
        return True
    formed = whole is not None and any(whole.groupdict().values())
    return formed and key.lower() not in _SPOKEN


def _review(rule: StringRule, start: int, value: str) -> Mark:
    message = f"This may mean the {rule.text} that {rule.rule.then.rename} replaces: check it."
    return review(rule.rule, start, start + len(value), value, message)


def mention_marks(table: RuleTable, text: str, start: int, message: str) -> list[Mark]:
    """Return the mark of the first device or backend in a text at `start` that a rule renames and nobody parses."""
    found = re.search(rf"(?<![\w-])(?:{table.literal.pattern})(?![\w-])", text)
    rules = (rule.rule for rule in table.strings if found is not None and rule.text in found[0])
    rule = next(rules, None)
    if found is None or rule is None:
        return []
    return [review(rule, start + found.start(), start + found.end(), found[0], message)]


def _is_list(masked: str, listed: list[str]) -> bool:
    """Return whether a value is a list: parts between commas, or names of devices or backends between blanks."""
    return "," in masked or (len(listed) > 1 and all(part.partition(":")[0] in _LISTED for part in listed))


def _parts(listed: list[str], rule: StringRule) -> Iterator[tuple[int, re.Match[str]]]:
    """The places of a list `cuda:0,cuda:1` that match the rule."""
    at = 0
    for part in listed:
        match = rule.literal.fullmatch(part)
        if match is not None:
            yield at, match
        at += len(part) + 1


def data_marks(table: RuleTable, values: Values, place: int, siblings: Set[str]) -> list[Mark]:
    """Return the marks for a text of a file of data, or a key there, among its `siblings`, by what programs do
    with what they read: by offsets in the text."""
    text = values.text(place) or ""
    rules = ((rule, rule.literal.fullmatch(text)) for rule in table.strings)
    rule, whole = next(((rule, whole) for rule, whole in rules if whole is not None), (None, None))
    new = rule.rule.then.rename if rule is not None else None
    if rule is None or whole is None or new is None or new in siblings:
        return []
    flow, file = judge_data(values, place, rule.role, new, partial(_is_foreign, table)), values.at(place)
    if flow.verdict == YES:
        is_named = place - file.first in values.project.data[file.path].changed  # the rule for its key edits it
        return [] if is_named else _rewritten(rule, whole, 0, flow.why_edited())
    is_read = values.readers_of(file.first + values.project.data[file.path].root)
    is_listed = bool(is_read) and not siblings.isdisjoint(rule.role.siblings)  # "cuda" beside "cpu"
    if not is_listed and not flow.is_contradicted and (flow.use is None or flow.use.kind not in ("unnamed", "shared")):
        return []
    message = f"May mean '{new}' on the NPU; left as it is because {flow.why_left()}."
    return [review(rule.rule, 0, len(text), text, message)]


def _is_foreign(table: RuleTable, qualified: str) -> bool:
    rule = table.package_rule(qualified)
    return rule is not None and bool(rule.then.own_devices)


def _rewritten(rule: StringRule, match: re.Match[str], start: int, why: str = "") -> list[Mark]:
    first = start + len(match.group("prefix") or "")
    last = first + len(rule.text)
    target = rule.rule.then.rename
    edits: list[Mark] = (
        [Edit((first, last), plain(target), rule.rule.id, rule.rule.why + why)] if target is not None else []
    )
    return edits + reported(rule.rule, first, last, match[0])
