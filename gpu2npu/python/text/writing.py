"""Writes the edits of a Python file by LibCST: the smallest statement that holds some, or the head of one, is parsed
once, and one transformer changes its nodes. All around it stays to the byte.

This module imports LibCST, which takes as long as the rest of a start: import it where something is written.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from gpu2npu.python.text import changes
from gpu2npu.python.text.changes import Change, NotCodeError
from gpu2npu.python.text.edits import Edited, EditNode, Replacement
from gpu2npu.python.text.offsets import Lines, holds, splice
from gpu2npu.python.text.statements import Fragment, FragmentEdits, grouped
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.records import Bounds, Edit

_COMMENT = re.compile(r"#[^\r\n]*")
# What is in lists that can lose elements: the names of these, by the nodes that have them.
_ROWS: dict[str, tuple[type, ...]] = {"items": (cst.With,), "names": (cst.Import, cst.ImportFrom)}
_LINE_END = re.compile(r"[\r\n]")
# What is in a list, with a comma or a semicolon behind it.
_ELEMENTS = (cst.Arg, cst.ImportAlias, cst.Param, cst.BaseSmallStatement)


@dataclass(frozen=True)
class Written:
    """The text of a file after its edits, by the fragments that are written anew. `as_text` are the edits that were not
    changes of nodes, each with the reason: their fragments were put together as text."""

    source: str
    replacements: Sequence[Replacement]
    as_text: Mapping[Edit, str]

    @property
    def text(self) -> str:
        """The text after the edits."""
        return splice(self.source, self.replacements)


def rewritten(file: PythonFile, edited: Edited) -> Written:
    """Write a file."""
    as_text: dict[Edit, str] = {}
    groups = grouped(file, edited)
    fragments = [
        Replacement(group.fragment.start, group.fragment.end, _rewritten(edited, group, as_text)) for group in groups
    ]
    return Written(file.text, fragments, as_text)


def _rewritten(edited: Edited, group: FragmentEdits, as_text: dict[Edit, str]) -> str:
    fragment = group.fragment
    every = group.in_order
    text = edited.spliced(fragment.start, fragment.end, every)
    try:
        if fragment.is_empty:
            return changes.lines(*(_new_lines(edited, fragment, node) for node in group.nodes))
        if not text:
            return text
        plan = _Plan(edited, FragmentNodes(fragment, edited.source))
        for node in group.nodes:
            plan.edit(node)
        new = plan.result(group.head)
        if new != text:
            raise NotCodeError("LibCST writes it otherwise")
        return new
    except (NotCodeError, cst.CSTValidationError, cst.CSTLogicError) as error:
        as_text.update((node.edit, str(error)) for node in every)
        return text


def _new_lines(edited: Edited, fragment: Fragment, node: EditNode) -> str:
    """The new lines of an edit, from the start of the first."""
    indent = edited.source[fragment.start : node.start]
    text = edited.new(node)
    return indent + text[: len(text) - len(indent)] if indent else text


class FragmentNodes:
    """A fragment as LibCST sees it: its nodes by their offsets in the file.

    Raises:
        NotCodeError: LibCST does not parse it.
    """

    def __init__(self, fragment: Fragment, source: str) -> None:
        self.fragment = fragment
        code = fragment.before + source[fragment.start : fragment.end] + fragment.after
        wrapper = MetadataWrapper(changes.module(code), unsafe_skip_copy=True)
        self.module = wrapper.module
        lines, shift = Lines.of(code).starts, fragment.start - len(fragment.before)
        self.bounds: dict[cst.CSTNode, Bounds] = {}
        for node, place in wrapper.resolve(PositionProvider).items():
            start = lines[place.start.line - 1] + place.start.column + shift
            self.bounds[node] = start, lines[place.end.line - 1] + place.end.column + shift
        self.expressions: dict[Bounds, tuple[Any, int]] = {}
        self.elements: list[tuple[Any, Bounds]] = []
        self.strings: list[tuple[Any, Bounds]] = []
        for node, bounds in self.bounds.items():
            if isinstance(node, cst.BaseExpression):
                self.expressions[bounds] = node, len(node.lpar)
                for index, (left, right) in enumerate(zip(node.lpar, reversed(node.rpar), strict=True)):
                    self.expressions[self.bounds[left][0], self.bounds[right][1]] = node, index
                if isinstance(node, cst.SimpleString):
                    self.strings.append((node, bounds))
            elif isinstance(node, cst.FormattedStringText):
                self.strings.append((node, bounds))
            elif isinstance(node, _ELEMENTS):
                last: Any = None
                if isinstance(node, cst.Param):  # its annotation and default are not counted to it
                    last = node.default or (node.annotation and node.annotation.annotation)
                self.elements.append((node, bounds if last is None else (bounds[0], self.outer(last)[1])))

    def outer(self, node: Any) -> Bounds:
        """The offsets of an expression with the parentheses around it."""
        return (self.bounds[node.lpar[0]][0], self.bounds[node.rpar[-1]][1]) if node.lpar else self.bounds[node]

    def find(self, kind: type | tuple[type, ...], place: Bounds) -> Iterator[Any]:
        """The nodes of a kind that are between two offsets."""
        return (node for node, bounds in self.bounds.items() if isinstance(node, kind) and holds(place, bounds))


def _row(owner: Any, name: str) -> Sequence[Any]:
    """The elements of a list of a node; none for the star of an import."""
    found = getattr(owner, name)
    return () if isinstance(found, cst.ImportStar) else found


def _arguments(owner: Any) -> Sequence[cst.Arg]:
    """The arguments of a call, or of the brackets of a class."""
    return owner.args if isinstance(owner, cst.Call) else [*owner.bases, *owner.keywords]


class _Plan(cst.CSTTransformer):
    """Makes the edits of a fragment, those inside a node before its own, and visits only what is around them."""

    def __init__(self, edited: Edited, nodes: FragmentNodes) -> None:
        super().__init__()
        self.edited = edited
        self.nodes = nodes
        self.changes: dict[cst.CSTNode, list[Change]] = {}
        self.parts: dict[cst.CSTNode, Any] = {}
        self.out: dict[cst.CSTNode, list[EditNode]] = {}
        self.gone: dict[tuple[cst.CSTNode, str], set[int]] = {}
        self.targets: list[int] = []  # the offsets at which what is visited begins

    def result(self, head: EditNode | None) -> str:
        """The code of the fragment after the changes."""
        for owner, nodes in self.out.items():
            self._without(owner, nodes)
        for (owner, name), gone in self.gone.items():
            self._put(owner, changes.without(name, gone))
        self.targets.sort()
        module, fragment = self.nodes.module.visit(self), self.nodes.fragment
        if head is not None:
            change = changes.enclosed(self.edited.new(head), fragment.indent or "")
            module = changes.in_fragment(module, fragment.indent, change)
        self.changes.clear()  # which know this object
        code = module.code
        return code[len(fragment.before) : len(code) - len(fragment.after)]

    def edit(self, node: EditNode) -> None:
        """Plan an edit, and those inside of it that are made.

        Raises:
            NotCodeError: It is not a change of a node.
        """
        if node.edit.moves is not None:
            found = self.nodes.find(cst.With, (node.start, node.edit.moves.end + 1))
            self._put(min(found, key=self.nodes.bounds.__getitem__), changes.unwrapped)
            return
        is_out = not _COMMENT.sub("", self.edited.new(node)).strip()
        way = self._beside if node.start == node.end else self._out if is_out else self._new
        if not way(node) and not self._text(node):
            raise NotCodeError("no node begins and ends there")

    def _put(self, node: cst.CSTNode, change: Change, first: bool = False) -> bool:
        """Plan a change of a node, as the `first` or the last of it."""
        planned = self.changes.setdefault(node, [])
        planned.insert(0 if first else len(planned), change)
        self.targets.append(self.nodes.bounds[node][0])
        return True

    def _new(self, node: EditNode) -> bool:
        """Another node in the place of one."""
        place, indent = node.edit.extent, self.nodes.fragment.indent or ""
        found, level = self.nodes.expressions.get(place, (None, 0))
        text = None if found is not None and (self._parts(node) or found in self.parts) else self.edited.new(node)
        if found is not None:
            code, parts = changes.template(node.edit.pieces) if text is None else (text, ())
            new = changes.expression(code, indent)
            if new is not None:
                for index, piece in enumerate(node.edit.pieces if text is None else ()):
                    self._part(node, index, piece)
                of = [self.nodes.expressions[part] for part in parts]
                return self._put(
                    found, lambda old: changes.replaced(old, level, new, [(self.parts[n], k) for n, k in of])
                )
        text = self.edited.new(node)
        for each, bounds in self.nodes.elements:
            if bounds == place and isinstance(each, cst.BaseSmallStatement) and _LINE_END.search(text):
                return self._put(self._line_of(each), changes.lines_instead(text, indent))
            if bounds == place:
                return self._put(each, changes.instead(type(each), text, indent))
            if isinstance(each, cst.ImportAlias) and self.nodes.bounds[each.name] == place:
                return self._put(each, changes.renamed_alias(text))
        return False

    def _parts(self, node: EditNode) -> bool:
        """Return whether all parts of the file that an edit keeps are expressions in what it replaces."""
        parts = [piece for piece in node.edit.pieces if not isinstance(piece, str)]
        return bool(parts) and all(node.keeps(part) and part in self.nodes.expressions for part in parts)

    def _part(self, node: EditNode, index: int, piece: str | Bounds) -> None:
        if isinstance(piece, str):
            return
        part, _ = self.nodes.expressions[piece]
        self.parts[part] = part
        self.targets.append(self.nodes.bounds[part][0])
        for inner in node.in_piece(index):
            self.edit(inner)

    def _text(self, node: EditNode) -> bool:
        """Another text in a string."""
        place = node.edit.extent
        index = bisect_right(self.nodes.strings, place[0], key=lambda each: each[1][0]) - 1
        string, bounds = self.nodes.strings[index] if index >= 0 else (None, place)
        if string is None or not holds(bounds, place):
            return False
        start, text = place[0] - bounds[0], self.edited.new(node)
        return self._put(string, changes.reworded(start, start + place[1] - place[0], text), first=True)

    def _out(self, node: EditNode) -> bool:
        """A node less."""
        place = node.edit.extent
        for each in self.nodes.find(cst.Attribute, (0, place[1])):
            if self.nodes.bounds[each][1] == place[1] and self.nodes.outer(each.value)[1] == place[0]:
                return self._put(each, changes.owner)
        for each in self.nodes.find((cst.FunctionDef, cst.ClassDef), (0, len(self.edited.source))):
            gone = {at for at, part in enumerate(each.decorators) if holds(place, self.nodes.bounds[part])}
            if gone:
                return self._put(each, changes.without_decorators(gone))
        for each in self.nodes.find((cst.Call, cst.ClassDef), (0, len(self.edited.source))):
            inside = any(holds(place, self.nodes.bounds[argument]) for argument in _arguments(each))
            if inside and not holds(place, self.nodes.bounds[each]):
                self.out.setdefault(each, []).append(node)
                return True
        for name, kinds in _ROWS.items():
            for each in self.nodes.find(kinds, (0, len(self.edited.source))):
                gone = {at for at, part in enumerate(_row(each, name)) if holds(place, self.nodes.bounds[part])}
                if gone and not holds(place, self.nodes.bounds[each]):
                    self.gone.setdefault((each, name), set()).update(gone)
                    return True
        found = list(self.nodes.find(cst.BaseSmallStatement, place))
        for each in found:
            self._put(each, changes.removed)
        return bool(found)

    def _without(self, owner: Any, nodes: Sequence[EditNode]) -> None:
        """Plan that a call, or a class with bases, loses the arguments that some edits take out."""
        indent, given = self.nodes.fragment.indent or "", _arguments(owner)
        bounds = [self.nodes.bounds[each] for each in given]
        start, end = self._brackets(owner)
        gone = [any(holds(node.edit.extent, each) for node in nodes) for each in bounds]
        for first in (at for at, is_gone in enumerate(gone) if is_gone):
            self._put(given[first], changes.removed)
            if first and gone[first - 1]:
                continue
            behind = gone.index(False, first) if False in gone[first:] else len(gone)
            is_last = behind == len(gone)
            gap = bounds[first - 1][1] if first else start, end if is_last else bounds[behind][0]
            inside = [node for node in nodes if holds(gap, node.edit.extent)]
            text = self.edited.spliced(*gap, inside)
            if first:
                self._put(given[first - 1], changes.followed_by(text, is_last, indent), first=True)
            else:
                self._put(owner, changes.opened_by(text if inside else "", is_last, indent))

    def _brackets(self, owner: Any) -> Bounds:
        """The offsets behind the opening bracket and before the closing one."""
        if isinstance(owner, cst.ClassDef):
            assert isinstance(owner.lpar, cst.LeftParen) and isinstance(owner.rpar, cst.RightParen)
            return self.nodes.bounds[owner.lpar][0] + 1, self.nodes.bounds[owner.rpar][1] - 1
        space = self.nodes.module.code_for_node(owner.whitespace_before_args)
        return self.nodes.bounds[owner.args[0]][0] - len(space), self.nodes.bounds[owner][1] - 1

    def _line_of(self, statement: Any) -> Any:
        lines = self.nodes.find(cst.SimpleStatementLine, (0, len(self.edited.source)))
        found = next((line for line in lines if any(each is statement for each in line.body)), None)
        if found is None:
            raise NotCodeError("several lines behind a colon")
        return found

    def _beside(self, node: EditNode) -> bool:
        """A node more."""
        at, text, indent = node.start, self.edited.new(node), self.nodes.fragment.indent or ""
        if not text.startswith("@") and (text.endswith(("\n", "\r")) or _LINE_END.split(text)[-1].isspace()):
            return self._lines_beside(at, text)
        for each, (start, end) in self.nodes.elements:
            mark = ";" if isinstance(each, cst.BaseSmallStatement) else ","
            if end == at and isinstance(each, cst.Arg):
                return self._put(each, changes.argument_behind(text, indent))
            if (end == at and text.startswith(mark)) or (start == at and text.rstrip().endswith(mark)):
                return self._put(each, changes.beside(type(each), text, end == at))
        for each in self.nodes.find((cst.Call, cst.FunctionDef, cst.ClassDef), (0, len(self.edited.source))):
            start, end = self.nodes.bounds[each]
            if isinstance(each, cst.Call) and end == at + 1 and not each.args:
                return self._put(each, lambda old: old.with_changes(args=changes.arguments(text, indent)))
            first = each.decorators[0] if not isinstance(each, cst.Call) and each.decorators else each
            if self.nodes.bounds[first][0] == at and text.startswith("@"):
                return self._put(each, changes.decorated(text))
        ending = [place for place in self.nodes.expressions if place[1] == at]
        if not ending:
            return False
        place = max(ending)
        found, level = self.nodes.expressions[place]
        code, _ = changes.template((place, text))
        new = changes.expression(code, indent)
        return new is not None and self._put(found, lambda old: changes.replaced(old, level, new, [(old, level)]))

    def _lines_beside(self, at: int, text: str) -> bool:
        """New lines above a statement, or at the end of a block."""
        last = _LINE_END.split(text)[-1]
        code = f"{last}{text.removesuffix(last)}"
        statements = (cst.SimpleStatementLine, cst.BaseCompoundStatement)
        for each in self.nodes.find(statements, (at, len(self.edited.source))):
            if not self.edited.source[at : self.nodes.bounds[each][0]].strip():
                return self._put(each, changes.lines_before(code))
        above = [each for each in self.nodes.find(statements, (0, at)) if each not in self.nodes.module.body]
        return bool(above) and self._put(above[-1], changes.lines_behind(code))

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.BaseParenthesizableWhitespace):
            return False
        if not isinstance(node, cst.BaseExpression):  # decorators and defaults are not counted to their nodes
            return True
        start, end = self.nodes.outer(node)
        return bisect_left(self.targets, start) < bisect_left(self.targets, end)

    def on_leave(self, original: Any, updated: Any) -> Any:
        for change in self.changes.get(original, ()):
            if isinstance(updated, cst.FlattenSentinel | cst.RemovalSentinel):
                raise NotCodeError("several changes of one node")
            updated = change(updated)
        if original in self.parts:
            self.parts[original] = updated
        return updated
