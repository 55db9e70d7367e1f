"""One pass over the uses of names in a file that asks, at each that could matter, whether a rule is for it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import chain
from typing import Any

from gpu2npu.engine.context import ProjectContext
from gpu2npu.engine.file_rules import FileRules, Handler, Quoted, RuledString
from gpu2npu.engine.imports import ImportSite
from gpu2npu.engine.matches import Matches
from gpu2npu.engine.rewriting.name_uses import is_type_checking
from gpu2npu.engine.skips import Skips
from gpu2npu.engine.strings.forms import CLICK, FLAGS
from gpu2npu.engine.strings.texts import StringText, formatted_texts, plain_text, written
from gpu2npu.engine.table import RuleTable
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.text.offsets import holds
from gpu2npu.python.text.source import words
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import Import, import_module, last_name, local_name, string_value
from gpu2npu.python.tree.walk import USES, Use
from gpu2npu.records import Edit, FindingKind, Found


def find_matches(names: Names, context: ProjectContext, table: RuleTable, skips: Skips) -> Matches:
    """Every edit and finding that the rules of the table have for a file."""
    spelled = words(names.file.text.encode("utf-8", "surrogatepass"))
    work = FileRules(names, context, table, Matches(names, table, skips), not skips.lines, spelled)
    for kind in table.classes:
        kind.in_python(work)
    _Matcher(work).run()
    work.matches.sites += [_site(work, node, scope) for node, scope in work.imports]
    report_option_names(names.file, work.matches)
    work.matches.finish()
    return work.matches


class _Matcher:
    def __init__(self, work: FileRules) -> None:
        self.work = work
        self.file = work.file
        self.table = work.table
        self.matches = work.matches
        self.handled = work.handled
        self.text_kinds = [kind for kind in work.table.classes if kind.in_strings]

    def run(self) -> None:
        """Ask, at each use of a name, the kinds that have something to do there."""
        called, interesting = self.work.called, self.work.interesting
        handlers = self._handlers()
        for node, scope in chain(self.file.uses, self._others(handlers)):
            kind = node.__class__
            if kind is ast.Name and node.id not in interesting:  # type: ignore[attr-defined]  # as most names are not
                continue
            if kind not in handlers or (self.handled and self._is_handled(node)):
                continue
            part: ast.AST | None = _owner(node, called) if node in called else node
            for handler in handlers.get(type(part), ()) if part is not None else ():
                if handler(part, scope):
                    break
        for handler in handlers.get(ast.Module, ()):
            handler(self.file.tree, self.file.module)

    def _others(self, handlers: Mapping[type[Any], Sequence[Handler]]) -> Iterator[Use]:
        """The nodes of types that a handler is for and that are not uses, each with its scope."""
        others = handlers.keys() - {*USES, Quoted, ast.Module}
        nodes = self.file.parents if others else ()
        return ((node, self.file.scope_of(node)) for node in nodes if node.__class__ in others)

    def _handlers(self) -> dict[type[Any], list[Handler]]:
        """Return what is done at nodes of each type, in the order of the kinds. It is in no attribute: methods there
        would keep a file's tree until the garbage collector runs."""
        found: dict[type[Any], list[Handler]] = {}
        for kind in self.table.classes:
            for node, handler in kind.handlers(self.work).items():
                found.setdefault(node, []).append(handler)
        string = partial(self.string, found.get(Quoted, ()))
        own: dict[type[Any], Handler] = {
            ast.Import: self.import_,
            ast.ImportFrom: self.import_,
            ast.Constant: string,
            ast.JoinedStr: string,
        }
        for node, handler in own.items():
            found.setdefault(node, []).append(handler)
        return found

    def import_(self, node: Import, scope: Scope) -> None:
        """Remember an import statement that no rule has handled."""
        self.work.imports.append((node, scope))

    def _is_handled(self, node: ast.AST) -> bool:
        left: set[ast.AST] = set()
        for each in (node, *self.file.above(node)):
            if each in self.handled and each not in left:
                return True
            left.update(self.work.unhandled.get(each, ()))
        return False

    # Strings.

    def string(self, handlers: Sequence[Handler], node: ast.Constant | ast.JoinedStr, scope: Scope) -> None:
        """Apply the rules for the texts of a string or an f-string, and where there is none for a string that is one
        literal, those for what the string is, by the handlers of their kinds."""
        whole = string_value(node)
        is_plain = whole is not None
        if whole is not None and not self.work.may_be_for(whole, node):
            return
        if is_plain and isinstance(self.file.parents[node], ast.Expr):  # a docstring
            return
        found, text = written(self.file, node), None
        for literal in found:
            if literal.is_formatted:
                for each in formatted_texts(self.file, node, literal):
                    self.by_text(each)
                continue
            text = plain_text(self.file, node, literal)
            if self.by_text(text) and is_plain and len(found) == 1:
                return
        quoted = Quoted(node, found, text if is_plain and len(found) == 1 else None)
        for handler in handlers:
            if handler(quoted, scope):
                return

    def by_text(self, string: StringText) -> bool:
        """Apply the rules for the text of a string, wherever it is; return whether there was one."""
        ruled = RuledString(string, string.raw)
        for kind in self.text_kinds:
            kind.in_text(self.work, ruled)
            if ruled.is_handled:
                break
        if ruled.text != string.raw:
            rule = next(rule for rule in ruled.rules if rule.then.rename is not None)
            if string.can_be(ruled.text):
                edits = (Edit(place, new, rule.id, rule.why) for place, new in string.replacements(ruled.text))
                self.matches.edit(*edits)
            else:
                message = f"{rule.why} The replacement does not fit into this string: change it by hand."
                self.matches.report(Found(string.place, rule.id, FindingKind.REVIEW, string.raw, message))
        return bool(ruled.rules)


