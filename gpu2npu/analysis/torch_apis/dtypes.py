"""The dtypes, shapes and devices of tensors: labels that follow values from the calls that make them.

A dtype is stated where a tensor is made with one, or converted to one, and implied by numbers and by NumPy's defaults.
An implied one counts where the program moves the tensor to a device: what stays on the CPU meets no limit of the NPU.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import reduce

from gpu2npu.analysis.torch_apis.tensor_labels import (
    COMPLEX,
    COMPUTED_BY,
    COMPUTING,
    CONVERTING,
    DEFAULT_FLOATS,
    DTYPES,
    FACTORIES,
    FROM_COMPLEX,
    FROM_VALUES,
    INTEGERS,
    KEEPING,
    NUMPY_DTYPES,
    NUMPY_FLOAT64,
    OF_FAR,
    OF_LAYERS,
    OF_NUMBERS,
    OPERATORS,
    REAL,
    SAME_SHAPE,
    SHAPED,
    TENSORS_OF_NUMBERS,
    TESTS,
    UNKNOWN,
    Label,
    agreed,
    cast,
    computed,
    field_of,
    is_layer,
    of_text,
    reshaped,
    spectrum,
    viewed,
)
from gpu2npu.engine.strings.value_effects import values_of
from gpu2npu.python.facts.values import MODULE, STORE, SUBSCRIPT, Arithmetic, Called
from gpu2npu.python.flow.value_files import Path, State
from gpu2npu.python.meaning.names import Names
from gpu2npu.support.conditions import TensorFacts

_MOST = 8  # labels of one value: of more nothing is said
_GIVING_ON = ("attribute", "copy", "numbered", "zipped")  # effects of calls whose results hold what they are given
_DEEPEST = 12  # calls and operations that one value is followed through


class Tensors:
    """Answers about the tensors of a file."""

    def __init__(self, names: Names) -> None:
        self._values = values_of(names.project)
        self._names = names
        self._asker = names.path
        self._depth = 0

    # Places

    def call(self, node: ast.Call) -> int:
        """The place of a call; 0 where there is none."""
        return self._values.call_at(self._names, node)

    def operands(self, node: ast.BinOp | ast.Subscript) -> list[int]:
        """The places of the two values of arithmetic or of `x[i]`; none where they are not known."""
        return self._values.operands(self._names, node)

    def arguments(self, call: int) -> dict[str, int]:
        """The values that a call is given, by position ("0") or name, those of a dictionary that is written out
        included, without those that are not followed."""
        with self._values.near(self._asker):
            return self._values.arguments(call)

    def receiver(self, call: int) -> int:
        """The value that a method is called on; 0 where that is not followed."""
        return self._values.receiver(call)

    # Answers

    def facts(self, place: int) -> TensorFacts:
        """The facts that hold for all tensors that a value may be."""
        with self._values.near(self._asker):
            one = agreed([each for each in self._of(place) if not each.is_number])
        is_known = one.dtype is not None and (one.is_stated or one.is_moved) and not is_layer(one)
        return TensorFacts(one.dtype if is_known else None, one.shape, device=one.device)

    def may_be(self, place: int, dtype: str) -> bool:
        """Return whether a value may be a tensor of a dtype, also by a cast on a device that is not known."""
        with self._values.near(self._asker):
            return any(each.dtype == dtype for each in self._of(place))

    def elements(self, place: int) -> tuple[TensorFacts, ...]:
        """The facts of the elements of a list or tuple that is written out."""
        with self._values.near(self._asker):
            made = list(self._values.origins(place)) if place else []
            if {each.kind for each in made} != {"container"}:
                return ()
            fields = {field: None for each in made for field in self._values.at(each.place).stores.get(each.place, ())}
            found = [agreed(self.labels(place, (field,))) for field in fields]
        return tuple(TensorFacts(each.dtype if each.is_stated or each.is_moved else None) for each in found)

    def number(self, place: int) -> int | float | bool | None:
        """The number that a value is, where it is only one."""
        with self._values.near(self._asker):
            return self._number(place)

    def _number(self, place: int) -> int | float | bool | None:
        sources = self._values.origins(place) if place else []
        found = {self._values.kind(each.place)[1] if each.kind == "number" else None for each in sources}
        return found.pop() if len(found) == 1 else None

    def numbers(self, place: int) -> tuple[int | float | bool | None, ...]:
        """The numbers of which torch makes a tensor that a value certainly is, where they are written out."""
        with self._values.near(self._asker):
            for _ in range(_DEEPEST):
                if not place or place in self._values.at(place).calls:
                    break
                before = list(self._values.before(place, ()))
                place = before[0][0] if len(before) == 1 and not before[0][1] else 0
            if not place or {each.text for each, _ in self._values.callees(place)} - TENSORS_OF_NUMBERS:
                return ()
            return tuple(map(self._number, self._written(self.arguments(place).get("0", 0)) or ()))

    def _written(self, place: int) -> list[int] | None:
        """The values of a list or tuple that is written out; None of anything else."""
        made = list(self._values.origins(place)) if place else []
        if [each.kind for each in made] != ["container"]:
            return None
        stores = self._values.at(made[0].place).stores.get(made[0].place, {})
        found = [stores[f"[{index}]"][0] for index in range(len(stores)) if f"[{index}]" in stores]
        return found if len(found) == len(stores) else None

    def is_computed_with(self, place: int) -> bool:
        """Return whether a value is an argument of one of torch's functions, which take tensors."""
        names = (each.rpartition(".") for each in self.functions(place))
        return any(owner in COMPUTED_BY and name.islower() for owner, _, name in names)

    def functions(self, place: int) -> list[str]:
        """The functions outside the project that a value is an argument of."""
        with self._values.near(self._asker):
            uses = self._values.uses(place, self._asker) if place else []
        return [use.text for use in uses if use.kind == "argument"]

    def stated(self, given: dict[str, int]) -> str | None:
        """The dtype that is an argument of `to` or `type`."""
        named = (self.label(given[key]) for key in given if key in ("0", "1", "dtype"))
        return next((each.dtype for each in named if each.dtype is not None and each.name in DTYPES), None)

    def label(self, place: int) -> Label:
        """The label that holds for all that a value may be."""
        with self._values.near(self._asker):
            return agreed(self._of(place))

    def labels(self, place: int, path: Path = ()) -> Iterable[Label]:
        """All that a value may be, under some fields."""
        if self._depth >= _DEEPEST:
            return (UNKNOWN,)
        key = ("tensor", place, path)
        self._depth += 1
        try:
            found: Iterable[Label] = self._values.ask(key, lambda: dict.fromkeys(self._found(place, path)))
        finally:
            self._depth -= 1
        return found

    def _found(self, place: int, path: Path) -> Iterator[Label]:
        ends: dict[Label, None] = {}

        def step(at: int, fields: Path) -> Iterator[State]:
            file = self._values.at(at)
            if at in file.operations and file.operations[at].operator != SUBSCRIPT:
                for each in self._operation(at, file.operations[at]):
                    ends[reduce(field_of, fields, each)] = None
            elif at in file.calls:
                yield from self._call(at, fields, ends)
            else:
                before = list(self._values.before(at, fields))
                if not before:
                    ends.update(dict.fromkeys(self._end(at, fields)))
                yield from before

        seen = self._values.closed((place, path), step)
        is_of_object = any(field[0] == "." for _, fields in seen for field in fields)  # it moves with a module
        is_on_host = not is_of_object or any(self._is_constant(at) for at, _ in seen)
        if len(ends) > _MOST:
            yield UNKNOWN
            return
        for each in ends:
            yield each._replace(device="cpu") if is_on_host and each.name in FACTORIES and not each.is_moved else each

    def _is_constant(self, place: int) -> bool:
        """Return whether a place is what functions read of a name of the module."""
        file = self._values.at(place)
        out = file.out.get(place, ())
        return place not in file.calls and any(kind == STORE and at == file.first + MODULE for at, kind, _ in out)

    def _end(self, place: int, path: Path) -> Iterator[Label]:
        """The labels of a value that comes from no further: a number, a text, a container, a name of a library."""
        what, one = self._values.kind(place)
        if what == "number" and not path:
            yield Label(OF_NUMBERS.get(type(one)), is_number=True)
        elif what == "text" and not path:
            yield of_text(one.value)
        elif what == "container" and path in ((), ("[each]",), ("[each]", "[each]")):
            yield from self.labels(place, (*path, "[each]"))
        elif what in ("outside", "import"):
            name = one if what == "outside" else ".".join(filter(None, (one.module, one.name)))
            name += "".join(path)
            dtype = DTYPES.get(name) or NUMPY_DTYPES.get(name)
            yield Label(dtype, is_stated=dtype is not None, name=name)
        elif what == "unknown":
            yield UNKNOWN._replace(name=path[-1] if path else self._parameter(place))

    def _parameter(self, place: int) -> str:
        file = self._values.at(place)
        function = file.parameters.get(place)
        if function is None:
            return "?"
        one = self._values.kind(function)[1]
        return next((name for name, node in one.positional + one.named if file.first + node == place), "?")

    # Calls

    def _call(self, place: int, path: Path, ends: dict[Label, None]) -> Iterator[State]:
        """The values that a call gives: what it returns in the project, or what is known of the library's function."""
        for callee, _ in self._values.callees(place):
            if callee.kind in ("function", "class"):
                yield callee.place, ("()", *path)
            elif self._values.is_effect(callee.text, *_GIVING_ON) and (given := self._values.given_on(place, path)):
                yield from given
            elif callee.kind in ("outside", "unknown"):
                for each in self._called(callee.text, place):
                    ends[reduce(field_of, path, each)] = None
            elif callee.kind != "instance":
                ends[UNKNOWN] = None
        if not self._values.callees(place):
            name = self._values.at(place).calls[place].name
            far = self._called(f"?.{name}", place) if name in OF_FAR else (UNKNOWN,)
            ends.update(dict.fromkeys(reduce(field_of, path, each) for each in far))

    def _called(self, name: str, place: int) -> Iterator[Label]:
        """The labels of what a function or method gives that is not of the project, by its name: "torch.zeros",
        "torch.zeros().cuda" or "?.cuda"."""
        call = self._values.at(place).calls[place]
        given = self._values.given(place)
        is_function = name.startswith(("torch.", "numpy.")) and not any(mark in name for mark in "([")
        last = name.rpartition(".")[2]
        if call.receiver and not is_function:
            for owner in self._of(self.receiver(place)):
                yield from self._method(last, owner, given)
        elif name.startswith("numpy."):
            yield from self._array(name.removeprefix("numpy."), given)
        elif name.startswith("torch."):
            yield from self._made(name, last, given, call)
        else:
            yield UNKNOWN

    def _of(self, place: int | None) -> Iterable[Label]:
        return self.labels(place) if place else (UNKNOWN,)

    def _method(self, method: str, owner: Label, given: dict[str, int]) -> Iterator[Label]:
        """The result of a method of what is labelled."""
        if method in ("to", "type", "type_as"):
            yield self._converted(owner, given)
        elif method == "astype":
            yield owner._replace(dtype=self._converted(owner, given).dtype, of_numpy=True)
        elif method in ("cuda", "npu", "cpu"):
            yield owner._replace(device="cpu" if method == "cpu" else "npu", is_moved=True)
        elif method in CONVERTING:
            yield cast(owner, CONVERTING[method]) if owner != UNKNOWN and owner.name != "module" else UNKNOWN
        elif method in ("tolist", "item", "numpy"):
            yield Label(owner.dtype, of_numpy=True) if method == "numpy" else Label(is_number=True)
        elif method.startswith("new_") and "dtype" in given:
            yield owner._replace(dtype=agreed(self._of(given["dtype"])).dtype, is_stated=True, shape=None)
        elif is_layer(owner) and method in OF_LAYERS:
            yield owner._replace(name=f".{method}") if method.endswith("parameters") else owner
        else:
            yield from self._computed(method, [owner], given)

    def _converted(self, owner: Label, given: dict[str, int]) -> Label:
        """The result of `to`, `type` and `astype`."""
        named = [agreed(self._of(given[key])) for key in given if key in ("0", "1", "dtype", "device", "other")]
        dtype = next((each.dtype for each in named if each.dtype is not None and not each.is_number), None)
        device = next((each.device for each in named if each.device is not None), None)
        if dtype is None and any("dtype" in each.name or each.name in ("type", ".type") for each in named):
            owner = owner._replace(dtype=None)
        is_move = device is not None or dtype is None or len(given) > 1
        if dtype is not None:
            owner = owner._replace(dtype=dtype, is_stated=True) if is_move else cast(owner, dtype)
        return owner._replace(device=device if is_move else owner.device, is_moved=owner.is_moved or is_move)

    def _array(self, function: str, given: dict[str, int]) -> Iterator[Label]:
        """The label that a function of NumPy gives."""
        array = UNKNOWN._replace(of_numpy=True)
        position = NUMPY_FLOAT64.get(function)
        stated = given.get("dtype", given.get(position or "dtype"))
        if stated is not None:
            yield array._replace(dtype=agreed(self._of(stated)).dtype)
        else:
            listed = (self._written(given.get("0", 0)) or ()) if function == "array" else ()
            is_wide = position is not None or any(type(self._number(each)) is float for each in listed)
            yield array._replace(dtype="float64" if is_wide else None)

    def _made(self, name: str, last: str, given: dict[str, int], call: Called) -> Iterator[Label]:
        """The labels that a function or class of torch gives."""
        made = UNKNOWN._replace(name=name, shape=self._shape(name, given))
        if "device" in given:
            made = made._replace(device=agreed(self._of(given["device"])).device, is_moved=True)
        first = given.get("0", given.get("input", given.get("data", given.get("tensors", given.get("self")))))
        if "dtype" in given and last not in ("softmax", "log_softmax"):
            dtype = agreed(self._of(given["dtype"])).dtype
            yield made._replace(dtype=dtype, is_stated=dtype is not None)
        elif name.endswith("Tensor"):
            yield made._replace(dtype=DTYPES.get(name), is_stated=True, is_moved="cuda" in name)
        elif name in COMPLEX or last in ("stft", "istft") or name in FROM_COMPLEX:
            yield from (spectrum(name, last, given, each) for each in self._of(first))
        elif name in FROM_VALUES:
            for each in self._of(first):
                dtype = each.dtype if not each.is_number or each.dtype else None
                one = each._replace(name=name, is_number=False, is_moved=made.is_moved or each.is_moved, dtype=dtype)
                device = made.device if "Parameter" in name else made.device or each.device  # a module takes it along
                yield one._replace(device=device, shape=each.shape, is_stated=each.is_stated)
        elif name in DEFAULT_FLOATS or is_layer(made):
            yield made._replace(dtype="float32")  # a program that changes the default has a finding of its own
        elif name in INTEGERS or name == "torch.arange":
            ends = (each for key, each in given.items() if each and (key.isdigit() or key in ("start", "end", "step")))
            is_whole = name in INTEGERS or all(type(self._number(each)) is int for each in ends)
            yield made._replace(dtype="int64" if is_whole else None)
        elif name == "torch.full":  # of the dtype of a number
            yield made
        elif name == "torch.device":
            yield from self._of(first)
        else:
            owners = self._of(given["1"] if last == "einsum" and "1" in given else first)
            for owner in owners:
                yield from self._computed(last, [owner], {key: one for key, one in given.items() if one != first})

    def _computed(self, function: str, owners: list[Label], given: dict[str, int]) -> Iterator[Label]:
        """The labels that a function gives that computes with tensors, by its last name."""
        owner = owners[0]
        if function in SAME_SHAPE:
            yield owner
        elif function in KEEPING:
            yield owner._replace(shape=reshaped(function, owner.shape, self._sizes(given)))
        elif function in COMPUTING and (owner.dtype or "").startswith(("float", "bfloat", "complex")):
            yield owner._replace(shape=reshaped(function, owner.shape, None))
        elif function in REAL:
            yield field_of(owner, f".{function}")
        elif function in OPERATORS | TESTS:
            others = [agreed(self._of(each)) for key, each in given.items() if key.isdigit() or key == "other"]
            yield computed(function, [owner, *others])
        else:  # it is where its tensor is
            yield UNKNOWN._replace(device=owner.device, is_moved=owner.is_moved)

    def _sizes(self, given: dict[str, int]) -> tuple[int | None, ...] | None:
        """The whole numbers that a call is given by position, one by one or as a list; each None where not known."""
        places = [given[key] for key in map(str, range(len(given))) if key in given]
        if not places or "*" in given or len(places) != sum(map(str.isdigit, given)):
            return None
        if len(places) == 1 and [each.kind for each in self._values.origins(places[0])] != ["number"]:
            places = self._written(places[0]) or []
        known = tuple(map(self._number, places))
        return known if known and all(each is None or type(each) is int for each in known) else None  # type: ignore[return-value]

    def _operation(self, place: int, operation: Arithmetic) -> Iterator[Label]:
        """The labels that arithmetic gives; of `+=` what is on the left, where that is a tensor."""
        first = self._values.at(place).first
        left, right = (list(self._of(first + each if each else 0)) for each in operation.operands)
        if operation.operator[0] == "[":
            yield from (each._replace(shape=viewed(each.shape, operation.operator[1:-1].split(","))) for each in left)
            return
        pairs = [[one, other] for one in left for other in right]
        changed = [each for each in left if each.dtype is not None and not each.is_number]
        if operation.is_in_place and changed:
            yield from changed
        else:
            yield from (computed(operation.operator, each) for each in pairs)

    def _shape(self, name: str, given: dict[str, int]) -> tuple[int | None, ...] | None:
        """The shape of what one of torch's functions makes of numbers; None for a dimension that is not known."""
        if name == "torch.full":
            given = {"0": given["0"]} if self._written(given.get("0", 0)) else {}
        is_range = name == "torch.arange" and not given.keys() & {"1", "start", "end"}
        return self._sizes(given) if name in SHAPED or is_range else None
