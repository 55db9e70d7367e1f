"""The spelling of a module or name that new code needs in a file, and the import that adds it where it is missing.

Called twice, this gives the same: equal edits of several codemods become one.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence

from msgspec import Struct

from gpu2npu.codemods.program.files import ParsedFile
from gpu2npu.python.text.blocks import line_start, next_line, same_line, start_of
from gpu2npu.python.text.templates import code, lines_at, plain
from gpu2npu.python.tree.scopes import Imported
from gpu2npu.python.tree.syntax import IMPORTS, Import, string_value
from gpu2npu.records import Edit, NewText, Text

RULE = "data-parallel"
# The local name of an imported module, where it is not its own.
_LOCAL = {"torch.distributed": "dist"}
# What makes `torch.npu` of torch.
_PLUGIN = "torch_npu"


class Spelling(Struct, frozen=True):
    """`name` is what to write for the module or name, `edits` the import that it takes, if any."""

    name: str
    edits: tuple[Edit, ...] = ()


def spelling(file: ParsedFile, qualified: str, written: str = "", before: int | None = None) -> Spelling:
    """Return how a file spells a module (`os`), or a name in one of torch's (`torch.utils.data.DataLoader`).

    A name that the file's own imports bind comes first, then an attribute of a module that they bind (but of plain
    `torch` only where the file imports that very submodule), then a new import: `written`, if that is given. It is
    above what is at the offset `before`.
    """
    bound = dict(_bound(file))
    if qualified in bound:
        return Spelling(bound[qualified])
    owners = [owner for owner in bound if qualified.startswith(f"{owner}.")]
    owner = max(owners, key=len, default=None)
    alias_end = None
    if owner is not None and (owner != "torch" or _imports_of_torch(file, qualified)):
        return Spelling(bound[owner] + qualified[len(owner) :])
    statement, name = _statement(qualified)
    statement = plain(written) if written else statement
    if not _is_free(file, name, qualified):
        if owner is not None:  # torch.distributed comes with torch
            return Spelling(bound[owner] + qualified[len(owner) :])
        name = f"{name}_"
        template = "{statement} as {name}" if written else "import {statement} as {name}"
        statement = code(template, statement=written or qualified, name=name)
    else:
        alias_end = _last_alias(file, qualified, before)
    imported: tuple[str, ...] = (qualified,)
    statements = [statement]
    if qualified == "torch":  # code for the NPU is what asks for it
        statements, imported = [statement, code("import {module}", module=_PLUGIN)], (qualified, _PLUGIN)
    if alias_end is not None:
        at = alias_end
        text: Text = code(", {name}", name=name)
    else:
        at = _place(file, qualified, before)
        text = lines_at(file, at, "", statements)
    return Spelling(name, (Edit((at, at), text, RULE, f"The new code needs {qualified}.", imports=imported),))


def _bound(file: ParsedFile) -> Iterator[tuple[str, str]]:
    """Yield what the imports at the top level of the file bind: the qualified name of each, and its local name."""
    for name, bindings in file.module.bindings.items():
        if all(isinstance(binding, Imported) and _is_top_level(file, binding.statement) for binding in bindings):
            meaning = file.names.name(name, file.module)
            if meaning is not None:
                yield meaning, name


def _is_top_level(file: ParsedFile, statement: ast.AST) -> bool:
    return file.parents[statement] is file.tree


def _imports_of_torch(file: ParsedFile, qualified: str) -> bool:
    """Return whether `import torch.distributed` makes `torch.distributed`, or `torch.distributed.x`, available."""
    modules = [
        alias.name
        for statement in top_imports(file)
        if isinstance(statement, ast.Import)
        for alias in statement.names
        if alias.asname is None
    ]
    return any(module != "torch" and f"{qualified}.".startswith(f"{module}.") for module in modules)


def _statement(qualified: str) -> tuple[NewText, str]:
    """The import of something under its usual name, and that name."""
    head, _, last = qualified.rpartition(".")
    if qualified in _LOCAL:
        return code("import {module} as {name}", module=qualified, name=_LOCAL[qualified]), _LOCAL[qualified]
    return code("from {module} import {name}" if head else "import {name}", module=head, name=last), last


def _is_free(file: ParsedFile, name: str, qualified: str) -> bool:
    """Return whether the file binds a name to nothing else than `qualified`."""
    return all(
        isinstance(binding, Imported) and binding.qualified == qualified
        for scope in file.scopes.values()
        for binding in scope.bindings.get(name, ())
    )


def _last_alias(file: ParsedFile, qualified: str, before: int | None) -> int | None:
    """Return the offset for a name in `from torch.utils.data import DataLoader`, if there is such a statement."""
    module = qualified.rpartition(".")[0]
    for found in top_imports(file, before):
        if not isinstance(found, ast.ImportFrom) or found.names[0].name == "*":
            continue
        if module and _module(found) == module and qualified not in _LOCAL:
            return file.bounds(found.names[-1])[1]
    return None


def top_imports(file: ParsedFile, before: int | None = None) -> list[Import]:
    """The imports at the top level, in source order; those above an offset, if one is given."""
    found = [statement for statement in file.tree.body if isinstance(statement, IMPORTS)]
    return found if before is None else [each for each in found if line_end(file, each) <= before]


def _place(file: ParsedFile, qualified: str, before: int | None) -> int:
    """Return the offset of the line of a new import.

    An import of a module of torch is put below `import torch`, one of Python's own among the others in alphabetical
    order, any other below them all.
    """
    imports = [found for found in top_imports(file, before) if _module(found) != "__future__"]
    if qualified == "torch":
        imports = [found for found in imports if _module(found).partition(".")[0] == "torch"] or imports
    after = _last_torch(imports) if qualified.startswith("torch.") else _last_before(imports, qualified)
    if imports and qualified.partition(".")[0] not in {"torch", *sys.stdlib_module_names}:
        after = imports[-1]
    if after is not None:
        return line_end(file, after)
    return max(line_start(file, file.bounds(imports[0])[0]) if imports else 0, first_code(file))


def _last_torch(imports: Sequence[Import]) -> Import | None:
    plain = [found for found in imports if isinstance(found, ast.Import) and _module(found) == "torch"]
    of_torch = [found for found in imports if _module(found).partition(".")[0] == "torch"]
    return next(iter((*plain, *of_torch, *reversed(imports))), None)


def _last_before(imports: Sequence[Import], qualified: str) -> Import | None:
    earlier: Import | None = None
    for found in imports:
        module = _module(found)
        if module.partition(".")[0] not in sys.stdlib_module_names or module > qualified:
            break
        earlier = found
    return earlier


def _module(statement: Import) -> str:
    """The module a statement imports (the first), or imports from; empty for a relative import."""
    if isinstance(statement, ast.Import):
        return statement.names[0].name
    return "" if statement.level else statement.module or ""


def first_code(file: ParsedFile) -> int:
    """The offset of the line of the first statement behind the docstring and `__future__`; else the text's end."""
    for index, statement in enumerate(file.tree.body):
        is_docstring = index == 0 and isinstance(statement, ast.Expr) and string_value(statement.value) is not None
        if not is_docstring and not (isinstance(statement, ast.ImportFrom) and _module(statement) == "__future__"):
            is_first = same_line(file, statement)[0] is statement
            return line_start(file, start_of(file, statement)) if is_first else line_end(file, statement)
    return len(file.text)


def line_end(file: ParsedFile, statement: ast.stmt) -> int:
    """The start of the line below a statement."""
    return next_line(file, file.bounds(same_line(file, statement)[-1])[1])
