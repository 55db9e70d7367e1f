"""Programs that compare the exact class of an object, which the subclass that an affinity kind makes does not match."""

from __future__ import annotations

import ast

from gpu2npu.codemods.program import ParsedFile, TrainingProgram

# What asks for a class and its subclasses.
_INSTANCES = frozenset({"isinstance", "issubclass"})


def compares_class(program: TrainingProgram, qualified: str) -> bool:
    """Return whether some file uses a class other than to make an object, to derive a class, to annotate, or to ask
    whether something is an instance: `type(m) is nn.RMSNorm`, `{nn.RMSNorm: 1}`."""

    def search() -> bool:
        found = program.with_word(qualified.rpartition(".")[2].encode())
        return any(_is_compared(file, node, qualified) for file in found for node in ast.walk(file.tree))

    return program.once((compares_class, qualified), search)


def _is_compared(file: ParsedFile, node: ast.AST, qualified: str) -> bool:
    if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Load):
        return False
    if file.qualified(node) != qualified:
        return False
    part: ast.AST = node
    owner = file.parents[part]
    while isinstance(owner, (ast.Tuple, ast.BinOp)):  # isinstance(m, (nn.LayerNorm, nn.RMSNorm))
        part, owner = owner, file.parents[owner]
    if isinstance(owner, ast.Call):
        is_instance = isinstance(owner.func, ast.Name) and owner.func.id in _INSTANCES
        return owner.func is not part and not (is_instance and part in owner.args[1:])
    if isinstance(owner, ast.arg) or (isinstance(owner, (ast.AnnAssign, ast.FunctionDef)) and _annotates(owner, part)):
        return False
    return not (isinstance(owner, ast.ClassDef) and part in owner.bases)


def _annotates(owner: ast.AnnAssign | ast.FunctionDef, part: ast.AST) -> bool:
    return part is (owner.annotation if isinstance(owner, ast.AnnAssign) else owner.returns)
