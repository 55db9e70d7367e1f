"""Files that all ranks go on with after rank 0 has written them: the others have to wait, or must not be held back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from gpu2npu.codemods.data_parallel.files.writes import opens_to_write_call
from gpu2npu.codemods.program.files import ParsedFile
from gpu2npu.engine.strings.value_effects import values_of
from gpu2npu.python.flow.dataflow import Dataflow
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.place import AnyPlace, CallPlace, FunctionPlace, Place, enclosing_function
from gpu2npu.python.tree.syntax import is_main_guard, last_name

# The position of the path among the arguments of what writes a file; of other functions it is the first.
_SECOND = frozenset(
    {
        "torch.save", "torch.jit.save", "torchvision.utils.save_image", "safetensors.torch.save_file", "joblib.dump",
        "shutil.copy", "shutil.copy2", "shutil.copyfile", "shutil.copytree", "shutil.move", "os.replace", "os.rename",
        "os.link", "os.symlink",
    }
)  # fmt: skip
_FIRST = frozenset({"numpy.save", "numpy.savez", "numpy.savez_compressed", "numpy.savetxt", "cv2.imwrite"})
_FIRST_METHODS = frozenset(
    {"save", "save_pretrained", "savefig", "to_csv", "to_excel", "to_json", "to_parquet", "to_pickle", "write_image"}
)
_OWNER_METHODS = frozenset({"write_bytes", "write_text"})
_RENAMING = frozenset({"os.replace", "os.rename", "shutil.move"})
_OWN_NAME = re.compile(r"\b(tempfile|mkstemp|mkdtemp|NamedTemporaryFile|TemporaryDirectory|uuid\w*|getpid)\b")
# Calls that do not read the file whose path they are given; torch.load of a path that is written under the same name
# has a rule of its own.
_NOT_READING = re.compile(r"print|info|debug|warning|error|log|format|exists|isfile|isdir|remove|unlink|mkdir|makedirs")
_PATHS = re.compile(r"(os\.path\.|torch\.load$|torch\.save$|shutil\.|os\.)")
# Conditions that may hold on one rank and not on another.
_DIFFERS = re.compile(r"exists|isfile|isdir|is_file|is_dir|best|acc|loss|metric|score|rank|random|time|main_process")
# Methods that not all ranks call equally often.
_UNEVEN = frozenset({"__getitem__", "__iter__", "__next__", "collate_fn", "__del__"})
_DEPTH = 4


class FileRead(Struct, frozen=True, eq=False):
    """All ranks go on with a file. They can wait for it below the statement `wait`; None: not all come by."""

    wait: ast.stmt | None


def is_safe_by_itself(file: ParsedFile, group: Sequence[ast.stmt]) -> bool:
    """Return whether each process writes under a name of its own, for itself or to put it in its place in one step."""
    paths = list(_written(file, group))
    if paths and all(_is_own(file, path) for path in paths):
        return True
    renamed = [call.args[0] for call in _calls(group) if file.qualified(call.func) in _RENAMING and call.args]
    return any(_is_own(file, path) for path in renamed)


def _is_own(file: ParsedFile, path: ast.expr) -> bool:
    """`os.path.join(folder, "x")` with `tempfile.TemporaryDirectory() as folder`."""
    values = values_of(file.names.project)
    parts = values.made_of(values.place(file.names, path))
    sources = (one.text for part in parts for one in values.sources(part, file.path))
    return has_own_name(file.code(path)) or any(map(has_own_name, sources))


def has_own_name(code: str) -> bool:
    """Return whether code names a file by something that no other process has: `tempfile`, a UUID, the process."""
    return _OWN_NAME.search(code) is not None


def read_by_all(flow: Dataflow, file: ParsedFile, group: Sequence[ast.stmt]) -> FileRead | None:
    """The reading of what a group of statements writes, in its function or by those who call that."""
    paths = {"".join(file.code(path).split()) for path in _written(file, group)}
    if not paths:
        return None
    function = enclosing_function(Place(file, group[0]))
    code = walk(function.node if function is not None else file.tree)
    end = file.bounds(group[-1])[1]
    later = [node for node in code if isinstance(node, (ast.Call, ast.Return)) and file.bounds(node)[0] >= end]
    reads = any(isinstance(node, ast.Call) and _reads(file, node, paths) for node in later)
    returned = any(isinstance(node, ast.Return) and _names(file, node.value, paths) for node in later)
    if not reads and not (returned and function is not None and any(_is_used(call) for call in flow.callers(function))):
        return None
    return FileRead(_meeting(flow, file, group, function))


def _calls(group: Sequence[ast.AST]) -> Iterator[ast.Call]:
    return (node for node in walk(*group) if isinstance(node, ast.Call))


def _written(file: ParsedFile, group: Sequence[ast.stmt]) -> Iterator[ast.expr]:
    """The paths that statements write to."""
    for call in _calls(group):
        name = file.qualified(call.func) or ""
        method = call.func.attr if isinstance(call.func, ast.Attribute) else None
        if opens_to_write_call(call):
            yield call.args[0] if isinstance(call.func, ast.Name) and call.args else call.func
        elif name in _SECOND:
            yield from call.args[1:2]
        elif name in _FIRST or method in _FIRST_METHODS:
            yield from call.args[:1]
        elif method in _OWNER_METHODS and isinstance(call.func, ast.Attribute):
            yield call.func.value


def _names(file: ParsedFile, node: ast.AST | None, paths: set[str]) -> bool:
    """Return whether a node has one of some expressions in it."""
    kinds = (ast.Name, ast.Attribute, ast.Constant, ast.BinOp, ast.Call, ast.JoinedStr)
    parts = walk(node) if node is not None else ()
    return any(isinstance(part, kinds) and "".join(file.code(part).split()) in paths for part in parts)


def _reads_or_loads(file: ParsedFile, call: ast.Call, paths: set[str]) -> bool:
    """Return whether a call may read a file at one of some paths that a function gave, or loads it."""
    if file.qualified(call.func) != "torch.load":
        return _reads(file, call, paths)
    return any("".join(file.code(each).split()) in paths for each in call.args[:1])


def _reads(file: ParsedFile, call: ast.Call, paths: set[str]) -> bool:
    """Return whether a call may read a file at one of some paths."""
    name = file.qualified(call.func) or ""
    if _NOT_READING.search(last_name(call.func) or "") or _PATHS.match(name) or opens_to_write_call(call):
        return False
    if isinstance(call.func, ast.Attribute) and call.func.attr.startswith(("write", "save", "to_", "add_", "append")):
        return False
    owner = [call.func.value] if isinstance(call.func, ast.Attribute) and call.func.attr.startswith("read") else []
    given = (*owner, *call.args, *(keyword.value for keyword in call.keywords))
    return any("".join(file.code(each).split()) in paths for each in given)


def _is_used(call: CallPlace) -> bool:
    file, parent = call.file, call.file.parents[call.node]
    if isinstance(parent, ast.Call):
        return _reads_or_loads(file, parent, {"".join(file.code(call.node).split())})
    if not isinstance(parent, ast.Assign) or len(parent.targets) != 1:
        return False
    target = {"".join(file.code(parent.targets[0]).split())}
    function = enclosing_function(call)
    code = walk(function.node if function is not None else file.tree)
    return any(isinstance(node, ast.Call) and _reads_or_loads(file, node, target) for node in code)


def _meeting(
    flow: Dataflow, file: ParsedFile, group: Sequence[ast.stmt], function: FunctionPlace | None
) -> ast.stmt | None:
    """The statement below which all ranks come by, if one is known."""
    home = function.node if function is not None else None
    statement: ast.stmt = group[-1]
    while not _is_top(file, statement, home):
        above = file.parents[statement]
        if not isinstance(above, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            return None
        statement = above if isinstance(above, ast.stmt) else file.statement(above)
    until = walk(*file.before(statement), statement)
    if any(isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom)) for node in until):
        return None
    return statement if function is None or _called_by_all(flow, function, _DEPTH) else None


def _is_top(file: ParsedFile, statement: ast.stmt, home: ast.AST | None) -> bool:
    """Return whether a statement is in the block of its function, or of what runs when the file is started."""
    above = file.parents[statement]
    return above is home or (home is None and (isinstance(above, ast.Module) or is_main_guard(above)))


def _called_by_all(flow: Dataflow, function: FunctionPlace, depth: int) -> bool:
    """Return whether no call of a function is under a condition that may differ between ranks."""
    if depth == 0 or function.node.name in _UNEVEN:
        return False
    callers = flow.callers(function)
    return bool(callers) and all(_is_even(flow, call, depth) for call in callers)


def _is_even(flow: Dataflow, call: AnyPlace, depth: int) -> bool:
    function = enclosing_function(call)
    for node in call.file.within(call.node):
        if isinstance(node, (ast.If, ast.IfExp, ast.While)) and _DIFFERS.search(call.file.code(node.test)):
            return False
        if isinstance(node, (ast.ExceptHandler, ast.Lambda)):
            return False
    return function is None or _called_by_all(flow, function, depth - 1)
