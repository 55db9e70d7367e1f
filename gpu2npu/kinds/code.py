"""Rules for code by a pattern with metavariables."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import asdict

from gpu2npu.engine.code_matching import CodeMatcher, Matched, rules_by_word, type_problem, with_article
from gpu2npu.engine.file_rules import FileRules
from gpu2npu.engine.other_devices.choices import chooses
from gpu2npu.engine.possible_code import function_as_value, possible_message
from gpu2npu.engine.rewriting.code_imports import CodeImports, CodeReplacement, respelled
from gpu2npu.engine.rewriting.filling import Misfit, in_f_strings, is_loose, runs_in_order
from gpu2npu.engine.rewriting.in_place import in_place, shifts
from gpu2npu.engine.rewriting.statements import added, anchor_of, taken_out
from gpu2npu.engine.rewriting.through_names import is_taken_apart, outermost, through_names
from gpu2npu.python.text.concrete import comments
from gpu2npu.python.text.templates import ATOMS, Filling, Piece, fill, parenthesized, pieces_of
from gpu2npu.python.tree.scopes import Assigned, Scope
from gpu2npu.python.tree.syntax import argument_value, arguments, chain, dotted_name, has_effects
from gpu2npu.records import Edit, Text
from gpu2npu.rulebook.code_pattern import (
    ANYTHING,
    CodePattern,
    PatternError,
    check_pattern,
    metavariable,
    parse_code,
    qualified_name,
)
from gpu2npu.rulebook.match import Evidence, Json, Match
from gpu2npu.rulebook.rule import Addition, Rule
from gpu2npu.rulebook.template import ARGS

if TYPE_CHECKING:
    from gpu2npu.engine.line_sites import Site
    from gpu2npu.python.meaning.names import Names

_PLAIN = ("name", "literal", "pure")  # what may be written twice


class CodeMatch(Match, frozen=True):
    """An expression by a pattern; `types` say what its metavariables must be, and `signature` are the parameters of the
    function that is called, in their order, so that an argument counts by position and by keyword."""

    code: str
    types: tuple[tuple[str, str], ...] = ()
    signature: tuple[str, ...] = ()
    chooses: str | None = None
    parts: bool = False

    key = "code"
    shape: ClassVar[Json] = {
        "code": {
            "description": "An expression: $X is any expression, the same at each place, $_ any at all, ... any "
            "further arguments; names are qualified ones.",
            "type": "string",
            "minLength": 1,
        },
        "types": {
            "description": "What metavariables must be: tensor, module, unknown, device, dtype, literal, integer, "
            "name, pure (code that may run twice), or the qualified name of a class.",
            "type": "object",
            "minProperties": 1,
            "propertyNames": {"pattern": "^[A-Z_][A-Z0-9_]*$"},
            "additionalProperties": {"$ref": "#/$defs/qualified_name"},
        },
        "signature": {
            "description": "The parameters of the function that is called, in their order, without self.",
            "type": "array",
            "items": {"$ref": "#/$defs/identifier"},
            "uniqueItems": True,
        },
        "chooses": {"description": "Only where it decides for or against code with this word.", "type": "string"},
        "parts": {"description": "Only a call whose result is compared or taken apart.", "type": "boolean"},
    }
    actions = ("replace", "remove", "add", "imports")
    additions = ("statement",)
    order = -3
    starter: ClassVar[Json] = {
        "$comment": "Code by a pattern: $X is any expression, ... any further arguments, names are qualified ones.",
        "why": "The NPU build of the function has another name and another name for its tolerance.",
        "match": {"code": "fastlib.gpu.norm($X, eps=$EPS, ...)", "signature": ["x", "eps"]},
        "then": {"replace": "fastlib.npu.norm($X, epsilon=$EPS, ...)"},
        "examples": [
            {
                "before": "from fastlib.gpu import norm\ny = norm(x, 1e-5, out=z)\n",
                "after": "from fastlib.npu import norm\ny = norm(x, epsilon=1e-5, out=z)\n",
            },
            {"keep": "def norm(x, eps): ...\ny = norm(x, eps=1e-5)\n"},
        ],
    }

    @property
    def pattern(self) -> CodePattern:
        """The pattern, parsed."""
        return parse_code(self.code)

    @property
    def index(self) -> str:
        return self.pattern.leaf

    @property
    def evidence(self) -> Evidence:
        return Evidence(" ".join(sorted(self.pattern.words)))

    @property
    def qualified(self) -> str | None:
        name = qualified_name(self.pattern.names[0])
        return name if name is not None and "." in name else None

    @property
    def callee_leaves(self) -> frozenset[str]:
        return self.pattern.words

    @property
    def text(self) -> str:
        types = ", ".join(f"`${name}` is {with_article(kind)}" for name, kind in self.types)
        chosen = f" that decides for or against `{self.chooses}`" if self.chooses else ""
        chosen += ", whose result is compared or taken apart" if self.parts else ""
        return f"the code `{self.code}`{chosen}" + (f" where {types}" if types else "")

    @property
    def subject(self) -> str:
        return self.code

    @classmethod
    def decode(cls, entry: Mapping[str, Any]) -> CodeMatch:
        listed = {"types": tuple(entry.get("types", {}).items()), "signature": tuple(entry.get("signature", ()))}
        return cls(**{**entry, **listed})

    def encode(self) -> dict[str, Any]:
        entry = {**asdict(self), "types": dict(self.types), "signature": list(self.signature)}
        return {key: value for key, value in entry.items() if value}

    @classmethod
    def problems(cls, entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        match, then = entry["match"], entry["then"]
        try:
            pattern = check_pattern(match["code"])
        except PatternError as error:
            yield "match.code", str(error)
            return
        known = pattern.metavariables.keys() - {ANYTHING}
        types = match.get("types", {})
        for name in types.keys() - known:
            yield f"match.types.{name}", f"the pattern has no metavariable ${name}"
        found = {name: type_problem(kind) for name, kind in types.items()}
        yield from ((f"match.types.{name}", problem) for name, problem in found.items() if problem is not None)
        if "replace" not in then:
            return
        try:
            new = parse_code(then["replace"])
        except PatternError as error:
            yield "then.replace", str(error)
            return
        for name, count in new.metavariables.items():
            if name not in known:
                yield "then.replace", f"the metavariable ${name} is not in the pattern"
            elif count > 1 and types.get(name) not in _PLAIN:
                yield (
                    "then.replace",
                    f"${name} stands {count} times in it, so that its code would run {count} times; say in 'types' "
                    f"that it is a name or a literal, or write it once",
                )
        if new.has_rest and not pattern.has_rest:
            yield "then.replace", "`...` stands for the arguments that `...` of the pattern matches, and it has none"

    def why_not(self, site: Site, names: Names) -> str | None:
        other = super().why_not(site, names) if self.qualified is not None else None
        place = self.pattern, site.node, site.scope, dict(self.types), self.signature
        return other or CodeMatcher(names).difference(*place) or self.otherwise

    @classmethod
    def in_python(cls, work: FileRules) -> None:
        CodeRules(work).run()


Removed = tuple[Rule, Matched, list[Edit]]  # and how it is taken out


class CodeRules:
    """Applies rules for code patterns in one file."""

    def __init__(self, work: FileRules) -> None:
        self.names = work.names
        self.file = work.names.file
        self.table = work.table
        self.matches = work.matches
        self.spelled = rules_by_word(work, CodeMatch.key)
        self.matcher = CodeMatcher(work.names)
        self.work = work

    def run(self) -> None:
        """Apply the rules."""
        met: dict[ast.AST, tuple[Rule, Matched]] = {}
        possible: dict[ast.AST, tuple[Rule, Matched]] = {}
        for node, scope in self.file.uses if self.spelled else ():
            for rule, matched in self._at(node, scope) if isinstance(node, (ast.Name, ast.Attribute)) else ():
                if not (matched.unknown and rule.then.keep):  # what may stay may be for another rule too
                    (possible if matched.unknown else met).setdefault(matched.node, (rule, matched))
        met.update((each[1].node, each) for each in through_names(self.names, self.spelled, met.keys()))
        found = self._where_npu_runs(outermost(met, self.file))
        for rule, matched in self._where_npu_runs({at: each for at, each in possible.items() if at not in met}):
            if (message := possible_message(self.work, rule, matched)) is not None:
                self._report(rule, matched, message)
        self.work.handled.update(name for _, matched in found for name in matched.names)
        for _, matched in found:  # what `$X.cuda()` is called on is the file's own code
            self.work.unhandled.update(dict.fromkeys(matched.values.values(), matched.names))
        self._apply([(rule, matched) for rule, matched in found if not rule.then.keep])

    def _where_npu_runs(self, met: Mapping[ast.AST, tuple[Rule, Matched]]) -> list[tuple[Rule, Matched]]:
        """The matches but for those in code that runs on no NPU; `met` has them by what they match."""
        return [found for root, found in met.items() if not self.matches.stays.has(self.file.bounds(root))]

    # Matching

    def _at(self, node: ast.Name | ast.Attribute, scope: Scope) -> Iterator[tuple[Rule, Matched]]:
        """The matches whose first name is one of those in a dotted expression."""
        for part in chain(node):
            if isinstance(part, (ast.Name, ast.Attribute)):
                word = part.attr if isinstance(part, ast.Attribute) else part.id
                for rule in self.spelled.get(word, ()):
                    matched = self._match(rule, part, scope)
                    if matched is not None:
                        yield rule, matched

    def _match(self, rule: Rule, part: ast.expr, scope: Scope) -> Matched | None:
        assert isinstance(rule.match, CodeMatch)
        pattern, types = rule.match.pattern, dict(rule.match.types)
        possible = function_as_value(self.names, pattern, part, scope)
        if pattern.names[0] is pattern.tree and any(isinstance(each, Assigned) for each in scope.bound(part)):
            return None  # its value is replaced where it is assigned
        for root in self._roots(pattern, part):
            is_chosen = rule.match.chooses is None or chooses(self.file, root, rule.match.chooses)
            matched = self.matcher.match(pattern, root, scope, types, rule.match.signature) if is_chosen else None
            if matched is None or part not in matched.names or _gives(matched.rest, _new_keywords(rule)):
                continue
            if rule.match.parts and not is_taken_apart(self.names, root):
                continue
            if matched.unknown:
                is_other = self._is_called(matched) or (rule.then.report is not None and not matched.is_loaded)
                possible = possible if is_other else matched
            elif self._is_read(rule, matched):
                return matched
        return possible

    def _roots(self, pattern: CodePattern, part: ast.expr) -> Iterator[ast.expr]:
        """The expressions above a name that the whole pattern may be."""
        wanted = type(pattern.tree)
        is_name = pattern.names[0] is pattern.tree
        for node in (part, *self.file.above(part)):
            if not isinstance(node, (ast.expr, ast.keyword)):
                return
            if isinstance(node, ast.expr) and (is_name or type(node) is wanted):
                yield node
            if is_name:
                return

    def _is_read(self, rule: Rule, matched: Matched) -> bool:
        """Return whether the place is read, and a member no method that is called; reports one that is assigned."""
        if not matched.is_loaded:
            message = f"{rule.why} It is assigned or deleted here: change it by hand."
            self._report(rule, matched, message)
            return False
        return not self._is_called(matched)

    def _is_called(self, matched: Matched) -> bool:
        """Return whether the place is a member that is called: a method, where the pattern is for an attribute."""
        return isinstance(matched.node, ast.Attribute) and self.file.call_of(matched.node) is not None

    def _apply(self, found: Sequence[tuple[Rule, Matched]]) -> None:
        removed, replaced, gone = [], [], {matched.node for rule, matched in found if rule.then.remove}
        for rule, matched in found:
            self.matches.note(rule, self.file.bounds(matched.node), self._shown(matched))
            edits = taken_out(self.file, matched.node, gone, rule.id, rule.why) if rule.then.remove else None
            if edits is not None:
                removed.append((rule, matched, edits))
            elif rule.then.remove:
                self._report(rule, matched, f"{rule.why} A value, comment or docstring would change: do it by hand.")
            elif rule.then.replace is not None:
                replaced.append(CodeReplacement(rule, matched, parse_code(rule.then.replace)))
        self._edit(removed, replaced)
        for rule, matched, add in [(*each, each[0].then.add) for each in found]:
            if add is not None:
                self._add(rule, matched, add)

    def _add(self, rule: Rule, matched: Matched, add: Addition) -> None:
        """Add a statement beside the one that has the match, once."""
        imports = CodeImports(self.names, may_edit=False, spelling=set())
        written = imports.written(rule, matched.scope, add.code, matched.names)
        statement = anchor_of(self.file, matched, add.place)
        edit = added(self.file, statement, rule, add, *written) if written is not None else None
        if edit is None:
            message = f"{rule.why} There is no line of its own for `{add.code}` here: add it by hand."
            self._report(rule, matched, message)
        elif edit.text and edit not in self.matches.edits:
            self.matches.edit(edit)

    def _edit(self, removed: Sequence[Removed], replaced: Sequence[CodeReplacement]) -> None:
        """Make the edits. Where one does not fit, it is reported, and the others are planned without it: whether an
        import can go depends on all of them."""
        imports = CodeImports(self.names, self.work.may_rename, self.work.spelling)
        imports.plan(replaced, [matched for _, matched, _ in removed])
        edits = [self._replaced(imports, each) for each in replaced]
        fitting: list[CodeReplacement] = []
        for each, edit in zip(replaced, edits, strict=True):
            if isinstance(edit, Edit):
                fitting.append(each)
            else:
                message = f"{each.rule.why} The replacement does not fit here: {edit}. Change it by hand."
                self._report(each.rule, each.matched, message)
                self.work.refused.add(each.matched.node)
        if len(fitting) < len(replaced):
            self._edit(removed, fitting)
            return
        for rule, matched, _ in removed:
            imports.drop(matched.names, rule)
        taken = [edit for _, _, each in removed for edit in each]
        self.matches.edit(*(edit for edit in edits if isinstance(edit, Edit)), *taken, *imports.edits())

    def _replaced(self, imports: CodeImports, replacement: CodeReplacement) -> Edit | str:
        """The edit for a match; where it does not fit, the reason."""
        rule, matched, new = replacement
        names = imports.spelled(rule, matched.scope, matched.pattern_names, new)
        if names is None:
            return "a name of it means something else at this place"
        if isinstance(code := self._code(rule, matched, new, names.spelled), Misfit):
            return code.reason
        return Edit(self.file.bounds(matched.node), code, rule.id, rule.why, needs=names.needs)

    def _code(self, rule: Rule, matched: Matched, new: CodePattern, spelled: dict[str, str]) -> Text | Misfit:
        """The new code; where it would lose a comment, or run something more or less often or in another order, that
        as the reason."""
        assert isinstance(rule.match, CodeMatch)
        node, old, retained = matched.node, rule.match.pattern.metavariables, new.metavariables
        lost = [value for name, value in matched.values.items() if retained[name] < old[name]] + matched.ignored
        lost += [] if new.has_rest else matched.rest
        if _new_keywords(rule) and any(isinstance(each, ast.keyword) and each.arg is None for each in matched.rest):
            return Misfit("the arguments that are unpacked may have a keyword of it already")
        if shifts(matched, new):
            return Misfit("the arguments behind one that gets a keyword would be for other parameters")
        if any(has_effects(argument_value(each)) for each in lost):
            return Misfit("something would no longer run")
        code = in_place(self.file, rule.match.pattern, new, matched, spelled)
        if code is None:
            pieces = [respelled(piece, spelled) for piece in new.pieces if piece.text != ""]
            code = fill(self.file, pieces, partial(_filling, matched=matched))
            if code is not None and not (isinstance(new.tree, ATOMS) or is_loose(self.file, node)):
                code = code if metavariable(new.tree) else parenthesized(code)
        if code is None:
            return Misfit("something would run twice, or a slice would be outside of brackets")
        if any(not _is_retained(at, code) for at in comments(self.file, node)):
            return Misfit("a comment would be lost")
        given = [*matched.values.values(), *map(argument_value, matched.rest)]
        changeable = [each for each in given if self.names.qualified(each, matched.scope) is None]
        if not runs_in_order(self.file, changeable, code):
            return Misfit("what calls do, and what is read, would come in another order")
        return in_f_strings(self.file, node, code) or Misfit("the f-string around it cannot hold its quotes")

    def _shown(self, matched: Matched) -> str:
        callee = matched.node.func if isinstance(matched.node, ast.Call) else matched.node
        return self.names.qualified(callee, matched.scope) or dotted_name(callee) or self.file.code(callee)

    def _report(self, rule: Rule, matched: Matched, message: str) -> None:
        self.matches.review(rule, self.file.bounds(matched.node), self._shown(matched), message)


def _new_keywords(rule: Rule) -> frozenset[str]:
    """The keywords that a call of the replacement has and the rest of the arguments must not have."""
    new = parse_code(rule.then.replace) if rule.then.replace is not None else None
    if new is None or not new.has_rest or not isinstance(new.tree, ast.Call):
        return frozenset()
    return frozenset(each.arg for each in new.tree.keywords if each.arg is not None)


def _gives(given: Sequence[ast.expr | ast.keyword], keywords: frozenset[str]) -> bool:
    return any(isinstance(each, ast.keyword) and each.arg in keywords for each in given)


def _filling(piece: Piece, matched: Matched) -> Filling | None:
    """The code that takes the place of a field of the replacement."""
    if piece.field != ARGS:
        return matched.values.get(str(piece.field))
    given = arguments(matched.node) if isinstance(matched.node, ast.Call) else []
    return matched.rest if all(each in given for each in matched.rest) else None


def _is_retained(offset: int, code: Text) -> bool:
    return any(not isinstance(piece, str) and piece[0] <= offset < piece[1] for piece in pieces_of(code))
