"""The edit of a match: the new call, and the assignments that nothing reads any more."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from gpu2npu.codemods.program.files import ParsedFile, TrainingProgram
from gpu2npu.python.text.blocks import begins_line, same_line
from gpu2npu.python.tree.syntax import FUNCTIONS, last_name
from gpu2npu.shapes.kind import FusedMatch
from gpu2npu.shapes.reading import TermReader, Within, identity

# Expressions that give the same value wherever they are, as long as their names do.
_PLAIN = (ast.Name, ast.Attribute, ast.Constant, ast.Load, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
# Values that take no operator.
_FREE = frozenset({"leaf", "dtype", "const", "float32", "halves", "parts"})
# Methods that only ask for a size.
_SIZES = frozenset({"size", "dim"})


@dataclass(eq=False, kw_only=True)
class ProgramReader(TermReader):
    """Reads a file of a program, for kinds that depend on other files of it."""

    program: TrainingProgram
    parsed: ParsedFile
    file: ParsedFile = field(init=False)

    @classmethod
    def of(cls, program: TrainingProgram, file: ParsedFile) -> ProgramReader:
        """The reader of a file."""
        return cls(file.names, program=program, parsed=file)

    def __post_init__(self) -> None:
        self.file = self.parsed


class Planned(Struct, frozen=True):
    """The expressions that the new call repeats, and the statements to take out."""

    arguments: tuple[ast.expr, ...]
    deleted: tuple[ast.stmt, ...]


def planned(reading: TermReader, node: ast.expr, match: FusedMatch) -> Planned | None:
    """The edit that puts a call in the place of `node`; None where the code around does not allow for it."""
    return _Planning(reading, node, match).planned()


class _Planning(Struct, frozen=True, eq=False):
    reading: TermReader
    node: ast.expr
    match: FusedMatch

    @property
    def statement(self) -> ast.stmt:
        return self.reading.file.statement(self.node)

    def planned(self) -> Planned | None:
        block = self.reading.file.block(self.statement)
        through = {part for term in self.match.root.parts() for part in term.through}
        naming = {statement for term in self.match.terms for statement in term.through}
        deleted = [each for each in block if each in through - naming and self._is_removable(each)]
        while True:
            arguments = self._arguments(deleted)
            if arguments is None:
                blocking = self._last_spelled(deleted)
                if blocking is None:
                    return None
                deleted.remove(blocking)
                continue
            retained = [each for each in deleted if self._is_read(each, deleted, arguments)]
            if not retained:
                break
            deleted = [each for each in deleted if each not in retained]
        if not self._nothing_changes_between(through, deleted) or not self._runs_once(deleted, arguments):
            return None
        if any(self._computes(each) for each in through - naming if each not in deleted):
            return None
        if any(self._is_moved(each) for each in arguments) and any(self._between(deleted, [*deleted, self.statement])):
            return None
        return Planned(arguments, tuple(deleted))

    def _is_removable(self, statement: ast.stmt) -> bool:
        """Return whether an assignment is on lines of its own."""
        file = self.reading.file
        return begins_line(file, statement) and len(same_line(file, statement)) == 1

    def _computes(self, statement: ast.stmt) -> bool:
        """Return whether an assignment that stays computes what the new call does, too."""
        value = getattr(statement, "value", None)
        return not isinstance(value, ast.expr) or self.reading.term(value).op not in _FREE

    def _is_moved(self, node: ast.expr) -> bool:
        """Return whether an expression of other code is evaluated later than before."""
        moved = self.reading.file.statement(node) is not self.statement
        return moved and any(not isinstance(part, _PLAIN) for part in ast.walk(node))

    def _arguments(self, deleted: Collection[ast.stmt]) -> tuple[ast.expr, ...] | None:
        found: list[ast.expr] = []
        for term in self.match.terms:
            spelled = next((each for each in term.spelled if self._is_available(each, deleted)), None)
            if spelled is None:
                return None
            found.append(spelled)
        return tuple(found)

    def _is_available(self, node: ast.expr, deleted: Collection[ast.stmt]) -> bool:
        """Return whether the names of an expression have the same values where the new call is, and are not deleted."""
        file = self.reading.file
        if node not in file.parents:  # of a function of another file
            return False
        place = file.statement(node)
        for name in _names(node):
            before = self.reading.reaching(name.id, place)
            if isinstance(before, ast.stmt) and before in deleted:
                return False
            if identity(self.reading.reaching(name.id, self.statement, deleted)) != identity(before):
                return False
        return place in deleted or not self._is_moved(node)

    def _last_spelled(self, deleted: Sequence[ast.stmt]) -> ast.stmt | None:
        """The statement that gives some argument its name, which has to stay."""
        for term in self.match.terms:
            if any(self._is_available(each, deleted) for each in term.spelled):
                continue
            for spelled in term.spelled:
                for name in _names(spelled):
                    before = self.reading.reaching(name.id, self.reading.file.statement(spelled))
                    if isinstance(before, ast.stmt) and before in deleted:
                        return before
            return deleted[-1] if deleted else None
        return None

    def _is_read(self, statement: ast.stmt, deleted: Collection[ast.stmt], arguments: Collection[ast.expr]) -> bool:
        """Return whether something that stays reads what a statement assigns."""
        names = {
            part.id for part in ast.walk(statement) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
        }
        gone = {part for each in deleted for part in ast.walk(each)} | set(ast.walk(self.node))
        gone -= {part for each in arguments for part in ast.walk(each)}
        function = self._function()
        for part in ast.walk(function):
            if not isinstance(part, ast.Name) or part.id not in names or not isinstance(part.ctx, ast.Load):
                continue
            reaching = self.reading.reaching(part.id, self.reading.file.statement(part))
            may_be = reaching is statement or isinstance(reaching, Within) or self._is_nested(part, function)
            if may_be and part not in gone:
                return True
        return False

    def _function(self) -> ast.AST:
        return next(each for each in self.reading.file.above(self.node) if isinstance(each, (*FUNCTIONS, ast.Module)))

    def _is_nested(self, node: ast.AST, function: ast.AST) -> bool:
        owner = next(
            each for each in self.reading.file.above(node) if isinstance(each, (*FUNCTIONS, ast.Lambda, ast.Module))
        )
        return owner is not function

    def _between(self, through: Collection[ast.stmt], deleted: Collection[ast.stmt]) -> Iterator[ast.stmt]:
        """The statements that stay, from the first that leads to the match on, up to it."""
        block = self.reading.file.block(self.statement)
        leading = [index for index, each in enumerate(block) if each in through]
        end = next(index for index, each in enumerate(block) if each is self.statement)
        start = min(leading, default=end)
        yield from (each for each in block[start:end] if each not in deleted)

    def _nothing_changes_between(self, through: Collection[ast.stmt], deleted: Collection[ast.stmt]) -> bool:
        """Return whether what is between cannot change a value in place."""
        if any(each not in self.reading.file.block(self.statement) for each in through):
            return False
        return not any(_may_change(part) for each in self._between(through, deleted) for part in ast.walk(each))

    def _runs_once(self, deleted: Collection[ast.stmt], arguments: Collection[ast.expr]) -> bool:
        """Return whether each call of other code that is taken out is in the new call, once, in its old order."""
        retained = [part for each in arguments for part in ast.walk(each) if isinstance(part, ast.expr)]
        if len({id(part) for part in retained}) != len(retained):
            return False
        gone = [part for each in (*deleted, self.node) for part in ast.walk(each) if isinstance(part, ast.Call)]
        read = self.reading.term
        return all(part in retained or read(part).op != "leaf" or last_name(part) in _SIZES for part in gone)


def _names(node: ast.expr) -> Iterator[ast.Name]:
    return (part for part in ast.walk(node) if isinstance(part, ast.Name))


def _may_change(node: ast.AST) -> bool:
    """Return whether a part of a statement may change a tensor in place: a call for its effect, or a store into it."""
    if isinstance(node, (ast.Expr, ast.AugAssign, ast.Delete)):
        return not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    if isinstance(node, (ast.Subscript, ast.Attribute)):
        return isinstance(node.ctx, ast.Store)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr.endswith("_") and not node.func.attr.endswith("__")
    return False
