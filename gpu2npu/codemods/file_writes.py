"""Which statements only write files, and may be left to rank 0."""

from __future__ import annotations

import builtins
import re
from dataclasses import dataclass
from enum import Enum

import libcst as cst

from gpu2npu.codemods.dataflow import Dataflow
from gpu2npu.codemods.program import ParsedFile
from gpu2npu.codemods.syntax import Place, enclosing_function, walk
from gpu2npu.engine.tree import children, last_name, string_value

# Functions that write a file, by qualified name.
_FUNCTIONS = frozenset(
    {
        "torch.save", "torch.jit.save", "torchvision.utils.save_image", "safetensors.torch.save_file",
        "shutil.copy", "shutil.copy2", "shutil.copyfile", "shutil.copytree", "shutil.move", "shutil.rmtree",
        "os.rename", "os.replace", "os.remove", "os.unlink", "os.symlink", "os.link",
        "json.dump", "pickle.dump", "yaml.dump", "joblib.dump", "dill.dump",
        "numpy.save", "numpy.savez", "numpy.savez_compressed", "numpy.savetxt", "scipy.io.savemat",
        "matplotlib.pyplot.savefig", "cv2.imwrite", "imageio.imwrite", "imageio.imsave", "imageio.mimsave",
    }
)  # fmt: skip
# Methods that write, on a TensorBoard writer, a figure, a table, a path, a file or a pretrained model.
_METHODS = frozenset(
    {
        "add_scalar", "add_scalars", "add_image", "add_images", "add_histogram", "add_figure", "add_text",
        "add_hparams", "add_embedding", "savefig", "to_csv", "to_excel", "write_text", "write_bytes", "writerow",
        "writerows", "save_pretrained",
    }
)  # fmt: skip
# A file without any of these writes nothing that is known here.
WORDS = (
    rb"\b(save\w*|dump|write\w*|copy\w*|move|rmtree|rename|replace|remove|unlink|symlink|link|mkdir|makedirs|open|load|"
    rb"imwrite|imsave|mimsave|to_csv|to_excel|add_\w+|wandb|FileHandler|basicConfig)\b"
)
# What the tests of code that looks at the rank have in them.
RANK = re.compile(r"rank|is_main_process|is_master|is_primary")
_FOLDERS = frozenset({"os.mkdir", "os.makedirs"})
_LOGGERS = frozenset({"debug", "info", "warning", "error", "log"})
# Methods after which, for all that their names tell, every rank must have been: they run a model or gather.
_COLLECTIVE = frozenset(
    {"all_gather", "all_reduce", "barrier", "broadcast", "compute", "evaluate", "forward", "gather", "generate",
     "gather_for_metrics", "predict", "sample", "test", "train", "validate"}
)  # fmt: skip
_DEPTH = 4


class Effect(Enum):
    """What a statement does besides computing."""

    WRITE = "writes files"
    FOLDER = "makes folders"
    TELL = "prints"
    OTHER = "other"


