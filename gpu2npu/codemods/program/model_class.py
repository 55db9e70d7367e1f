"""The class of a wrapped model: how its forward works, and whether it has anything to learn."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from msgspec import Struct

from gpu2npu.codemods.program.entries import RETURNING_SELF
from gpu2npu.codemods.program.files import ParsedFile, TrainingProgram
from gpu2npu.engine.strings.value_effects import values_of
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.scopes import Assigned, value_of
from gpu2npu.python.tree.syntax import (
    FORS,
    FUNCTIONS,
    Function,
    argument_value,
    arguments,
    is_self,
    last_name,
    parameters,
    shallow_nodes,
)

# Modules of torch.nn without parameters.
_BARE = re.compile(
    r"\w*Loss|\w*Pool\d?d?|\w*Pad\dd|\w*Dropout\dd?|Dropout|Upsample|Upsampling\w+|Pixel(Uns|S)huffle|Identity|Flatten|"
    r"Unflatten|Fold|Unfold|Soft(max|min|plus|sign|shrink)\w*|LogSoftmax|Log?Sigmoid|Hard\w+|\w*ReLU6?|ELU|SELU|CELU|GELU|"
    r"SiLU|Mish|Tanh\w*|Sigmoid|CosineSimilarity|PairwiseDistance|Sequential|ModuleList|ModuleDict"
)
_FILLING = frozenset({"add_module", "append", "extend", "insert", "register_module", "register_parameter", "setattr"})
# Methods that give a model no other parts.
_KEEPING = RETURNING_SELF | {"detach_", "load_state_dict"}
_DEPTH = 3
_STEPS = 5  # of calls and names that an object is given on by
_ARRAYS = ("math.", "numpy.", "torch.", "torchvision.transforms.functional.", "torch.nn.functional.")


class ModelClass(Struct, frozen=True, eq=False):
    """A class of the project, and the file that it is in."""

    file: ParsedFile
    node: ast.ClassDef

    def method(self, name: str) -> Function | None:
        """The method of a name, if the class has it itself."""
        return next((part for part in self.node.body if isinstance(part, FUNCTIONS) and part.name == name), None)


def model_class(program: TrainingProgram, file: ParsedFile, node: ast.expr, depth: int = _STEPS) -> ModelClass | None:
    """The project's class that an expression makes an object of: `Net(3).cuda()`, or a name that is assigned that. What
    an unknown method gives is taken for what it is called on, and a name that an unknown function is assigned to, as
    `model = amp.initialize(model)`, for what else it is assigned."""
    values = values_of(program.project)
    place = values.place(file.names, node)
    for origin in values.sources(place, file.path) if place else ():
        home = program.file(values.at(origin.place).path) if origin.kind == "instance" else None
        if home is not None:
            line = values.line(values.at(origin.place).first + values.kind(origin.place)[1].node)
            return next((ModelClass(home, each) for each in home.nodes(ast.ClassDef) if each.lineno == line), None)
    if isinstance(node, ast.Call):
        inner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
    else:
        inner = [each for each in file.scope_of(node).values(node) if isinstance(each, ast.Call)]
    found = (model_class(program, file, each, depth - 1) for each in inner if depth)
    return next((each for each in found if each is not None), None)


def forward_obstacle(model: ModelClass) -> str | None:
    """The way of a forward that DistributedDataParallel does not go with: a generator, or one that computes gradients
    itself, which the wrapper prepares for only when forward has returned."""
    forward = model.method("forward")
    if forward is None:
        return None
    place = f"{model.file.path}:{model.file.span(forward).start_line}"
    if any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in shallow_nodes(forward.body)):
        return f"the model's forward is a generator ({place})"
    if _computes_gradients(model, forward, frozenset()):
        return f"the model's forward calls backward() itself ({place})"
    return None


def _computes_gradients(model: ModelClass, function: Function, above: frozenset[str]) -> bool:
    for node in shallow_nodes(function.body):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr == "backward":
            return True
        method = model.method(node.func.attr) if is_self(node.func.value) else None
        is_new = method is not None and method.name not in above
        if method is not None and is_new and _computes_gradients(model, method, above | {function.name}):
            return True
    return False


def takes_one(model: ModelClass) -> bool:
    """Return whether the forward of a class takes one argument."""
    forward = model.method("forward")
    if forward is None or forward.args.vararg is not None or forward.args.kwarg is not None:
        return False
    return len(parameters(forward)) == 2


def learns_nothing(program: TrainingProgram, model: ModelClass, depth: int = _DEPTH) -> bool:
    """Return whether nothing that a class assigns to `self` can have a parameter that requires a gradient."""
    if any(grants_gradients(model.file, node, "self") for node in walk(model.node)):
        return False
    frozen = set(_always_frozen(model))
    if "self" in frozen:
        return True
    if _fills_later(model) or not all(_is_bare_base(program, model, base, depth) for base in model.node.bases):
        return False
    owner = model.file.scope_of(model.node.body[0]).enclosing_class()
    attributes = owner.attributes if owner is not None else {}
    return all(
        f"self.{name}" in frozen
        or ((value := value_of(one)) is not None and is_bare(program, model.file, value, depth))
        or (isinstance(value, ast.Name) and _is_used_as_value(model, name))
        for name, assigned in attributes.items()
        for one, _ in assigned
    )


def _always_frozen(model: ModelClass) -> Iterator[str]:
    """Yield the models, as spelled, whose gradients the methods of a class take, unless under a condition."""
    for method in model.node.body:
        if isinstance(method, FUNCTIONS):
            for statement in method.body:
                frozen = _frozen_code(model.file, statement)
                if frozen is not None:
                    yield frozen


def _fills_later(model: ModelClass) -> bool:
    """Return whether a class may get modules or parameters in other ways than by an assignment."""
    calls = (node for node in walk(model.node) if isinstance(node, ast.Call))
    return any(last_name(call.func) in _FILLING for call in calls)


def _is_bare_base(program: TrainingProgram, model: ModelClass, base: ast.expr, depth: int) -> bool:
    """Return whether a base is PyTorch's Module, or a class of the project that has nothing to learn either."""
    if model.file.qualified(base) in model.file.names.project.library.modules:
        return True
    found = model.file.names.definition(base, model.file.scope_of(model.node)) if depth else None
    home = program.file(found.names.path) if found is not None and isinstance(found.bound.node, ast.ClassDef) else None
    if found is None or home is None or not isinstance(found.bound.node, ast.ClassDef):
        return False
    return learns_nothing(program, ModelClass(home, found.bound.node), depth - 1)


