"""The meaning of the keys and values of a configuration, whatever format it is written in."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence, Set

from gpu2npu.engine import ProjectContext, migrate_python
from gpu2npu.engine.knowledge import CommandLine, KeyedValue, Knowledge, SettingValue, SetVariable
from gpu2npu.engine.marks import Mark
from gpu2npu.engine.strings.value_effects import values_of
from gpu2npu.formats.marks import placed, reported_at, shifted
from gpu2npu.formats.nodes import Items, Mapping, Node, Scalar, scalars
from gpu2npu.formats.shell import shell_marks
from gpu2npu.formats.word_lists import CONTAINER_KEYS, WORD_KEYS, command_lines, listed_words, words_marks
from gpu2npu.kinds.string import data_marks as text_marks
from gpu2npu.python.facts.value_names import Nodes
from gpu2npu.python.facts.values import (
    ARGUMENT,
    INHERIT,
    LOAD,
    NOTHING,
    STORE,
    Called,
    DataValues,
    Taken,
    Text,
)
from gpu2npu.python.text.edits import Edited
from gpu2npu.python.text.offsets import Lines
from gpu2npu.python.text.templates import plain
from gpu2npu.records import Bounds, Edit, FindingKind, Found, Severity
from gpu2npu.rulebook.rule import Rulebook

# Keys under which a string is a command line.
_COMMANDS = frozenset(
    {"run", "script", "scripts", "command", "commands", "cmd", "entrypoint", "before_script", "after_script", "setup",
     "shell", "commands_pre", "commands_post", "install_command", "entry", "before_install", *CONTAINER_KEYS}
)  # fmt: skip
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
_SETTING = re.compile(r"(?P<key>(?:--?|\+\+?|~)?[A-Za-z_][\w.\-/@]*)=(?P<value>.*)", re.DOTALL)
# What tox hands on and sets: `CUDA_VISIBLE_DEVICES, NCCL_*` and `NAME = value`.
_TOX = {
    **dict.fromkeys(("passenv", "pass_env"), re.compile(r"\b[A-Z][A-Z0-9_]*\b(?!\*)")),
    **dict.fromkeys(("setenv", "set_env"), re.compile(r"^[A-Z][A-Z0-9_]*(?=[ \t]+=)")),
}
_OPTION = re.compile(r"--?[A-Za-z][\w-]*")
# Variables in a text that some program expands: $NAME, ${NAME, ${oc.env:NAME, ${{ env.NAME.
_READ = re.compile(r"\$(?:\{?(?:oc\.env:|(?:local|container)?[eE]nv:|env\.)?|\{\{\s*env\.)(?P<name>[A-Z][A-Z0-9_]*)\b")
# What is taken where a variable is not set: ${oc.env:DEVICE,cuda}, ${DEVICE:-cuda}.
# And what a resolver gets: ${pick:cuda}.
_DEFAULT = re.compile(r"\$\{(?:oc\.)?(?:(?:env|select):)?[\w.]+(?:,\s*|:-?|-)[\"']?(?P<value>[\w:.]+)[\"']?\}")
# What the expressions of MONAI's bundles name without importing it. In `"$torch.device('cuda:0')"` the dollar begins
# Python, `@` refers to another entry and `%` to its text: https://docs.monai.io/en/stable/config_syntax.html
_PRELUDE = "import torch\nimport torch.distributed as dist\nimport torch.nn as nn\nimport torch_npu\n"
# What a resolver of OmegaConf gets, which may be Python: ${eval:"4 if torch.cuda.is_available() else 0"}.
_RESOLVED = re.compile(r"""\$\{[\w.]+:\s*(?P<quote>["']?)(?P<code>.+)(?P=quote)\s*\}""", re.DOTALL)
_CALL = re.compile(r"\btorch\.(cuda\.\w+|device)\(|\.cuda\(")
# The names of Python that PyYAML's unsafe loader takes: !!python/name:torch.cuda.empty_cache.
_TAG = re.compile(r"!!python/[\w/]+:(?P<name>torch\.cuda(?:\.\w+)+)")
_QUOTED = "Its new code has quotes, which this text is in: change it by hand."
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")
# Keys with the name of a class or a function, and those with its keyword arguments, as CompVis' repositories and
# Lightning's CLI have them; Hydra's `_target_` has them beside itself.
_TARGETS = {"target": "params", "class_path": "init_args"}
_SIGN = re.compile(r"[@%](?=[\w#:])|(?<=\w)#(?=\w)|(?<=[@\w])::(?=\w)")


def settings_marks(root: Node, knowledge: Knowledge) -> list[Mark]:
    """Return the marks for a configuration: its edits and findings."""
    marks = list(_marks(root, (), knowledge))
    edited = {(mark.rule, mark.place) for mark in marks if isinstance(mark, Edit)}
    # A value that is read twice, as what an alias gives is, is not reported where one reading changes it.
    return [mark for mark in marks if isinstance(mark, Edit) or (mark.rule, mark.place) not in edited]


def _marks(node: Node, keys: tuple[str, ...], knowledge: Knowledge) -> Iterator[Mark]:
    if isinstance(node, Mapping):
        named = _named_variable(node)
        lines = command_lines(node)
        for words in lines.values():
            yield from words_marks(words, knowledge)
        for key, value in node.entries:
            name = key.value or ""
            if named is not None and name == "value":  # Kubernetes: {name: DEVICE, value: cuda}
                yield from _marks(value, (*keys, named), knowledge)
                continue
            yield from _variable_marks(key, value, knowledge)
            if not isinstance(value, Scalar) or value.value is None:
                yield from _option_marks(key, (*keys, name), value, knowledge)
            if isinstance(value, Scalar) and value.value and value in lines.get(name.lower(), ()):  # it is one word
                found = _value_marks(value.value, (*keys, name), frozenset(), knowledge, value.block, runs=False)
                yield from placed(value, found)
            else:
                yield from _marks(value, (*keys, name), knowledge)
    elif isinstance(node, Items):
        words = listed_words(node) if keys and keys[-1].lower() in WORD_KEYS else ()
        yield from _item_marks(node, keys, knowledge, words) if not node.alias else ()
    elif node.value:
        found = _value_marks(node.value, keys, frozenset(), knowledge, node.block, has_commands(keys))
        yield from placed(node, found)


def has_commands(keys: Sequence[str]) -> bool:
    """Return whether a value below some keys is a command line."""
    return any(key.lower() in _COMMANDS for key in keys[-2:]) or keys[-1:] == ("CMD-SHELL",)


def _named_variable(node: Mapping) -> str | None:
    """The environment variable that a mapping of a name and a value sets."""
    entries = {key.value: value for key, value in node.entries}
    name = entries.get("name")
    if set(entries) != {"name", "value"} or not isinstance(name, Scalar) or not name.value:
        return None
    return name.value if _VARIABLE.fullmatch(name.value) else None


def _variable_marks(key: Scalar, value: Node, knowledge: Knowledge) -> Iterator[Mark]:
    """Yield the marks for a key that may be an environment variable, and for its value."""
    name = key.value or ""
    if not _VARIABLE.fullmatch(name):
        yield from placed(key, knowledge.patterns(name, 0))
        return
    is_set = isinstance(value, Scalar) and value.exact and key.exact and bool(value.value)
    # A value beyond the name, so that its mark can be distinguished from that of the name.
    given = SetVariable(value.value or "", len(name)) if is_set and isinstance(value, Scalar) else None
    for mark in knowledge.variable(name, 0, given):
        if given is not None and isinstance(value, Scalar) and mark.place[0] == given.start:
            yield from placed(value, shifted([mark], -given.start))
        else:
            yield from placed(key, [mark])


def _option_marks(key: Scalar, keys: tuple[str, ...], value: Node, knowledge: Knowledge) -> list[Mark]:
    """Settings that a rule knows by their key alone, with a value that is not a string: `cudnn_benchmark: true`."""
    if not isinstance(value, Scalar):
        return []
    places = SettingValue(keys, None, 0, value.atom), KeyedValue(keys[-1], "*", None, 0)
    known = next(filter(None, map(knowledge.first, places)), ())
    return placed(key, [mark for mark in known if isinstance(mark, Found)])


def _item_marks(node: Items, keys: tuple[str, ...], knowledge: Knowledge, words: Sequence[Scalar]) -> Iterator[Mark]:
    """Values beside each other, of which one may be an option and the next its argument: `[--device, cuda]`. They may
    be the `words` of one command line."""
    strings = frozenset(item.value for item in node.items if isinstance(item, Scalar) and item.value)
    option: str | None = None
    for item in words or node.items:
        if not isinstance(item, Scalar):
            inner = listed_words(item) if has_commands(keys) else ()  # commands = [["pytest", "-q"]]
            yield from words_marks(inner, knowledge)
            yield from (
                _item_marks(Items(tuple(inner)), keys, knowledge, inner) if inner else _marks(item, keys, knowledge)
            )
            option = None
        elif item.value:
            under = (*keys, option) if option is not None else keys
            runs = has_commands(under) and not words
            yield from placed(item, _value_marks(item.value, under, strings, knowledge, item.block, runs))
            option = item.value if _OPTION.fullmatch(item.value) or item.value == "CMD-SHELL" else None


def _value_marks(
    value: str, keys: tuple[str, ...], others: Set[str], knowledge: Knowledge, block: bool, runs: bool
) -> list[Mark]:
    key = keys[-1] if keys else None
    known = knowledge.first(SettingValue(keys, value, 0))
    if known is not None:
        return known
    if runs and (block or " " in value or knowledge.first(CommandLine(value, 0, ())) is not None):
        return shell_marks(value, knowledge)
    marks = knowledge.variable(value, 0) if _VARIABLE.fullmatch(value) else []
    if not marks and key in _TOX:
        marks = [mark for name in _TOX[key].finditer(value) for mark in knowledge.variable(name[0], name.start())]
    if marks:
        return marks
    for match in _READ.finditer(value):
        marks += knowledge.variable(match["name"], match.start("name"))
    setting = _SETTING.fullmatch(value)
    if setting is not None:
        name, start = setting["key"], setting.start("value")
        if _VARIABLE.fullmatch(name):
            marks += knowledge.variable(name, 0, SetVariable(setting["value"], start))
        marks += knowledge.value(name, setting["value"], start)
    elif not block:
        default = _DEFAULT.fullmatch(value)
        text, start = (value, 0) if default is None else (default["value"], default.start("value"))
        found = knowledge.first(SettingValue(keys, text, start)) if default is not None else None
        marks += knowledge.value(key, text, start, others) if found is None else found
    return marks + knowledge.patterns(value, 0)


def expression_marks(roots: Iterable[Node], rulebook: Rulebook, context: ProjectContext) -> Iterator[Mark]:
    """The edits and findings of the Python in a configuration, from its trees."""
    for scalar in (each for root in roots for each in scalars(root)):
        code, start = _python(scalar.value or "")
        if code and scalar.exact:
            whole = scalar.place(0), scalar.place(len(scalar.value or ""))
            yield from _python_marks(code, start, scalar.place, whole, rulebook, context)
        elif code:
            found = _python_marks(code, start, int, (scalar.start, scalar.end), rulebook, context)
            yield from (reported_at(scalar, mark) for mark in found)


def tag_marks(text: str, rulebook: Rulebook, context: ProjectContext) -> Iterator[Mark]:
    """The edits and findings of the names of Python in the tags of YAML's text."""
    for tag in _TAG.finditer(text):
        yield from _python_marks(tag["name"], tag.start("name"), int, tag.span("name"), rulebook, context)


def _python(value: str) -> tuple[str, int]:
    """The Python of a text, and where it begins there: what is behind a dollar, with `@device` as `_device`, and
    what asks torch.cuda, also by a resolver; nothing of any other text."""
    if value.startswith("$") and not value.startswith("${"):
        return _SIGN.sub(lambda sign: "_" * len(sign[0]), value[1:]), 1
    resolved = _RESOLVED.fullmatch(value)
    code, start = (resolved["code"], resolved.start("code")) if resolved is not None else (value, 0)
    return (code, start) if _CALL.search(code) is not None else ("", 0)


def _python_marks(
    code: str, start: int, place: Callable[[int], int], whole: Bounds, rulebook: Rulebook, context: ProjectContext
) -> Iterator[Mark]:
    """The marks of code from `start` of a text on, whose place in the file is `place`; findings are at the `whole`."""
    source = _PRELUDE + code.strip()
    result, written = migrate_python(source, "expression.py", rulebook, context)
    shift = start + len(code) - len(code.lstrip()) - len(_PRELUDE)
    edited = written if written is None or isinstance(written, Edited) else written.edited
    for node in edited.nodes if edited is not None else ():
        assert edited is not None
        if node.start < len(_PRELUDE):
            continue
        old, new = source[node.start : node.end], edited.new(node)
        inside = int(old[:1] == new[:1] == '"')  # quotes around a text stay as the file has them
        new = new[inside : len(new) - inside]
        if {'"', "\\", "\n"}.isdisjoint(new):
            at = place(node.start + inside + shift), place(node.end - inside + shift)
            yield Edit(at, plain(new), node.edit.rule, node.edit.message)
        else:
            yield Found(
                whole, node.edit.rule, FindingKind.REVIEW, old, f"{node.edit.message} {_QUOTED}", Severity.CHANGE
            )
    for finding in result.findings:
        yield Found(whole, finding.rule, finding.kind, finding.api, finding.message, finding.severity)


# What programs read of a configuration is renamed in both, or in neither.


def data_values(roots: Sequence[Node], text: str, marks: Sequence[Mark]) -> DataValues:
    """The values of a configuration by its trees, and those that marks change."""
    walk = _Tree(Lines.of(text))
    root = walk.node(roots[0]) if len(roots) == 1 else walk.items(roots)
    changed = sorted(mark.place[0] for mark in marks if isinstance(mark, Edit))
    spans = ((one.node, one.column, one.column + len(one.value or "") + 1) for one in walk.texts)
    moved = frozenset(node for node, start, end in spans if bisect_left(changed, start) < bisect_left(changed, end))
    return DataValues(walk.facts(), root, moved, frozenset(walk.fixed))


class _Tree(Nodes):
    """Walks a configuration for its values."""

    def __init__(self, lines: Lines) -> None:
        super().__init__(())
        self.source = lines
        self.fixed: set[int] = set()
        self.holders: dict[int, int] = {}  # of mappings and items, which YAML may have at several places

    def store(self, value: int, holder: int, *fields: str) -> None:
        for field in fields:
            self.edge(value, STORE, holder, field)

    def node(self, node: Node, target: str | None = None) -> int:
        """Return the place of a node. A mapping may be the keyword arguments of what `target` names."""
        if isinstance(node, Scalar):
            return self.scalar(node)
        if isinstance(node, Items):
            return self.items(node.items) if node.taken is None else self.node(node.taken)
        if id(node) in self.holders:
            return self.holders[id(node)]
        self.holders[id(node)] = holder = self.container()
        texts = {key.value: value.value for key, value in node.entries if isinstance(value, Scalar)}
        targets = {arguments: texts.get(name) for name, arguments in _TARGETS.items()}
        given: list[tuple[str, int]] = []
        for key, value in node.entries:
            if key.atom == "<<":  # https://yaml.org/type/merge.html
                for one in value.items if isinstance(value, Items) and value.taken is None else (value,):
                    self.edge(self.node(one), INHERIT, holder)
                continue
            each, name = self.node(value, targets.get(key.value or "")), key.value or key.atom
            given.append((name, each))
            self.store(self.scalar(key), holder, "[key]")
            self.store(each, holder, f"[{name!r}]", *([f".{name}"] if name.isidentifier() else []))
        self.call(texts.get("_target_") or target or "", given)
        return holder

    def call(self, target: str, given: Sequence[tuple[str, int]]) -> None:
        """Call what the dotted name of a class or a function means, as programs do with what they read."""
        module, _, name = target.rpartition(".")
        if not (module and _NAME.fullmatch(target)):
            return
        callee, result = self.new(), self.new()
        self.imports.append(Taken(callee, module, name))
        self.calls.append(Called(result, callee, NOTHING, name, 0, 0, 0))
        self.edge(callee, LOAD, result, "()")
        for key, value in given:
            self.edge(value, ARGUMENT, result, key)

    def items(self, items: Sequence[Node]) -> int:
        if items and id(items) in self.holders:
            return self.holders[id(items)]
        self.holders[id(items)] = holder = self.container()
        for index, each in enumerate(items):
            self.store(self.node(each), holder, f"[{index}]")
        return holder

    def scalar(self, scalar: Scalar) -> int:
        self.line = self.source.span(scalar.start, scalar.start).start_line
        node = self.new()
        if scalar.value is not None:
            text = scalar.value.rstrip("\n") if scalar.block else scalar.value  # programs strip it to use it
            self.texts.append(Text(node, text, self.line, scalar.start))
            self.fixed |= set() if scalar.exact else {node}
            if name := _NAME.fullmatch(_python(text)[0].strip()):
                self.outside.setdefault(name[0], self.new())
                self.store(self.outside[name[0]], node, "()")  # what the code in it gives
        elif scalar.atom.lower() in ("true", "false"):
            self.numbers[node] = scalar.atom.lower() == "true"
        self.line = 0
        return node


def data_marks(roots: Sequence[Node], path: str, knowledge: Knowledge, context: ProjectContext) -> Iterator[Mark]:
    """The edits of texts and keys that programs read and use as a device, and the findings of those that they use so
    among others, or that stay because of a use whatever their keys say."""
    values = values_of(context.project)
    file = values.data_at(path)
    places: dict[int, list[int]] = {}  # several of a text that YAML has under another name too
    for one in file.facts.texts:
        places.setdefault(one.column, []).append(file.first + one.node)
    for scalar, siblings in {each[0].start: each for root in roots for each in _texts(root)}.values():
        at = places.get(scalar.start, ())
        marks = [mark for place in at for mark in text_marks(knowledge.table, values, place, siblings)]
        yield from placed(scalar, [each for each in marks if not isinstance(each, Edit)][:1] or marks[:1])


def _texts(node: Node) -> Iterator[tuple[Scalar, frozenset[str]]]:
    """The texts of a tree and its keys, with those beside them."""
    if isinstance(node, Mapping):
        keys = frozenset(key.value for key, _ in node.entries if key.value)
        for key, value in node.entries:
            yield key, keys
            yield from ((value, frozenset()),) if isinstance(value, Scalar) else _texts(value)
    elif isinstance(node, Items):
        siblings = frozenset(each.value for each in node.items if isinstance(each, Scalar) and each.value)
        for each in node.items:
            yield from ((each, siblings),) if isinstance(each, Scalar) else _texts(each)
