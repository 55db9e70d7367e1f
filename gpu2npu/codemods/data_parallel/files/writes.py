"""Finds the statements that only write files, and may be left to rank 0."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Sequence
from enum import Enum

from msgspec import Struct

from gpu2npu.codemods.program.files import FILE_CALLS, ParsedFile
from gpu2npu.python.flow.dataflow import Dataflow
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.place import AnyPlace, CallPlace, Place, function_above
from gpu2npu.python.tree.syntax import FORS, FUNCTIONS, WITHS, argument_value, arguments, last_name, string_value

# Functions that write a file, by qualified name.
_FUNCTIONS = frozenset(FILE_CALLS["writing_functions"])
# Methods that write, on a TensorBoard writer, a figure, a table, a path, a file or a pretrained model.
_METHODS = frozenset(FILE_CALLS["writing_methods"])
# A file without any of these writes nothing that is known here.
WORDS = (
    rb"\b(save\w*|dump|write\w*|copy\w*|move|rmtree|rename|replace|remove|unlink|symlink|link|mkdir|makedirs|open|load|"
    rb"imwrite|imsave|mimsave|to_csv|to_excel|add_\w+|wandb|FileHandler|basicConfig)\b"
)
# What the tests of code that looks at the rank have in them.
RANK = re.compile(r"rank|is_main_process|is_master|is_primary")
# Functions that make an image of PIL's, whose methods give such images again.
_IMAGE = re.compile(r"PIL\.Image\.(fromarray|frombytes|merge|new|open)|(torchvision\.\S+|\S*)\bto_pil_image")
# Modules whose `open` takes the path first, as the built-in one does; the method of a path takes the mode first.
_OPENING = frozenset({"Image", "bz2", "codecs", "gzip", "io", "lzma", "os", "rasterio", "tarfile", "wave"})
_MODE = re.compile(r"[rwaxbtU+]{1,4}")
_IN_MEMORY = frozenset({"io.BytesIO", "io.StringIO", "tempfile.SpooledTemporaryFile"})
_FOLDERS = frozenset({"os.mkdir", "os.makedirs"})
_LOGGERS = frozenset({"debug", "info", "warning", "error", "log"})
# Methods that, by their names, every rank has to call: they run a model or a collective.
_COLLECTIVE = frozenset(
    {"all_gather", "all_reduce", "barrier", "broadcast", "compute", "evaluate", "forward", "gather", "generate",
     "gather_for_metrics", "predict", "sample", "test", "train", "validate"}
)  # fmt: skip
_DEPTH = 4


class Effect(Enum):
    """The effect of a statement besides computing."""

    WRITE = "writes files"
    FOLDER = "makes folders"
    PRINT = "prints"
    OTHER = "other"


class Effects(Struct, frozen=True, eq=False):
    """The effects of the statements of a program."""

    flow: Dataflow

    def of(self, file: ParsedFile, node: ast.stmt) -> Effect:
        """Return the only effect of a statement, else OTHER: an `if` whose branches all write is one that writes."""
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            call = Place(file, node.value)
            return self.of_call(call) if self.has_local_arguments(call) else Effect.OTHER
        if isinstance(node, ast.If) and not RANK.search(file.code(node.test)):
            parts = [self.of_block(file, block) for block in (node.body, node.orelse) if block]
            return _most(parts) if self.is_local(Place(file, node.test)) else Effect.OTHER
        if isinstance(node, FORS) and not node.orelse:
            return self.of_block(file, node.body) if self.is_local(Place(file, node.iter)) else Effect.OTHER
        if isinstance(node, WITHS):
            return self._of_with(file, node)
        return Effect.OTHER

    def of_block(self, file: ParsedFile, block: Sequence[ast.stmt]) -> Effect:
        """Return the effect of several statements together."""
        return _most([self.of(file, part) for part in block])

    def of_call(self, call: CallPlace) -> Effect:
        """Return the effect of a call, leaving aside those of its arguments."""
        func = call.node.func
        name = call.file.qualified(func)
        method = func.attr if isinstance(func, ast.Attribute) else None
        if name in _FUNCTIONS or method in _METHODS or _saves_image(call.file, func):
            owner = [func.value] if isinstance(func, ast.Attribute) else []
            given = (*owner, *map(argument_value, arguments(call.node)))
            is_own = bool(self.flow.targets(call)) or any(_is_in_memory(call.file, each) for each in given)
            return Effect.OTHER if is_own else Effect.WRITE
        if name in _FOLDERS or method == "mkdir":
            return Effect.FOLDER
        is_print = isinstance(func, ast.Name) and func.id == "print"
        return Effect.PRINT if is_print or method in _LOGGERS else Effect.OTHER

    def _of_with(self, file: ParsedFile, node: ast.With | ast.AsyncWith) -> Effect:
        """`with open(path, 'w') as f:` writes if one rank can do it alone, and nobody else needs what it assigns."""
        if not opens_to_write(node) or any(isinstance(part, ast.Return) for part in walk(*node.body)):
            return Effect.OTHER
        local = all(self.is_local(Place(file, part)) for part in (*node.body, *node.items))
        return Effect.WRITE if local and not _is_used_outside(file, node) else Effect.OTHER

    def has_local_arguments(self, call: CallPlace) -> bool:
        """Return whether one rank can compute alone what a call is given."""
        owner = [call.node.func.value] if isinstance(call.node.func, ast.Attribute) else []
        return all(self.is_local(call.at(part)) for part in (*owner, *map(argument_value, arguments(call.node))))

    def is_local(self, place: AnyPlace, depth: int = _DEPTH) -> bool:
        """Return whether one rank can compute something alone: no model is run, and no collective is called."""
        calls = [place.at(node) for node in walk(place.node) if isinstance(node, ast.Call)]
        return all(self._is_local_call(call, depth) for call in calls)

    def _is_local_call(self, call: CallPlace, depth: int) -> bool:
        func = call.node.func
        functions = [target for target in self.flow.targets(call) if isinstance(target.node, FUNCTIONS)]
        if functions:
            return depth > 0 and all(
                self.is_local(target.at(part), depth - 1) for target in functions for part in target.node.body
            )
        name = call.file.qualified(func)
        if name is not None and not name.startswith("torch.distributed"):
            return True
        if isinstance(func, ast.Name):
            return hasattr(builtins, func.id)  # else a model, or what makes one
        if not isinstance(func, ast.Attribute) or func.attr in _COLLECTIVE:
            return False
        return not self.flow.is_assigned(func.attr)  # self.model(x)


def _is_in_memory(file: ParsedFile, node: ast.expr) -> bool:
    """`io.BytesIO()`, or a name that is assigned one: each rank has its own, and reads it."""
    if isinstance(node, ast.Call):
        return file.qualified(node.func) in _IN_MEMORY
    return any(isinstance(each, ast.Call) and _is_in_memory(file, each) for each in _assigned(file, node))


def _assigned(file: ParsedFile, node: ast.expr) -> list[ast.expr]:
    """The values that a name is assigned whole."""
    values = file.scope_of(node).values(node) if isinstance(node, ast.Name) else []
    return [value for value in values if value is not None]


def _saves_image(file: ParsedFile, func: ast.expr) -> bool:
    """`Image.fromarray(x).save`, or `image.save` of a name that is assigned such an image."""
    return isinstance(func, ast.Attribute) and func.attr == "save" and _is_image(file, func.value, _DEPTH)


def _is_image(file: ParsedFile, node: ast.expr, depth: int) -> bool:
    if isinstance(node, ast.Call):
        if _IMAGE.fullmatch(file.qualified(node.func) or ""):
            return True
        return isinstance(node.func, ast.Attribute) and depth > 0 and _is_image(file, node.func.value, depth - 1)
    return depth > 0 and any(_is_image(file, value, depth - 1) for value in _assigned(file, node))


def _most(effects: Sequence[Effect]) -> Effect:
    """Combine the effects of several statements into one."""
    if not effects or Effect.OTHER in effects:
        return Effect.OTHER
    return next(effect for effect in (Effect.WRITE, Effect.FOLDER, Effect.PRINT) if effect in effects)


def _is_used_outside(file: ParsedFile, node: ast.With | ast.AsyncWith) -> bool:
    """Return whether what the block of a `with` assigns is used elsewhere in its function."""
    targets: list[ast.expr] = []
    for part in walk(*node.body):
        if isinstance(part, ast.Assign):
            targets += part.targets
        elif isinstance(part, ast.AugAssign):
            targets.append(part.target)
    names = {target.id for target in targets if isinstance(target, ast.Name)}
    if not all(isinstance(target, ast.Name) for target in targets):
        return True
    if not names:
        return False
    inside = set(walk(node))
    code = walk(function_above(file, node) or file.tree)
    return any(isinstance(part, ast.Name) and part.id in names and part not in inside for part in code)


def opens_to_write(node: ast.With | ast.AsyncWith) -> bool:
    """`with open(path, 'w')`"""
    return all(opens_to_write_call(item.context_expr) for item in node.items)


def gives_file(file: ParsedFile, item: ast.withitem, body: Sequence[ast.stmt]) -> bool:
    """`with atomic_write(path) as f: pickle.dump(x, f)`: what is entered gives the file that the body writes."""
    given = item.optional_vars
    if not isinstance(given, ast.Name):
        return False
    calls = [part for part in walk(*body) if isinstance(part, ast.Call)]
    written = (each for call in calls if file.qualified(call.func) in _FUNCTIONS for each in arguments(call))
    return any(isinstance(value := argument_value(each), ast.Name) and value.id == given.id for each in written)


def opens_to_write_call(node: ast.AST) -> bool:
    """`open(path, 'w')`, or with another mode that writes; `os.fdopen` too."""
    if not isinstance(node, ast.Call) or last_name(node.func) not in {"open", "fdopen"}:
        return False
    by_position = 0 if isinstance(node.func, ast.Attribute) and last_name(node.func.value) not in _OPENING else 1
    given = [keyword.value for keyword in node.keywords if keyword.arg == "mode"]
    given += node.args[by_position : by_position + 1]
    modes = [string_value(mode) or "" for mode in given]
    return any(_MODE.fullmatch(mode) and set(mode) & set("wax") for mode in modes)