def is_made_bare(program: TrainingProgram, file: ParsedFile, module: ast.expr, wrap: ast.Call) -> bool:
    """Return whether all that a module is made of, but in the wrap itself, has no parameters, and it gets no others."""
    code, bound = file.code(module), file.scope_of(module).bound(module)
    made = [one.value for one in bound if isinstance(one, Assigned) and wrap not in walk(one.statement)]
    if not bound:
        return is_bare(program, file, module)
    if not made or len(made) + 1 < len(bound) or any(each is None for each in made):
        return False
    calls = (call.func for call in file.nodes(ast.Call) if isinstance(call.func, ast.Attribute))
    is_filled = any(func.attr in _FILLING and file.code(func.value) == code for func in calls)
    return not is_filled and all(is_bare(program, file, each) for each in made if each is not None)


def is_bare(program: TrainingProgram, file: ParsedFile, value: ast.expr, depth: int = _DEPTH) -> bool:
    """Return whether a value is made of numbers, texts, tensors, and modules without parameters."""
    made = _tensor_call(file, value)
    if made is not None:
        return True
    for node in walk(value):
        if isinstance(node, ast.Call):
            name = file.qualified(node.func) or ""
            module, _, last = name.rpartition(".")
            if module == "torch.nn" and _BARE.fullmatch(last) and last != "PReLU":
                continue
            inner = model_class(program, file, node)
            if inner is None or depth == 0 or not learns_nothing(program, inner, depth - 1):
                return False
    return not isinstance(value, (ast.Name, ast.Attribute, ast.Subscript, ast.BoolOp, ast.IfExp))