@dataclass(frozen=True, eq=False)
class Effects:
    """What statements of a program do."""

    flow: Dataflow

    def of(self, statement: Place) -> Effect:
        """What a statement does, if that is all it does: an `if` whose branches all write is one that writes."""
        node, file = statement.node, statement.file
        if isinstance(node, cst.SimpleStatementLine):
            return _most([self._of_small(file, part) for part in node.body])
        if isinstance(node, cst.If) and not RANK.search(file.code(node.test)):
            parts = [self._of_block(file, node.body)]
            if isinstance(node.orelse, cst.If):
                parts.append(self.of(Place(file, node.orelse)))
            elif node.orelse is not None:
                parts.append(self._of_block(file, node.orelse.body))
            return _most(parts) if self.is_local(Place(file, node.test)) else Effect.OTHER
        if isinstance(node, cst.For) and node.orelse is None:
            return self._of_block(file, node.body) if self.is_local(Place(file, node.iter)) else Effect.OTHER
        if isinstance(node, cst.With):
            return self._of_with(file, node)
        return Effect.OTHER

    def _of_block(self, file: ParsedFile, block: cst.BaseSuite) -> Effect:
        if isinstance(block, cst.SimpleStatementSuite):
            return _most([self._of_small(file, part) for part in block.body])
        return _most([self.of(Place(file, part)) for part in block.body])

    def _of_small(self, file: ParsedFile, node: cst.CSTNode) -> Effect:
        if not isinstance(node, cst.Expr) or not isinstance(node.value, cst.Call):
            return Effect.OTHER
        call = Place(file, node.value)
        return self.of_call(call) if self.has_local_arguments(call) else Effect.OTHER

    def of_call(self, call: Place) -> Effect:
        """What a call does, leaving aside what its arguments do."""
        assert isinstance(call.node, cst.Call)
        func = call.node.func
        name = call.file.names.qualified(func, call.file.scope_of(func))
        if name in _FUNCTIONS or (isinstance(func, cst.Attribute) and func.attr.value in _METHODS):
            return Effect.WRITE if not self.flow.targets(call) else Effect.OTHER
        if name in _FOLDERS or (isinstance(func, cst.Attribute) and func.attr.value == "mkdir"):
            return Effect.FOLDER
        is_print = isinstance(func, cst.Name) and func.value == "print"
        is_logger = isinstance(func, cst.Attribute) and func.attr.value in _LOGGERS
        return Effect.TELL if is_print or is_logger else Effect.OTHER

    def _of_with(self, file: ParsedFile, node: cst.With) -> Effect:
        """`with open(path, 'w') as f:` writes if one rank can do it alone, and nobody else needs what it assigns."""
        if not opens_to_write(node) or any(isinstance(part, cst.Return) for part in walk(node.body)):
            return Effect.OTHER
        local = self.is_local(Place(file, node.body)) and all(self.is_local(Place(file, item)) for item in node.items)
        return Effect.WRITE if local and not _is_used_outside(file, node) else Effect.OTHER

    def has_local_arguments(self, call: Place) -> bool:
        assert isinstance(call.node, cst.Call)
        owner = [call.node.func.value] if isinstance(call.node.func, cst.Attribute) else []
        parts = [*owner, *(arg.value for arg in call.node.args)]
        return all(self.is_local(Place(call.file, part)) for part in parts)

    def is_local(self, place: Place, depth: int = _DEPTH) -> bool:
        """Whether one rank can compute something alone: no model is run, and nothing is gathered."""
        calls = [Place(place.file, node) for node in walk(place.node) if isinstance(node, cst.Call)]
        return all(self._is_local_call(call, depth) for call in calls)

    def _is_local_call(self, call: Place, depth: int) -> bool:
        assert isinstance(call.node, cst.Call)
        func = call.node.func
        functions = [target for target in self.flow.targets(call) if isinstance(target.node, cst.FunctionDef)]
        if functions:
            bodies = [Place(target.file, child) for target in functions for child in _bodies(target.node)]
            return depth > 0 and all(self.is_local(body, depth - 1) for body in bodies)
        name = call.file.names.qualified(func, call.file.scope_of(func))
        if name is not None and not name.startswith("torch.distributed"):
            return True
        if isinstance(func, cst.Name):
            return hasattr(builtins, func.value)  # else a model, or what makes one
        if not isinstance(func, cst.Attribute) or func.attr.value in _COLLECTIVE:
            return False
        return not self.flow.is_assigned(func.attr.value)  # self.model(x)


def _bodies(node: cst.CSTNode) -> list[cst.CSTNode]:
    return [node.body] if isinstance(node, cst.FunctionDef) else children(node)


def _most(effects: list[Effect]) -> Effect:
    """What several statements do together."""
    if not effects or Effect.OTHER in effects:
        return Effect.OTHER
    return next(effect for effect in (Effect.WRITE, Effect.FOLDER, Effect.TELL) if effect in effects)


def _is_used_outside(file: ParsedFile, node: cst.With) -> bool:
    """Whether what the block of a `with` assigns is used elsewhere in its function."""
    inside = {id(part) for part in walk(node)}
    targets = [part.target for part in walk(node.body) if isinstance(part, (cst.AssignTarget, cst.AugAssign))]
    if not all(isinstance(target, cst.Name) for target in targets):
        return True
    names = {target.value for target in targets if isinstance(target, cst.Name)}
    function = enclosing_function(Place(file, node))
    around = walk(function.node if function is not None else file.module)
    return any(isinstance(part, cst.Name) and part.value in names and id(part) not in inside for part in around)


def opens_to_write(node: cst.With) -> bool:
    """`with open(path, 'w')`"""
    return all(opens_to_write_call(item.item) for item in node.items)


def opens_to_write_call(node: cst.CSTNode) -> bool:
    """`open(path, 'w')`, or with another mode that writes."""
    if not isinstance(node, cst.Call) or last_name(node.func) != "open":
        return False
    by_position = 0 if isinstance(node.func, cst.Attribute) and last_name(node.func.value) != "io" else 1
    modes = [arg.value for arg in node.args if arg.keyword is not None and arg.keyword.value == "mode"]
    modes += [arg.value for index, arg in enumerate(node.args) if arg.keyword is None and index == by_position]
    return any(set(string_value(mode) or "") & set("wax") for mode in modes)
