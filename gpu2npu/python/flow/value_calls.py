"""Calls of values: which functions a call calls, which calls call a function, which argument is for which parameter,
and which file of data a call reads."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from gpu2npu.python.facts.values import ARGUMENT, COMPARE, LOAD, ClassValue, Parameters
from gpu2npu.python.flow.value_files import Path, State, Steps, ValueFile, bound_to
from gpu2npu.python.flow.value_project import MOST_FILES, UNKNOWN, ValueProject
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.project.project import EVERY_FILE, Readers

_NEAR, _MOST_PARTS = 80, 1_000  # values that the name of a file is made of, and those with all elements


class ValueOrigin(NamedTuple):
    """A source of a value: a place, what it is there, and for what is not of the project its dotted name. `kind`
    is "text", "function", "class", "instance", "container", "module", "outside" or "unknown"."""

    place: int
    kind: str
    text: str = ""


class CallValues(ValueProject):
    """Answers about calls, by where values come from and go."""

    def origins(self, place: int, path: Path = ()) -> Iterable[ValueOrigin]:
        """The sources of the value that is in a place, under some fields."""
        raise NotImplementedError

    def reach(self, place: int) -> Steps:
        """All states that a value gets to."""
        raise NotImplementedError

    def appearances(self, place: int) -> Iterable[int]:
        """The places that a class or an object gets to."""
        raise NotImplementedError

    def call_at(self, names: Names, node: ast.Call) -> int:
        """The place of a call in a file; 0 where there is none."""
        file, end = self.file_of(names), (node.end_lineno or 0, node.end_col_offset or 0)
        return file.ends.get(end, 0) if file is not None else 0

    def called(self, names: Names, node: ast.Call) -> Iterable[ValueOrigin]:
        """The sources of what a call in a file calls."""
        place, self._asker = self.call_at(names, node), names.path
        return self.origins(self.at(place).first + self.at(place).calls[place].callee) if place else ()

    def receiver(self, call: int) -> int:
        """The place of what a method is called on; 0 where it is not followed, or without a call."""
        made = self.at(call).calls.get(call) if call else None
        return self.at(call).first + made.receiver if made is not None and made.receiver else 0

    def callees(self, call: int) -> Iterable[tuple[ValueOrigin, int]]:
        """The callees of a call, each with the number of parameters that come before its first argument."""
        found: dict[tuple[ValueOrigin, int], None] = self.ask(
            ("callees", call), lambda: dict.fromkeys(self._targets(call))
        )
        return found

    def _targets(self, call: int) -> Iterator[tuple[ValueOrigin, int]]:
        for callee, kind, label in self.at(call).into.get(call, ()):
            if kind != LOAD or label != "()":
                continue
            for origin in self.origins(callee):
                if origin.kind in ("class", "instance"):
                    yield origin, 1
                    for name in self.run_by[origin.kind]:
                        inner = self.origins(origin.place, (name,))
                        yield from ((one, 1) for one in inner if one.kind == "function")
                elif origin.kind == "function":
                    function: Parameters = self.kind(origin.place)[1]
                    yield origin, int(function.takes_class or (function.takes_self and not self._is_of_class(callee)))
                elif not self._is_partial(origin):
                    yield origin, 0

    def _is_of_class(self, callee: int) -> bool:
        """Return whether what is called is read from a class itself, and so is given its object as an argument."""
        bases = (base for base, how, _ in self.at(callee).into.get(callee, ()) if how == LOAD)
        return any(origin.kind == "class" for base in bases for origin in self.origins(base))

    def _is_partial(self, origin: ValueOrigin) -> bool:
        """Return whether a source is what `partial` makes, beside the function that is its argument."""
        return origin.text.endswith("()") and self.is_effect(origin.text[:-2], "partial")

    def effect_of(self, call: int) -> str:
        """The kind of effect that a call has on its values; empty if it is not known."""
        called = self.at(call).calls.get(call)
        effect = self.effects.get(called.name) if called is not None else None
        return effect.kind if effect is not None else ""

    def is_effect(self, name: str, *kinds: str) -> bool:
        """Return whether a call of a name has one of some effects."""
        effect = self.effects.get(name.rpartition(".")[2])
        return effect is not None and effect.kind in kinds

    def arguments(self, call: int) -> dict[str, int]:
        """The values that a call is given by place or name, those of a dictionary that is written out included."""
        given = self.at(call).arguments(self.at(call).calls[call])
        made = list(self.origins(given["**"])) if "**" in given else []
        if [each.kind for each in made] == ["container"]:
            stores = self.at(made[0].place).stores.get(made[0].place, {})
            return {field[2:-2]: each[0] for field, each in stores.items() if field[1:2] in "'\""} | given
        return given

    def given(self, call: int) -> dict[str, int]:
        """The same with those that `partial` gives before it."""
        file = self.at(call)
        given, callee = self.arguments(call), file.first + file.calls[call].callee
        if any(map(self._is_partial, self.origins(callee))):
            for place in (place for place, path in self.way_to(callee) if not path):
                if self.effect_of(place) == "partial":
                    before = self.at(place).arguments(self.at(place).calls[place])
                    count = sum(map(str.isdigit, before)) - 1
                    moved = {str(int(key) + count) if key.isdigit() else key: one for key, one in given.items()}
                    given = {str(int(key) - 1) if key.isdigit() else key: one for key, one in before.items()} | moved
        return given

    def given_on(self, call: int, path: Path) -> list[State]:
        """The values that a function outside the project gives on, a step back."""
        file = self.at(call)
        callees = [one.text for one, _ in self.callees(call)]
        if any(mark in text for text in callees for mark in "([?") or callees[0].startswith(("torch.", "numpy.")):
            return []
        called = file.first + file.calls[call].callee
        return [each for each in self.before(call, path) if each[0] != called]

    def before(self, place: int, path: Path) -> Iterator[State]:
        """The states from which a value comes to one, a step back."""
        raise NotImplementedError

    def way_to(self, place: int) -> Steps:
        """All states that a value comes through on its way to a place."""
        raise NotImplementedError

    def callers(self, function: int) -> Iterable[int]:
        """The calls of a function."""
        found: dict[int, None] = self.ask(("callers", function), lambda: dict.fromkeys(self._calls_of(function)))
        return found

    def _calls_of(self, function: int) -> Iterator[int]:
        for place, path in self.reach(function):
            called: Iterable[int] = () if path else (place,)
            if len(path) == 1 and path[0] in self.run_by.get(self.kind(place)[0], ()):
                called = self.appearances(place)
            for at in called:
                yield from self.at(at).loads.get(at, {}).get("()", ())

    def bindings(self, call: int, key: str) -> Iterator[tuple[int, str, Path]]:
        """The parameters that an argument of a call is for: the place, the field that it is taken from, and those that
        it is put in."""
        for origin, skip in self.callees(call):
            file = self.at(origin.place)
            one = file.kinds.get(origin.place, UNKNOWN)[1]
            if origin.kind == "class" and self.holds_argument(file, one):
                yield file.first + one.instance, "", () if key in ("0", "**") else (f"['{key}']",)
            elif origin.kind == "class" and one.fields and key == "**":
                yield from ((file.first + one.instance, f"['{name}']", (f".{name}",)) for name in one.fields)
            elif origin.kind == "class" and one.fields:
                index = int(key) if key.isdigit() else -1
                name = one.fields[index] if 0 <= index < len(one.fields) else key
                yield file.first + one.instance, "", (f".{name}",)
            elif origin.kind == "function":
                yield from ((file.first + node, taken, added) for node, taken, added in bound_to(one, key, skip))
            elif origin.kind == "outside" and origin.text.endswith(".__init__") and self._copies(origin.text[:-9]):
                first, held = self._initialised(call)
                for each in held:
                    if key in (first, "**") or not key.isdigit():
                        yield each, "[0]" if key == "*" else "", () if key in (first, "*", "**") else (f"['{key}']",)

    def _initialised(self, call: int) -> tuple[str, list[int]]:
        """The first argument of `super().__init__` or `dict.__init__` but for the object, and the objects it is for."""
        file = self.at(call)
        held = file.stores.get(file.first + file.calls[call].receiver, {}).get(".__self__")
        if held:
            return "0", held
        given = file.arguments(file.calls[call]).get("0", 0)
        return "1", [origin.place for origin in self.origins(given) if origin.kind == "instance"]

    def holds_argument(self, file: ValueFile, made: ClassValue) -> bool:
        """Return whether the objects of a class hold what it is called with, as those of a library's dict do."""
        found: dict[ValueOrigin, None] = self.ask(
            ("holds", file.first + made.node),
            lambda: dict.fromkeys(
                origin
                for base in made.bases
                for origin in self.origins(file.first + base)
                if origin.kind == "outside" and self._copies(origin.text)
                if not any(each.kind == "function" for each in self.origins(file.first + made.node, (".__init__",)))
            ),
        )
        return bool(found)

    def given_back(self, file: ValueFile, place: int) -> Iterator[int]:
        """The results of methods of an object that give it back itself: `x.to(device)`."""
        for method, called in file.loads[place].items():
            if method in self.fluent:
                yield from (result for each in called for result in file.loads.get(each, {}).get("()", ()))

    def is_class(self, origin: ValueOrigin) -> bool:
        """Return whether a source is a class of the project, or may be one of the library."""
        return origin.kind == "class" or self.project.library.has(origin.text)

    def is_called_by(self, method: str, file: ValueFile, made: ClassValue) -> bool:
        """Return whether a method of a class is one of a library's that calls an object of it."""
        calls, bases = self.project.library.class_calls, (file.first + base for base in made.bases if base)
        is_one = any(each.endswith(method) for each in calls)
        return is_one and any(f"{each.text}{method}" in calls for base in bases for each in self.origins(base))

    def is_given(self, file: ValueFile, cls: int, path: Path, base: int) -> bool:
        """Return whether `__init__` gives the objects of a class what they would have of a base of a library."""
        what, one = file.kinds.get(cls, UNKNOWN)
        label = path[1] if path[0] == "()" and len(path) > 1 else path[0]
        selves = one.selves if what == "class" else ()
        giving = [each for each in selves if label in file.stores.get(file.first + each, ())]
        if not giving:
            return False
        made = (each for place in file.stores[cls].get(".__init__", ()) for each in self.origins(place))
        functions = (file.kinds[each.place][1] for each in made if each.kind == "function" and each.place in file.kinds)
        first = {place for each in functions for _, place in each.positional[:1]}
        return not first.isdisjoint(giving) and all(each.kind == "outside" for each in self.origins(base))

    def _copies(self, name: str) -> bool:
        return self.is_effect(name, "attributes", "copy", "holding", "table")

    def _bound(self, call: int) -> Iterable[tuple[int, int, str, Path]]:
        """The parameters that the arguments of a call are for, each with the argument; see `bindings`."""
        given = [(source, key) for source, kind, key in self.at(call).into.get(call, ()) if kind == ARGUMENT]
        found: dict[tuple[int, int, str, Path], None] = self.ask(
            ("bound", call),
            lambda: {(target, one, *by): None for one, key in given for target, *by in self.bindings(call, key)},
        )
        return found

    # Files of data

    def read_by(self, call: int) -> Mapping[int, bool | None]:
        """The values of the files of data that a call may read: True where the code names a file and no other, False
        where it names several, and None where it names none."""
        called = self.at(call).calls.get(call)
        if called is None or not self.project.data or not self._may_read(call):
            return {}
        found: dict[int, bool | None] = self.ask(("read", call), lambda: self._find_read(call))
        return found

    def _may_read(self, call: int) -> bool:
        """Return whether a call has the name of a reader, or what it calls was imported under it."""
        file = self.at(call)
        called = file.calls[call]
        what, taken = file.kinds.get(file.first + called.callee, UNKNOWN)
        return called.name in self._reading or (what == "import" and taken.name in self._reading)

    def _find_read(self, call: int) -> dict[int, bool | None]:
        names = [origin.text.removesuffix("()") for origin, _ in self.callees(call)]
        if not any(name in self.readers or f".{name.rpartition('.')[2]}" in self.readers for name in names):
            return {}
        data = sorted(self.project.data)
        texts = frozenset(text for each in self.made_of(call) if (text := self.text(each)) is not None)
        named = [path for path in data if _is_named(path, texts)]
        named = named or [path for path in data if _is_named(posixpath.splitext(path)[0], texts)]  # as Hydra's
        if len(named) > 1:  # "conf", "run.yaml": the folders tell them apart
            named = [path for path in named if texts.issuperset(path.split("/"))] or named
        paths = named or (data if len(data) <= MOST_FILES else [])
        for path in paths:
            self.project.consult(self._asker, path)
        roots = [self.data_at(path).first + self.project.data[path].root for path in paths]
        return dict.fromkeys(roots, len(named) == 1 if named else None)

    def made_of(self, place: int, *, has_elements: bool = False) -> list[int]:
        """The places that a value is made of, itself first and the others in the order of the code, whatever is done
        with them. If it `has_elements`, what it holds is part, but not what calls of no known effect are given."""
        found: dict[int, None] = {}
        pending = [place]
        while pending and len(found) < (_MOST_PARTS if has_elements else _NEAR):
            each = pending.pop()
            if each in found:
                continue
            found[each] = None
            file = self.at(each)
            held = file.stores.get(each, {}).items() if has_elements else ()  # those behind a star have no number
            below = [source for label, sources in held if label[1:-1].isdigit() for source in sources]
            is_opaque = has_elements and each in file.calls and not self.effect_of(each)
            without = (COMPARE, ARGUMENT) if is_opaque else (COMPARE,)
            below += [source for source, kind, _ in file.into.get(each, ()) if kind not in without]
            below += [source for label, sources in held if not label[1:-1].isdigit() for source in sources]
            if each in file.operations:
                below += [file.first + one for one in file.operations[each].operands if one]
            if has_elements:
                below += [one.place for one in self.origins(each, ("[*]",)) if one.kind == "text"]
            if self.text(each) is None:
                kinds = ("text", "container") if has_elements else ("text",)
                below += [one.place for one in self.origins(each) if one.kind in kinds]
            pending += reversed(below)
        return list(found)

    def readers_of(self, root: int) -> dict[int, bool | None]:
        """The calls that read a file of data as `read_by` has it: those that name it, or else all that may read it."""
        self.project.consult(self._asker, EVERY_FILE)
        path, known = self.at(root).path, self.project.readers
        if known is None:
            key = ("readers", root)
            calls: dict[int, dict[int, bool | None]] = self.ask(key, self._find_readers)
            found = {call: roots[root] for call, roots in calls.items() if root in roots}
            if self.is_known(key):
                self.project.readers = self._of_nodes(calls)
        else:
            files = {each: self.file_at(each) for each, _ in known.get(path, ())}
            found = {
                file.first + node: one for (each, node), one in known.get(path, {}).items() if (file := files[each])
            }
        return {call: is_only for call, is_only in found.items() if is_only is not None} or found

    def _of_nodes(self, calls: Mapping[int, Mapping[int, bool | None]]) -> Readers:
        """The readers of each file of data by their file and node: places are forgotten before the project is."""
        found: dict[str, dict[tuple[str, int], bool | None]] = {}
        for call, roots in calls.items():
            file = self.at(call)
            for root, is_only in roots.items():
                found.setdefault(self.at(root).path, {})[file.path, call - file.first] = is_only
        return found

    def _find_readers(self) -> dict[int, dict[int, bool | None]]:
        """The calls of the project that may read files of data, with these."""
        project = self.project
        if self._readers is None:
            libraries = {name.partition(".")[0] for name in self.readers}
            methods = {name[1:] for name in self.readers if name[0] == "."}
            facts = {path: project.facts(path, path) for path in sorted(project.files)}
            reading = [
                file
                for path, each in facts.items()
                if each
                and not self._reading.isdisjoint(each.names | each.texts)
                and (each.imports_one_of(libraries) or not methods.isdisjoint(each.names))
                if (file := self.file_at(path)) is not None
            ]
            self._readers = {
                call: {**self.read_by(call)} for file in reading for call in file.calls if self._may_read(call)
            }
        return self._readers


def _is_named(path: str, texts: Iterable[str]) -> bool:
    """Return whether one of some texts is a path that ends as that of a file, or that it ends as."""
    written = [f"/{posixpath.normpath(text).lstrip('./')}" for text in texts if text]
    return any(f"/{path}".endswith(each) or each.endswith(f"/{path}") for each in written if each != "/")