def _tensor_call(file: ParsedFile, value: ast.expr) -> ast.Call | None:
    """The call of `torch.tensor(mean)`, or of another function of torch or NumPy, that a value is computed from by
    methods and items: `torch.tensor(mean).cuda()[None, :]`. A class, such as `torch.nn.Parameter`, is none."""
    while True:
        if isinstance(value, ast.Subscript):
            value = value.value
        elif not isinstance(value, ast.Call):
            return None
        elif (name := file.qualified(value.func) or "").startswith(_ARRAYS) and name.rpartition(".")[2].islower():
            return value
        elif isinstance(value.func, ast.Attribute):
            value = value.func.value
        else:
            return None


def _is_used_as_value(model: ModelClass, attribute: str) -> bool:
    """Return whether the methods of a class use `self.mean` as an operand, and never as a module: what the class is
    given, and does not make itself."""
    uses = [
        node
        for node in walk(model.node)
        if isinstance(node, ast.Attribute) and node.attr == attribute and isinstance(node.ctx, ast.Load)
    ]
    return bool(uses) and all(_is_operand(model.file, use) for use in uses)


def _is_operand(file: ParsedFile, use: ast.expr) -> bool:
    parent = file.parents[use]
    while isinstance(parent, (ast.Subscript, ast.Attribute)) or (
        isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute) and parent.func is use
    ):
        use, parent = parent, file.parents[parent]
    if isinstance(parent, ast.Call):
        return (file.qualified(parent.func) or "").startswith(_ARRAYS)
    return isinstance(parent, (ast.BinOp, ast.Compare, ast.UnaryOp))


def freezes(file: ParsedFile, node: ast.AST, model: str) -> bool:
    """Return whether a statement takes the gradients of all parameters of a model, as it is spelled."""
    return _frozen_code(file, node) == model


def _frozen_code(file: ParsedFile, node: ast.AST) -> str | None:
    """The model of `model.requires_grad_(False)`, or of a loop that does the same to all its parameters."""
    if isinstance(node, ast.Expr) and (owner := _without_gradient(node.value)) is not None:
        return file.code(owner)
    if not isinstance(node, FORS) or not isinstance(node.iter, ast.Call) or len(node.body) != 1:
        return None
    method = node.iter.func
    if not isinstance(method, ast.Attribute) or method.attr not in {"parameters", "named_parameters"}:
        return None
    name = file.code(node.target).rpartition(",")[2].strip(" ()")
    return file.code(method.value) if _sets_false(file, node.body[0], name) else None


def _without_gradient(value: ast.expr) -> ast.expr | None:
    """The owner of `x.requires_grad_(False)` or `x.detach_()`."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return None
    given = [*value.args, *(keyword.value for keyword in value.keywords)]
    is_off = len(given) == 1 and isinstance(given[0], ast.Constant) and given[0].value is False
    if (value.func.attr == "requires_grad_" and is_off) or value.func.attr == "detach_":
        return value.func.value
    return None


def _sets_false(file: ParsedFile, statement: ast.stmt, name: str) -> bool:
    if isinstance(statement, ast.Expr):
        owner = _without_gradient(statement.value)
        return owner is not None and file.code(owner) == name
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Constant):
        return False
    return statement.value.value is False and [file.code(target) for target in statement.targets] == [
        f"{name}.requires_grad"
    ]


def grants_gradients(file: ParsedFile, node: ast.AST, model: str) -> bool:
    """Return whether a statement names a model, or a part of it, and gives gradients to parameters."""
    if not isinstance(node, ast.stmt) or not re.search(rf"(?<![\w.]){re.escape(model)}\b", file.code(node)):
        return False
    return re.search(r"requires_grad_\(\s*(True)?\s*\)|requires_grad\s*=\s*(?!False)", file.code(node)) is not None


def changes(file: ParsedFile, statement: ast.stmt, model: str) -> bool:
    """Return whether a statement may change a part of a model: `model.fc = nn.Linear(8, 2)`, `replace_head(model)`."""
    if isinstance(statement, ast.Assign):
        targets = [file.code(target) for target in statement.targets]
        return any(target == model or target.startswith(f"{model}.") for target in targets)
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    call = statement.value
    if isinstance(call.func, ast.Attribute) and file.code(call.func.value) == model:
        return call.func.attr not in _KEEPING
    return any(file.code(argument_value(given)) == model for given in arguments(call))
