"""Writes the edits of a Python file by LibCST: the smallest statement that holds some, or the head of one, is parsed
once, and one transformer changes its nodes. All around it stays to the byte.

This module imports LibCST, which takes as long as the rest of a start: import it where something is written.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import libcst as cst
from msgspec.structs import replace

from gpu2npu.python.text import changes
from gpu2npu.python.text.block_changes import BlockChange
from gpu2npu.python.text.blocks import indent_step
from gpu2npu.python.text.changes import Change, NotCodeError
from gpu2npu.python.text.edits import Edited, EditNode, Replacement
from gpu2npu.python.text.offsets import holds, line_before, splice
from gpu2npu.python.text.statements import Fragment, FragmentEdits, FragmentNodes, grouped
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.records import Bounds, Edit

_LINE_END = re.compile(r"[\r\n]")
_LISTS = (cst.Call, cst.ClassDef, cst.Tuple, cst.Import, cst.ImportFrom, cst.With)
_DEFINITIONS = (cst.FunctionDef, cst.ClassDef)


@dataclass(frozen=True)
class Written:
    """The text of a file after its edits, by the fragments that are written anew. `codes` is the new code of what is
    reported as changed, by its place in the source; `refused` are edits that do not change a node, each with the
    reason: their fragments stay as they are."""

    edited: Edited
    replacements: Sequence[Replacement]
    codes: Mapping[Bounds, str]
    refused: Mapping[Edit, str]

    @property
    def text(self) -> str:
        """The text after the edits."""
        return splice(self.edited.source, self.replacements)


def rewritten(file: PythonFile, edited: Edited) -> Written:
    """Write a file."""
    groups = grouped(file, edited)
    for group in groups:
        _write(file, edited, group)
    for above, below in pairwise(groups):  # lines that a statement is given, and the statement that uses them
        if above.fragment.is_empty and above.fragment.end == below.fragment.start and above.rules & below.rules:
            above.refused = below.refused = above.refused or below.refused
    made = [group for group in groups if not group.refused]
    codes = {place: code for group in made for place, code in group.codes.items()}
    heads = (edit for group in made for edit in group.heads if edit.place not in codes)
    refused = dict.fromkeys(heads, "nothing is left to put it around")
    refused |= {edit: group.refused for group in groups if group.refused for node in group.nodes for edit in node.all()}
    replacements = [Replacement(group.fragment.start, group.fragment.end, group.new) for group in made]
    return Written(edited, replacements, codes, refused)


def _write(file: PythonFile, edited: Edited, group: FragmentEdits) -> None:
    """Write the new code of a fragment, or why there is none."""
    try:
        if group.fragment.is_empty:
            group.new = changes.lines(*(_new_lines(edited, group.fragment, node) for node in group.nodes))
            return
        plan = _Plan(file, edited, FragmentNodes(group.fragment, edited.source))
        for node in group.nodes:
            plan.edit(node)
        group.new, group.codes, group.heads = plan.result(), plan.codes, plan.heads
    except (NotCodeError, cst.CSTValidationError, cst.CSTLogicError) as error:
        group.refused = str(error) or "it is not code"


def _new_lines(edited: Edited, fragment: Fragment, node: EditNode) -> str:
    """The new lines of an edit, from the start of the first."""
    indent = edited.source[fragment.start : node.start]
    text = edited.new(node)
    return indent + text[: len(text) - len(indent)] if indent else text


class _Plan(cst.CSTTransformer):
    """Makes the edits of a fragment, those inside a node before its own, and visits only what is around them."""

    def __init__(self, file: PythonFile, edited: Edited, nodes: FragmentNodes) -> None:
        super().__init__()
        self.file = file
        self.edited = edited
        self.nodes = nodes
        self.takes_out = edited.takes_out
        self.changes: dict[cst.CSTNode, list[Change]] = {}
        self.blocks: dict[cst.CSTNode, BlockChange] = {}
        self.heads: list[Edit] = []
        self.parts: dict[cst.CSTNode, Any] = {}
        self.owners: dict[tuple[cst.CSTNode, Callable[[Set[Any]], Change]], None] = {}  # of what is taken out, in order
        self.gone: set[cst.CSTNode] = set()
        self.shown: dict[cst.CSTNode, list[tuple[Bounds, int]]] = {}
        self.codes: dict[Bounds, str] = {}
        self.targets: list[int] = []  # the offsets at which what is visited begins

    def result(self) -> str:
        """The code of the fragment after the changes."""
        for owner, change in self.owners:
            self._put(owner, change(self.gone))
        for block, lines in self.blocks.items():
            self._put(block, lines)
        self.targets.sort()
        module, fragment = self.nodes.module.visit(self), self.nodes.fragment
        self.changes.clear()  # which know this object
        for lines in self.blocks.values():
            for place, each in lines.enclosed.items():
                code = changes.code_of(each.with_changes(leading_lines=[]), 0, module, fragment.indent or "")
                self.codes[place] = code.strip()
        if any(change.gone for change in self.blocks.values()):
            outer: Any = module.body[0].body if fragment.indent else module
            if not outer.body:  # LibCST would write `pass`
                return ""
        code = module.code
        code = code[len(fragment.before) : len(code) - len(fragment.after)]
        return code.replace("\n", "\r") if self.nodes.is_old_mac else code

    def edit(self, node: EditNode) -> None:
        """Plan an edit, and those inside of it that are made. Raises NotCodeError: it is not a change of a node."""
        if node.edit.is_block:
            self._block(node)
            return
        self._show(node)
        text = self.edited.new(node)
        if node.start != node.end and not text.strip() and _LINE_END.search(text):
            block, start = self._block_of(node.end, node.end)
            block.cuts.add(start)
            return
        way = self._inserted if node.start == node.end else self._new if text.strip() else self._out
        if not way(node) and not self._text(node):
            raise NotCodeError("no node begins and ends there")

    def _show(self, node: EditNode) -> None:
        """Take down the new code of what an edit is reported as, where that is more than its text."""
        place = node.edit.shown or node.edit.place
        if not self.takes_out or (node.edit.shown is None and not node.inside.nodes):
            return  # the text of the edits, as it is
        found, level = self.nodes.expressions.get(place, (None, 0))
        if found is None:
            found = next((each for each, bounds in self.nodes.elements if bounds == place), None)
            for each in self.nodes.find(cst.ClassDef, (0, len(self.edited.source))):
                found = each if self.nodes.bounds[each.name][0] == place[0] else found
        if found is not None:
            self.shown.setdefault(found, []).append((place, level))
            self.targets.append(self.nodes.bounds[found][0])

    def _put(self, node: cst.CSTNode, change: Change, first: bool = False) -> bool:
        """Plan a change of a node, as the `first` or the last of it."""
        planned = self.changes.setdefault(node, [])
        planned.insert(0 if first else len(planned), change)
        self.targets.append(self.nodes.bounds[node][0])
        return True

    # Statements.

    def _block_of(self, start: int, end: int) -> tuple[BlockChange, int]:
        """The block that has the first statement between two offsets, and where that begins. Raises NotCodeError: it is
        behind a colon."""
        for block, starts in self.nodes.blocks.items():
            found = next((at for row in starts for at in row if start <= at < max(end, start + 1)), None)
            if found is not None:
                return self._lines_of(block), found
        raise NotCodeError("no statement begins there on a line")

    def _lines_of(self, block: Any) -> BlockChange:
        if block not in self.blocks:
            above = [*(getattr(each, "leading_lines", ()) for each in block.body), getattr(block, "footer", ())]
            lines = [[self.nodes.bounds[line][0] for line in each] for each in above]
            self.blocks[block] = BlockChange(self.nodes.blocks[block], lines)
        return self.blocks[block]

    def _block(self, node: EditNode) -> None:
        """A statement put around others, or taken away from around them."""
        *head, _ = node.edit.pieces
        block, start = self._block_of(node.start, node.end)
        if head:
            self.heads.append(node.edit)
            block.step = indent_step(self.file)
            block.heads.append(((node.start, node.end), "".join(map(str, head))))
        else:
            block.unwrapped.add(start)
        for inner in node.in_piece(len(head)):
            self.edit(inner)

    def _new(self, node: EditNode) -> bool:
        """Another node in the place of one."""
        place, indent = node.edit.place, self.nodes.indent(node.start)
        alias = self.nodes.aliases.get(place)
        if alias is not None:
            return self._put(alias, changes.renamed_alias(self.edited.new(node)))
        if self._cuts(node):
            return True
        found, level = self.nodes.expressions.get(place, (None, 0))
        is_made_of_parts = found is not None and self._parts(node)
        text = "" if is_made_of_parts else self.edited.new(self._with_commas(node) if self.takes_out else node)
        code, parts = changes.template(node.edit.pieces) if is_made_of_parts else (text, ())
        new = changes.expression(code, indent) if found is not None else None
        if new is not None:
            for index, piece in enumerate(node.edit.pieces if is_made_of_parts else ()):
                self._part(node, index, piece)
            of = [self.nodes.expressions[part] for part in parts]
            return self._put(found, lambda old: changes.replaced(old, level, new, [(self.parts[n], k) for n, k in of]))
        text = self.edited.new(node)
        for each, bounds in self.nodes.elements:
            if bounds == place and isinstance(each, cst.BaseSmallStatement) and _LINE_END.search(text):
                block, start = self._block_of(*place)
                block.instead[start] = f"{indent}{text}"
                return True
            if bounds == place or (isinstance(each, cst.Arg) and self.nodes.bounds[each.value] == place):
                return self._put(each, changes.instead(type(each), text, indent))
        return False

    def _cuts(self, node: EditNode) -> bool:
        """Plan an edit that leaves a node what it is, and changes nodes in it: pieces of it with other code between."""
        last = node.edit.pieces[-1]
        if isinstance(last, str) or last[1] != node.end or last in self.nodes.expressions:
            return False
        cuts: list[Edit] = []
        at, text = node.start, ""
        for piece in node.edit.pieces:
            if isinstance(piece, str):
                text += piece
                continue
            if piece[0] < at:
                return False
            cuts += [replace(node.edit, place=(at, piece[0]), text=text, shown=None)] if text or at < piece[0] else []
            at, text = piece[1], ""
        if not all(self._is_node(cut.place) for cut in cuts):
            return False
        for cut in cuts:
            self.edit(EditNode(cut))
        for index, piece in enumerate(node.edit.pieces):
            for inner in () if isinstance(piece, str) else node.in_piece(index):
                self.edit(inner)
        return True

    def _is_node(self, place: Bounds) -> bool:
        return place[0] == place[1] or place in self.nodes.expressions or self.nodes.keyword(place) is not None

    def _with_commas(self, node: EditNode) -> EditNode:
        """An edit in whose text what is taken out of a list goes with its comma."""
        inside = EditNode(node.edit)
        for inner in node.inside.nodes:
            inside.inside.add(self._with_commas(inner))
        place = node.edit.place
        for owner in self.nodes.find(_LISTS, (0, len(self.edited.source))) if not node.edit.text else ():
            bounds = [self.nodes.bounds[part] for part in changes.listed(owner)]
            index = next(
                (at for at, part in enumerate(changes.listed(owner)) if holds(place, self.nodes.inner(part))), None
            )
            if index is not None and not holds(place, self.nodes.bounds[owner]):
                is_last = index + 1 == len(bounds)
                start, end = bounds[index][0], bounds[index][1] if is_last else bounds[index + 1][0]
                gap = bounds[index - 1][1] if is_last and index else start, end
                return EditNode(replace(node.edit, place=gap))
        return inside

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
        place = node.edit.place
        index = bisect_right(self.nodes.strings, place[0], key=lambda each: each[1][0]) - 1
        string, bounds = self.nodes.strings[index] if index >= 0 else (None, place)
        if string is None or not holds(bounds, place):
            return False
        start, text = place[0] - bounds[0], self.edited.new(node)
        return self._put(string, changes.reworded(start, start + place[1] - place[0], text), first=True)

    def _out(self, node: EditNode) -> bool:
        """A node less."""
        place = node.edit.place
        for each in self.nodes.find(cst.Attribute, (0, place[1])):
            if self.nodes.bounds[each][1] == place[1] and self.nodes.outer(each.value)[1] == place[0]:
                return self._put(each, changes.owner)
        named = self.nodes.keyword(place)
        if named is not None:
            return self._put(named, changes.named(None))
        everything = 0, len(self.edited.source)
        for each in self.nodes.find(_DEFINITIONS, everything):
            gone = [part for part in each.decorators if place[0] == self.nodes.bounds[part][0]]
            if gone:
                return self._take(each, gone, changes.without_decorators)
        for each in self.nodes.find(_LISTS, everything):
            gone = [part for part in changes.listed(each) if holds(place, self.nodes.inner(part))]
            if gone and not holds(place, self.nodes.bounds[each]):
                return self._take(each, gone, changes.without)
        block, start = self._block_of(*place)
        block.gone.add(start)
        return True

    def _take(self, owner: cst.CSTNode, gone: Sequence[cst.CSTNode], change: Callable[[Set[Any]], Change]) -> bool:
        self.gone.update(gone)
        self.owners[owner, change] = None
        self.targets.append(self.nodes.bounds[owner][0])
        return True

    def _inserted(self, node: EditNode) -> bool:
        """A node more."""
        at, text, indent = node.start, self.edited.new(node), self.nodes.indent(node.start)
        is_lines = text.startswith(("\n", "\r")) or text.endswith(("\n", "\r")) or _LINE_END.split(text)[-1].isspace()
        if is_lines and not text.startswith("@"):
            return self._lines_inserted(at, text)
        for each in self.nodes.find(cst.Call, (0, len(self.edited.source))) if text[0].isidentifier() else ():
            if self.nodes.bounds[each][1] == at + 1 and each.args:
                return self._put(each.args[-1], changes.argument_behind(f", {text}", indent))
        for each, (start, end) in self.nodes.elements:
            mark = ";" if isinstance(each, cst.BaseSmallStatement) else ","
            if start == at and isinstance(each, cst.Arg) and text.endswith("="):
                return self._put(each, changes.named(text[:-1]))
            if end == at and isinstance(each, cst.Arg):
                return self._put(each, changes.argument_behind(text, indent))
            if (end == at and text.startswith(mark)) or (start == at and text.rstrip().endswith(mark)):
                return self._put(each, changes.more_elements(type(each), text, end == at))
        for each in self.nodes.find((cst.Call, cst.FunctionDef, cst.ClassDef), (0, len(self.edited.source))):
            start, end = self.nodes.bounds[each]
            if isinstance(each, cst.Call) and end == at + 1:
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

    def _lines_inserted(self, at: int, text: str) -> bool:
        """New lines above a statement, below it, or at the end of a block: that of their indentation."""
        last = _LINE_END.split(text)[-1]
        is_behind = text.startswith(("\n", "\r"))
        code = text.lstrip("\r\n") if is_behind else f"{last}{text.removesuffix(last)}"
        indent = code[: len(code) - len(code.lstrip(" \t"))]
        for block, starts in reversed(self.nodes.blocks.items()):
            before = line_before(self.edited.source, starts[0][0])
            outer = before[: len(before) - len(before.lstrip())]
            is_behind_colon = outer != before and outer != indent and starts[0][0] <= at
            if is_behind_colon or (before == indent and starts[0][0] - len(before) <= at):
                change = self._lines_of(block)
                change.new.setdefault(at, []).append(code)
                change.step = indent.removeprefix(outer)
                return True
        return False

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.BaseParenthesizableWhitespace):
            return False
        if not isinstance(node, cst.BaseExpression):  # decorators and defaults are not counted to their nodes
            return True
        start, end = self.nodes.outer(node)
        return bisect_left(self.targets, start) < bisect_left(self.targets, end)

    def on_leave(self, original: Any, updated: Any) -> Any:
        for change in self.changes.get(original, ()):
            if isinstance(updated, cst.FlattenSentinel):
                raise NotCodeError("several changes of one node")
            if original in self.parts:  # of its own change, such as a call around it
                self.parts[original] = updated
            updated = change(updated)
        for place, level in self.shown.get(original, ()):
            if not isinstance(updated, cst.FlattenSentinel):
                self.codes[place] = changes.code_of(updated, level, self.nodes.module, self.nodes.fragment.indent or "")
        if original in self.gone:
            self.gone.add(updated[0] if isinstance(updated, cst.FlattenSentinel) else updated)
        if original in self.parts:
            self.parts[original] = updated
        return updated
