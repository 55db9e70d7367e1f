"""Judges a string by where its value is used: it means a device where a use of it is a device and none contradicts."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Set
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from gpu2npu.engine.other_devices.device_pairs import compares_with_npu, has_npu_file
from gpu2npu.engine.strings.forms import FLAGS
from gpu2npu.engine.strings.keys import looked_up_by, stays, stays_in, tables_compared
from gpu2npu.engine.strings.places import NO, UNSURE, YES, StringPlace, among
from gpu2npu.engine.strings.prose import BY_STRING, PROSE_KEYWORDS, speaks
from gpu2npu.engine.strings.value_effects import EFFECTS, HARMLESS, OTHERS, READERS, values_of
from gpu2npu.engine.strings.words import is_word, mentions
from gpu2npu.python.facts.values import ARGUMENT, STORE
from gpu2npu.python.flow.value_calls import ValueOrigin
from gpu2npu.python.flow.values import Values, ValueUse, Way
from gpu2npu.python.project.project import EVERY_FILE
from gpu2npu.python.tree.syntax import string_value
from gpu2npu.rulebook.rule import Role

_FORMATS = ("json", "yaml", "toml")
_PARSERS = READERS | {"omegaconf.OmegaConf.create"}  # of texts

# The key that a value comes from, whose way before it is not known: of `?['where']` and of `?.where`.
_LAST_FIELD = re.compile(r"""(?:\.|\[['"])(?P<key>\w+)(?:['"]\])?$""")


class Flow(Struct, frozen=True):
    """The answer of the uses of a value: a verdict, and the way to the use that decides or is not known; `is_key` where
    it is looked up in what is not known."""

    verdict: str
    way: tuple[Way, ...] = ()
    use: ValueUse | None = None
    is_contradicted: bool = False
    is_key: bool = False

    def why_left(self) -> str:
        """Why a string is left: the use that could not be followed, with its place."""
        if not self.way or self.use is None:
            return "its use does not say so"
        where, text = _place(self.way[-1]), self.use.text
        if self.use.kind == "unknown":
            return f"where it is used behind {where} is not known"
        if self.use.kind == "data":
            return f"{where} has it too, and stays: change both or neither"
        if self.use.kind == "unnamed":
            return f"the program that uses it in {where} does not name the file that it reads"
        if self.use.kind == "shared":
            return f"the function that reads it for {where} reads other files too"
        if self.use.kind == "compared" and self.is_contradicted:
            return f"what it is compared with in {where} stays: change both or neither"
        if self.is_key:
            return f"what it is a key of in {where} is not known"
        if self.use.kind == "compared":
            return f"what it is compared with in {where} is not known"
        name = text.removeprefix("?").removesuffix("()").lstrip(".") or "..."
        if self.is_contradicted:
            return f"what {name}() in {where} does with it is not for one"
        return f"what {name}() in {where} does with it is not known"

    def why_edited(self) -> str:
        """The way from a string to the use that decides; empty where the string's place does."""
        if not self.way:
            return ""
        *between, last = map(_place, self.way[1:] or self.way)
        if between:
            return f" Its value is used so in {last}, through {', '.join(between)}."
        return f" Its value is used so in {last}."


def _place(step: Way) -> str:
    return f"{step.path}:{step.line}"


def judge_by_flow(place: StringPlace, role: Role, is_foreign: Callable[[str], bool], is_named: bool = False) -> Flow:
    """Judge a string by all that its value comes to in the project: one that is named as a device is one unless a use
    contradicts; what foreign packages are given of these is decided by `other_devices.devices`."""
    if not isinstance(place.node, (ast.Constant, ast.JoinedStr)) or (not is_named and stays(place)):
        return Flow(UNSURE)
    if is_named and not _may_be_contradicted(place, role):
        return Flow(YES)
    values = values_of(place.names.project)
    foreign = (lambda _: False) if is_named else is_foreign
    judge = _Judge(values, role, place.names.path, string_value(place.node) or "", place.replaced_by, foreign)
    at = values.place_of(place.names, place.node.lineno, place.node.col_offset)
    if at is None:
        return Flow(YES if is_named else UNSURE)
    return judge.of(at, is_named)


def _may_be_contradicted(place: StringPlace, role: Role) -> bool:
    """Return whether the project has a text in capitals too, or names what takes such a text for something else."""
    text, others = string_value(place.node) or "", (each.rpartition(".")[2] for each in role.others)
    project, path = place.names.project, place.names.path
    return any(project.naming(each, path) for each in (text.upper(), place.replaced_by, *others) if each)


def is_read(place: StringPlace) -> bool:
    """Return whether a text is read as data, such as YAML in the code."""
    values = values_of(place.names.project)
    at = values.place_of(place.names, place.node.lineno, place.node.col_offset)
    uses = values.uses(at, place.names.path) if at is not None else ()
    return any((use.kind, use.key) == ("argument", "0") and use.text in _PARSERS for use in uses)


def judge_data(values: Values, place: int, role: Role, new: str, is_foreign: Callable[[str], bool]) -> Flow:
    """Judge a text in a file of data, or a key there, by what programs do with what they read. A file that none of
    them names is not sure to be the one."""
    file = values.at(place)
    project, path, text = values.project, file.path, values.text(place) or ""
    is_named = _is_changed(place, values)
    tables = [target for target, kind, label in file.out.get(place, ()) if kind == STORE and label == "[key]"]
    if not is_named and any(stays_in(each, text, path, values) for each in tables):
        return Flow(UNSURE)
    found = _Judge(values, role, path, text, new, is_foreign).of(place, is_named)
    if is_named or found.verdict != YES or found.use is None or _is_argument(place, values):
        return found
    readers = values.readers_of(file.first + project.data[path].root)
    if all(readers.values()):
        return found
    kind = "unnamed" if None in readers.values() else "shared"
    return replace(found, verdict=UNSURE, use=found.use._replace(kind=kind))


def judge_by_texts(place: StringPlace, role: Role, is_foreign: Callable[[str], bool]) -> Flow | None:
    """Judge a string by the texts that it is compared with: those of files of data, which it has to be like, or those
    that a file for CUDA and one for NPUs beside it give, which both stay; None for any other. Where it is compared with
    what is read from a file that is not known, a text of any file of data may be it."""
    project = place.names.project
    values, asker, text = values_of(project), place.names.path, string_value(place.node)
    npu_files = (path for path in project.files if has_npu_file(path, project.files.__contains__))
    is_compared = text and (project.data or project.cached(("npu_files",), lambda: any(npu_files)))
    at = values.place_of(place.names, place.node.lineno, place.node.col_offset) if is_compared else None
    if at is None or text is None:
        return None
    uses = [use for use in values.uses(at, asker) if use.kind == "compared"]
    sources = [one for use in uses for one in values.sources(use.place, asker)]
    origins = [one for one in sources if one.kind == "text"]
    devices = {one.place: (values.text(one.place) or "").partition(":")[0] for one in origins}
    same = [each for each, device in devices.items() if device == text.partition(":")[0]]
    is_known = bool(same) and place.replaced_by in devices.values()
    if is_known and all(has_npu_file(values.at(each).path, project.files.__contains__) for each in same):
        return Flow(NO)
    alike = [each for each in same if values.at(each).path in project.data]
    for each in alike:
        project.consult(asker, EVERY_FILE)
        is_fixed = each - values.at(each).first in project.data[values.at(each).path].fixed
        if is_fixed or judge_data(values, each, role, place.replaced_by, is_foreign).verdict != YES:
            where = Way(values.at(each).path, values.line(each))
            return Flow(UNSURE, (where,), ValueUse("data", each, (each, ())))
    if not alike and project.data:
        readers = {one.text.partition("(")[0] for one in sources if one.kind == "outside"} & READERS
        fields = {_last_field(one.text) for one in sources if one.kind in ("outside", "unknown")}
        found = list(_texts_of_data(text, None if readers else fields, values, readers))
        if found:
            project.consult(asker, EVERY_FILE)
            moves = partial(judge_data, values, role=role, new=place.replaced_by, is_foreign=is_foreign)
            staying = next((each for each in found if moves(each).verdict != YES), None)
            if staying is None:
                return Flow(YES) if readers else None
            way = (Way(values.at(staying).path, values.line(staying)),)
            return Flow(UNSURE, way, ValueUse("data", staying, (staying, ())))
    return Flow(YES) if alike else None


def _texts_of_data(text: str, fields: Set[str] | None, values: Values, readers: Set[str]) -> Iterator[int]:
    """The places of a text in files of data that one of some functions reads, under one of some keys if these are
    given: yaml.load reads no pyproject.toml."""
    for path in sorted(values.project.data):
        if readers and not any(_may_read(each, path) for each in readers):
            continue
        file = values.data_at(path)
        for place in (each for each, one in file.values.items() if one == text):
            if fields is None or any(label in fields for _, kind, label in file.out.get(place, ()) if kind == STORE):
                yield place


def _may_read(reader: str, path: str) -> bool:
    formats = [each for each in _FORMATS if each in reader]
    return not formats or any(path.replace(".yml", ".yaml").endswith(each) for each in formats)


def _last_field(text: str) -> str:
    found = _LAST_FIELD.search(text)
    return f"['{found['key']}']" if found is not None else ""


def _is_argument(place: int, values: Values) -> bool:
    """Return whether a text in a file of data is given to what the file names: below Hydra's `_target_`."""
    return any(kind == ARGUMENT for _, kind, _ in values.at(place).out.get(place, ()))


def _is_changed(place: int, values: Values) -> bool:
    """Return whether a text in a file of data is renamed by its key."""
    file = values.at(place)
    return place - file.first in values.project.data[file.path].changed


class _Judge:
    """Judges a text, which would be replaced by `new`, for the file `asker`."""

    def __init__(
        self, values: Values, role: Role, asker: str, text: str, new: str, is_foreign: Callable[[str], bool]
    ) -> None:
        self.values, self.role, self.is_foreign = values, role, is_foreign
        self.asker, self.text, self.new = asker, text, new

    def of(self, place: int, is_named: bool = False) -> Flow:
        """The verdict of all uses of a value. One that is named as a device is one, unless a use is none of a device by
        any name."""
        uses = self.values.uses(place, self.asker)
        if is_named:
            against = next(filter(self.contradicts, uses), None)
            return Flow(YES) if against is None else Flow(UNSURE, self._way(place, against), against, True)
        verdicts = [(self.of_use(use), use) for use in uses]
        if any(verdict == YES and use.kind == "compared" for verdict, use in verdicts):
            compared = self._texts(*(use.place for use in uses if use.kind == "compared"))
            # A list of something else is that, whatever one of its texts would say; not with "cuda:0" in it.
            if compared & self.role.strangers and among(compared, self.text, self.new, self.role) is None:
                verdicts = [(UNSURE if use.kind == "compared" else verdict, use) for verdict, use in verdicts]
        for wanted in (NO, YES, UNSURE):
            use = next((each for verdict, each in verdicts if verdict == wanted), None)
            if use is not None and (wanted != NO or any(verdict == YES for verdict, _ in verdicts)):
                verdict = UNSURE if wanted == NO else wanted
                is_key = use.kind == "compared" and tables_compared(use.place, self.asker, self.values) is None
                return Flow(verdict, self._way(place, use), use, wanted == NO, is_key)
        return Flow(UNSURE)

    def _way(self, place: int, use: ValueUse) -> tuple[Way, ...]:
        return tuple(self.values.way(place, use))

    def contradicts(self, use: ValueUse) -> bool:
        """Return whether a use is none of a device on the NPU: a library's that knows none, or a comparison with what
        is not renamed with it."""
        callee = use.text.removesuffix("()")
        if use.kind == "argument":
            return callee in self.role.others or self.is_foreign(callee)
        return use.kind == "compared" and self.compared_stays(use.place)

    def compared_stays(self, other: int) -> bool:
        """Return whether what a value is compared with stays as it is: a key that other code reads too, the device in
        capitals, or what the project compares with the NPU as well."""
        tables = tables_compared(other, self.asker, self.values) or []
        if any(stays_in(each, self.text, self.asker, self.values) for each in tables):
            return True
        keys = [key for each in tables for key in looked_up_by(each, self.values)]
        origins = [origin for each in (other, *keys) for origin in self.values.sources(each, self.asker)]
        texts = [self.values.text(each.place) or "" for each in origins if each.kind == "text"]
        is_of_npus = self.new == "npu" and any(compares_with_npu(each, self.values, self.asker) for each in origins)
        return is_of_npus or any(text != self.text and text.lower() == self.text.lower() for text in texts)

    def of_use(self, use: ValueUse) -> str | None:
        """The verdict of one use; None where it says nothing."""
        if use.kind == "argument":
            return YES if self._is_module(use) or self._is_option(use) else self.of_argument(use.text, use.key)
        if use.kind != "compared":
            return UNSURE
        found = self.of_comparison(use.place)
        return found if found in (YES, NO) or self._texts_compared(use.state[0]) != YES else YES

    def _is_module(self, use: ValueUse) -> bool:
        """Return whether a value names PyTorch's module of a device: `getattr(torch, kind)`."""
        if use.key != "1" or use.text not in BY_STRING or "torch.device" not in self.role.callables:
            return False
        file = self.values.at(use.place)
        owner = file.arguments(file.calls[use.place]).get("0", 0)
        return any(one.text == "torch" for one in self.values.sources(owner, self.asker))

    def _is_option(self, use: ValueUse) -> bool:
        """Return whether a value is what an option has by default: `parser.add_argument("--device", default=...)`."""
        if use.key != "default" or use.text.removesuffix("()").rpartition(".")[2] not in FLAGS:
            return False
        given = (file := self.values.at(use.place)).arguments(file.calls[use.place])
        texts = (self.values.text(given.get(key, 0)) or "" for key in ("0", "1", "dest"))
        return any(is_word(text.lstrip("-"), self.role) for text in texts)

    def of_argument(self, text: str, key: str) -> str | None:
        role, last = self.role, text.rpartition(".")[2]
        callee = text.removesuffix("()")
        if callee in role.others:
            return NO
        if callee in role.callables or (last in role.methods and key in ("0", *role.words)):
            return YES
        if key in PROSE_KEYWORDS or speaks(last) or last in HARMLESS or last in EFFECTS:
            return None
        if last in OTHERS or self.is_foreign(callee):
            return NO
        if is_word(key, role):
            return YES
        return YES if key.isdigit() and mentions(last, role) else UNSURE

    def of_comparison(self, other: int) -> str | None:
        """The verdict of what a value is compared with: what has the role by the attribute that it comes from, or is
        used where a device is."""
        tables = tables_compared(other, self.asker, self.values)
        if tables is None:
            return UNSURE
        if self.compared_stays(other):
            return NO
        keys = [key for each in tables for key in looked_up_by(each, self.values)]
        origins = [origin for each in (other, *keys) for origin in self.values.sources(each, self.asker)]
        texts = frozenset(filter(None, (self.values.text(each.place) for each in origins if each.kind == "text")))
        verdict = among(texts, self.text, self.new, self.role)
        if verdict == NO:
            return NO  # the code knows the NPU
        verdicts = {verdict, *(self.of_origin(origin) for origin in origins)}
        if YES not in verdicts:
            whole = (each.place for each in origins if each.text == "?")
            for at in dict.fromkeys([other, *whole]):
                uses = [use for use in self.values.uses(at, self.asker) if use.kind == "argument"]
                verdicts |= {self.of_argument(use.text, use.key) for use in uses} & {YES}
            given = (each.place for each in origins if each.kind == "text" and self._is_given(each.place))
            others = (use for at in given if at != other for use in self.values.uses(at, self.asker))
            verdicts |= {self._texts_compared(*(use.place for use in others if use.kind == "compared"))} & {YES}
        return YES if YES in verdicts else UNSURE if UNSURE in verdicts else None

    def _is_given(self, text: int) -> bool:
        """Return whether a text like this one is given to a function: in code, or by a file that names the function.
        torch.device takes no name in capitals."""
        is_code = self.values.at(text).path not in self.values.project.data
        is_same = self.values.text(text) == self.text == self.text.lower()
        return is_same and (is_code or _is_argument(text, self.values))

    def _texts_compared(self, *others: int) -> str | None:
        """The verdict of the texts of the code that a value is compared with: of "cpu" in `accelerator == "cpu"`."""
        return among(self._texts(*others), self.text, self.new, self.role)

    def _texts(self, *places: int) -> frozenset[str]:
        """The texts of the code that values may be."""
        origins = (each for place in places for each in self.values.sources(place, self.asker))
        found = [each.place for each in origins if each.kind == "text"]
        data = self.values.project.data
        return frozenset(self.values.text(each) or "" for each in found if self.values.at(each).path not in data)

    def of_origin(self, origin: ValueOrigin) -> str | None:
        if origin.kind not in ("outside", "unknown"):
            return None
        owner, _, last = origin.text.removesuffix("()").rpartition(".")
        if owner and (last in self.role.attributes or is_word(last, self.role)):
            return YES
        return UNSURE
