"""What the expressions of a library mean, followed through its files: imports, re-exports, classes and their objects.

Nothing is run and nothing outside the library is looked at: what comes from there stays a dotted name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple, TypeVar, cast

from gpu2npu.analysis.third_party_records import Class, Expression, Facts, Function

TENSOR = "torch.Tensor"
_DEPTH = 12  # how far one question leads to others
_MOST = 8  # values of one expression that are followed
_T = TypeVar("_T")
# Calls that give back what they are given first, in one wrapping or another.
_TRANSPARENT = frozenset(
    {"functools.partial", "torch.compile", "torch.jit.script", "torch.nn.ModuleList", "torch.nn.Sequential"}
    | {"torch.nn.ModuleDict", "list", "tuple", "enumerate", "zip", "reversed", "copy.deepcopy", "next", "iter"}
    | {"torch.nn.parallel.DistributedDataParallel", "torch.compiler.disable", "functools.wraps", "sorted"}
)
_NO_TENSOR = frozenset({"size", "dim", "item", "tolist", "numpy", "numel", "element_size", "stride", "get_device"})
_BUILTINS = frozenset({"list", "tuple", "enumerate", "zip", "reversed", "next", "iter", "sorted"})


class Value(NamedTuple):
    """`kind`: "module", "function", "class" or "object" of the library, named by `name` (an object by its class);
    "outside" for a name that is not of the library, "outside object" for an object of such a class, "member" for an
    attribute of one, of whose own attributes nothing is known."""

    kind: str
    name: str


class Library:
    """All modules of a library by their names. `touched`, when set, hears of each property that is read on the way."""

    def __init__(self, modules: Iterable[Facts]) -> None:
        self.modules = {facts.module: facts for facts in modules}
        self.functions: dict[str, tuple[Facts, Function]] = {}
        self.classes: dict[str, tuple[Facts, Class]] = {}
        self.touched: Callable[[str], None] = lambda name: None
        self._members: dict[tuple[str, str], list[Value]] = {}
        self._results: dict[str, list[Value]] = {}
        self._mro: dict[str, tuple[str, ...]] = {}
        self._running: set[object] = set()
        self._answers: dict[object, object] = {}
        self._by_star: dict[str, Mapping[str, list[str]]] = {}
        self._packages = {name.rsplit(".", count)[0] for name in self.modules for count in range(name.count(".") + 1)}
        self._inside: dict[str, set[str]] = {}  # by package, its modules
        for package, _, inner in (name.rpartition(".") for name in self._packages):
            self._inside.setdefault(package, set()).add(inner)
        for module, facts in self.modules.items():
            self.functions.update({key(module, name): (facts, each) for name, each in facts.functions.items()})
            self.classes.update({key(module, name): (facts, each) for name, each in facts.classes.items()})

    # -- names ------------------------------------------------------------------------------------------------------

    def imported(self, qualified: str, facts: Facts) -> list[Value]:
        """What a dotted name means that a module imports."""
        if qualified.partition(".")[0] in self._packages:
            return self._absolute(qualified)
        beside = f"{facts.package}.{qualified}".lstrip(".")
        if beside.rpartition(".")[0] and not facts.path.endswith("__init__.py"):
            parent = beside.removesuffix(qualified) + qualified.partition(".")[0]
            if parent in self.modules and f"{facts.package}" not in self.modules:
                return self._absolute(beside)  # a script's neighbour
        return [Value("outside", qualified)]

    def _absolute(self, qualified: str) -> list[Value]:
        name = qualified
        rest: list[str] = []
        while name and name not in self.modules and name not in self._packages:
            name, _, last = name.rpartition(".")
            rest.insert(0, last)
        values = [Value("module", name)]
        for part in rest:
            values = [found for value in values for found in self.attribute(value, part)]
        return values or [Value("outside", qualified)]

    def member(self, module: str, name: str) -> list[Value]:
        """What a name of a module means, through its imports; a submodule, where it binds none."""
        question = module, name
        if question not in self._members:
            self._members[question] = self._once(question, partial(self._member, module, name), [])
        return self._members[question]

    def _member(self, module: str, name: str) -> list[Value]:
        facts = self.modules.get(module)
        found: list[Value] = []
        if facts is not None:
            for value in facts.bindings.get(name, ()):
                found.extend(self.evaluate(value, facts, facts.functions[""]))
            if not found and name not in facts.bindings:
                for star in self._starred(module).get(name, ()):
                    found.extend(value for value in self.member(star, name) if value.kind != "outside")
        if not found and f"{module}.{name}" in self._packages:
            found.append(Value("module", f"{module}.{name}"))
        if not found and (facts is None or name not in facts.bindings):
            found.append(Value("outside", f"{module}.{name}"))
        return list(dict.fromkeys(found))[:_MOST]

    def _starred(self, module: str) -> Mapping[str, list[str]]:
        """The modules that a module imports everything of, by each name that they may have. A package may do so with
        hundreds of modules: to ask each for each name would take minutes and gigabytes."""
        if module not in self._by_star:
            by_name: dict[str, list[str]] = {}
            for star in self.modules[module].stars:
                for name in self._offered(star) if star.partition(".")[0] in self._packages else ():
                    by_name.setdefault(name, []).append(star)
            self._by_star[module] = by_name
        return self._by_star[module]

    def _offered(self, module: str) -> set[str]:
        """All names that a module may have, through what it imports everything of too."""
        offered: set[str] = set()
        seen = {module}
        waiting = [module]
        while waiting:
            each = waiting.pop()
            offered.update(self._inside.get(each, ()))
            if (facts := self.modules.get(each)) is not None:
                offered.update(facts.bindings)
                waiting.extend(set(facts.stars) - seen)
                seen.update(facts.stars)
        return offered

    # -- classes ----------------------------------------------------------------------------------------------------

    def bases(self, name: str) -> list[Value]:
        facts, class_ = self.classes[name]
        return [value for base in class_.bases for value in self.evaluate(base, facts, facts.functions[""])]

    def line_of_classes(self, name: str) -> tuple[str, ...]:
        """A class and those it inherits from, nearest first; outside ones by their dotted names."""
        if name not in self._mro:
            question = "mro", name
            self._mro[name] = self._once(question, partial(self._line_of_classes, name), (name,))
        return self._mro[name]

    def _line_of_classes(self, name: str) -> tuple[str, ...]:
        found = [name]
        for base in self.bases(name):
            found.extend(self.line_of_classes(base.name) if base.kind == "class" else [base.name])
        return tuple(dict.fromkeys(found))

    def method(self, name: str, method: str, beyond: bool = False) -> str | None:
        """The key of a method of a class of the library, its own or inherited; `beyond`: only inherited."""
        for each in self.line_of_classes(name)[1 if beyond else 0 :]:
            if each in self.classes and method in self.classes[each][1].methods:
                facts, class_ = self.classes[each]
                return key(facts.module, class_.methods[method])
        return None

    def outside_base(self, name: str) -> str | None:
        """The nearest class that it inherits from and that is not of the library."""
        line = self.line_of_classes(name)
        return next((each for each in line if each not in self.classes and each != "object"), None)

    def is_module(self, name: str) -> bool:
        """Whether a class of the library is a torch.nn.Module, as far as can be told."""
        return any(each.startswith("torch.nn.") for each in self.line_of_classes(name)) or (
            self.method(name, "forward") is not None
        )

    # -- expressions ------------------------------------------------------------------------------------------------

    def evaluate(self, value: Expression, facts: Facts, function: Function, depth: int = 0) -> list[Value]:
        """What an expression of a function may be; nothing where that is not known."""
        if value is None or depth > _DEPTH:
            return []
        # A chain of comparisons and not `match`, which takes several times as long: this is asked most.
        kind = value[0]
        if kind == "name":
            return self._name(value[1], facts)
        if kind == "local":
            return self._local(value[1], facts, function, depth)
        if kind == "import":
            return self.imported(value[1], facts)
        if kind in ("function", "class"):
            return [Value(kind, key(facts.module, value[1]))]
        again = partial(self.evaluate, facts=facts, function=function, depth=depth + 1)
        if kind == "attribute":
            if value[1] == ("super",):
                return self._super(value[2], facts, function)
            return _few(found for each in again(value[1]) for found in self.attribute(each, value[2], depth + 1))
        if kind == "call":
            return _few(found for each in again(value[1]) for found in self._called(each, value[2], again, depth))
        if kind == "element":
            return [each for each in again(value[1]) if each.kind != "module"]
        if kind == "either":
            return _few(found for part in value[1] for found in again(part))
        if kind == "instance":
            return [each for found in again(value[1]) if (each := _object_of(found)) is not None]
        return []

    def _name(self, name: str, facts: Facts) -> list[Value]:
        if name in facts.bindings or facts.stars:
            found = self.member(facts.module, name)
            if name in facts.bindings or any(value.kind != "outside" for value in found):
                return found
        return [Value("outside", name)] if name in _BUILTINS else []

    def _local(self, name: str, facts: Facts, function: Function, depth: int) -> list[Value]:
        if function.owner and name == function.first and function.kind != "staticmethod":
            kind = "class" if function.kind == "classmethod" else "object"
            return [Value(kind, key(facts.module, function.owner))]
        question = "local", facts.module, function.name, name

        def ask() -> list[Value]:
            values = function.values.get(name, ())
            return _few(found for each in values for found in self.evaluate(each, facts, function, depth + 1))

        return self._once(question, ask, [])

    def _super(self, name: str, facts: Facts, function: Function) -> list[Value]:
        if not function.owner:
            return []
        own = key(facts.module, function.owner)
        method = self.method(own, name, beyond=True)
        base = self.outside_base(own)
        if method is not None:
            return [Value("function", method)]
        return [Value("member", f"{base}.{name}")] if base is not None else []

    def attribute(self, value: Value, name: str, depth: int = 0) -> list[Value]:
        """What an attribute of a value may be."""
        if value.kind == "module":
            return self.member(value.name, name)
        if value.kind == "outside":
            return [Value("outside", f"{value.name}.{name}")]
        if value.kind == "outside object":
            tensor = value.name == TENSOR and name in ("data", "grad", "T", "mT", "real", "imag")
            return [value] if tensor else [Value("member", f"{value.name}.{name}")]
        if value.kind in ("class", "object") and value.name in self.classes:
            return self._of_class(value, name, depth)
        return []

    def _of_class(self, value: Value, name: str, depth: int) -> list[Value]:
        method = self.method(value.name, name)
        if method is not None:
            if value.kind == "object" and self.functions[method][1].kind == "property":
                self.touched(method)
                return self.result(method, depth)
            return [Value("function", method)]
        if name in ("apply", "__call__") and value.kind == "class":
            return [Value("object", value.name)] if name == "apply" else []
        question = "attribute", value.name, name
        found: list[Value] = self._once(question, partial(self._attribute_values, value.name, name, depth), [])
        if found:
            return found
        assigned = any(name in self.classes[each][1].attributes for each in self._own_line(value.name))
        base = self.outside_base(value.name)
        return [Value("member", f"{base}.{name}")] if base is not None and not assigned else []

    def _own_line(self, name: str) -> list[str]:
        return [each for each in self.line_of_classes(name) if each in self.classes]

    def _attribute_values(self, name: str, attribute: str, depth: int) -> list[Value]:
        found: list[Value] = []
        for each in self._own_line(name):
            facts, class_ = self.classes[each]
            for method, value in class_.attributes.get(attribute, ()):
                function = facts.functions.get(method)
                if function is not None:
                    found.extend(self.evaluate(value, facts, function, depth + 1))
        return list(dict.fromkeys(found))[:_MOST]

    # -- calls ------------------------------------------------------------------------------------------------------

    def _called(
        self, value: Value, arguments: tuple[Expression, ...], again: Callable[[Expression], list[Value]], depth: int
    ) -> list[Value]:
        """What a call of a value gives."""
        if value.kind == "class":
            return [Value("object", value.name)]
        if value.kind == "function":
            return self.result(value.name, depth)
        if value.kind == "object":
            method = self.method(value.name, "forward") or self.method(value.name, "__call__")
            found = self.result(method, depth) if method is not None else []
            return found or ([Value("outside object", TENSOR)] if self.is_module(value.name) else [])
        if value.kind == "outside" and value.name in _TRANSPARENT:
            return _few(found for argument in arguments for found in again(argument))
        if value.kind == "outside object":
            return [Value("outside object", TENSOR)] if value.name.startswith("torch.nn.") else []
        return _outside_result(value.name) if value.kind in ("outside", "member") else []

    def result(self, name: str, depth: int = 0) -> list[Value]:
        """What a function of the library returns: what its annotation says, else what its returns are."""
        if name not in self._results:
            facts, function = self.functions[name]

            def ask() -> list[Value]:
                again = partial(self.evaluate, facts=facts, function=function, depth=depth + 1)
                return again(function.annotation) or _few(each for value in function.returns for each in again(value))

            self._results[name] = self._once(("result", name), ask, [])
        return self._results[name]

    def _once(self, question: object, ask: Callable[[], _T], otherwise: _T) -> _T:
        """The answer to a question that may lead back to itself. That to an outermost one is kept; within another, it
        may lack what the other is about."""
        if question in self._running:
            return otherwise
        if question in self._answers:
            return cast(_T, self._answers[question])
        outermost = not self._running
        self._running.add(question)
        try:
            answer = ask()
        finally:
            self._running.discard(question)
        if outermost:
            self._answers[question] = answer
        return answer


def key(module: str, name: str) -> str:
    """The dotted name of a function or class; that of the module for its own code."""
    return f"{module}.{name}" if name else module


def _few(values: Iterable[Value]) -> list[Value]:
    found: dict[Value, None] = {}
    for value in values:
        found[value] = None
        if len(found) == _MOST:
            break
    return list(found)


def _object_of(value: Value) -> Value | None:
    if value.kind == "class":
        return Value("object", value.name)
    return Value("outside object", value.name) if value.kind == "outside" else None


def _outside_result(name: str) -> list[Value]:
    """What a call of an outside name gives: an object of a class, which is written with a capital; a tensor from
    torch's functions and most methods of tensors."""
    owner, _, leaf = name.rpartition(".")
    if leaf[:1].isupper():
        return [Value("outside object", TENSOR if name == "torch.nn.Parameter" else name)]
    if owner in ("torch", "torch.nn.functional", TENSOR) and leaf not in _NO_TENSOR and not leaf.startswith("is_"):
        return [Value("outside object", TENSOR)]
    return []


def public_names(library: Library) -> Mapping[str, tuple[str, ...]]:
    """For each function and class, the other names that the packages of the library offer it under, shortest first."""
    found: dict[str, set[str]] = {}
    for module, facts in library.modules.items():
        if not facts.path.endswith("__init__.py"):
            continue
        names = set(facts.bindings)
        for star in facts.stars:
            names.update(_starred(library, star))
        for name in names:
            for value in library.member(module, name):
                if value.kind in ("function", "class") and value.name != f"{module}.{name}":
                    found.setdefault(value.name, set()).add(f"{module}.{name}")
    return {name: tuple(sorted(others, key=lambda each: (len(each), each))) for name, others in found.items()}


def _starred(library: Library, module: str, depth: int = 0) -> set[str]:
    facts = library.modules.get(module)
    if facts is None or depth > 5:
        return set()
    names = {name for name in facts.bindings if not name.startswith("_")}
    return names.union(*(_starred(library, star, depth + 1) for star in facts.stars))