def _site(work: FileRules, node: Import, scope: Scope) -> ImportSite:
    """A statement that may bring torch into the file."""
    if isinstance(node, ast.Import):
        names = frozenset(alias.name.partition(".")[0] for alias in node.names)
        names |= {alias.asname or "" for alias in node.names}
        plain = any(alias.name == "torch" for alias in node.names)
    else:
        names = frozenset(local_name(alias, node) for alias in node.names)
        names |= {import_module(node).partition(".")[0]}
        if "*" in names:
            names |= {name for name in work.matches.anchors if work.names.through_stars(name) is not None}
        plain = False
    conditions = (each.test for each in work.file.above(node) if isinstance(each, ast.If))
    for_types = any(map(is_type_checking, conditions))
    return ImportSite(node, scope, names, plain, node in work.matches.edited_imports, for_types)


def _owner(node: ast.AST, called: Set[ast.AST]) -> ast.expr | None:
    """The owner of a called name, which the rule for the call has not handled."""
    while isinstance(node, ast.Attribute) and node in called:
        node = node.value
    return node if isinstance(node, (ast.Name, ast.Attribute)) and node not in called else None


def report_option_names(file: PythonFile, matches: Matches) -> None:
    """Report each option whose name an edit changes: `add_argument("--gpus")` is read as `args.gpus` elsewhere."""
    edits = [edit for edit in matches.edits if "--" in file.text[edit.place[0] : edit.place[1]]]
    for node, _ in file.uses if edits else ():
        if not isinstance(node, ast.Call) or last_name(node.func) not in FLAGS:
            continue
        option = next((each for each in node.args if (string_value(each) or "").startswith("--")), None)
        is_named = any((string_value(each) or "-").isidentifier() for each in node.args)
        if option is None or is_named or any(keyword.arg == "dest" for keyword in node.keywords):
            continue
        place, name = file.bounds(option), _attribute(string_value(option) or "")
        for edit in edits:
            written = "".join(each if isinstance(each, str) else "" for each in edit.pieces)
            new = file.text[place[0] : edit.place[0]] + written + file.text[edit.place[1] : place[1]]
            if not holds(place, edit.place) or _attribute(new) == name:
                continue
            is_click = last_name(node.func) == CLICK
            reads, given = (
                (f"takes this option as the parameter `{name}`", repr(name))
                if is_click
                else (f"reads this option as `.{name}`", f"dest={name!r}")
            )
            message = f"The program {reads}: give the call {given}, or rename what reads it."
            matches.report(Found(edit.place, edit.rule, FindingKind.REVIEW, string_value(option) or "", message))


def _attribute(option: str) -> str:
    """The attribute under which argparse keeps an option."""
    return option.strip("\"'").lstrip("-").replace("-", "_")
