"""Command lines whose words a configuration lists one by one: `command: [torchrun, train.py]`, `CMD ["python"]`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from gpu2npu.engine.knowledge import Knowledge
from gpu2npu.engine.marks import Mark
from gpu2npu.formats.marks import moved, reported_at
from gpu2npu.formats.nodes import Items, Mapping, Node, Scalar
from gpu2npu.formats.shell import shell_marks
from gpu2npu.records import Edit

# Keys under which a list is the words of one command line.
CONTAINER_KEYS = ("postcreatecommand", "poststartcommand", "postattachcommand", "oncreatecommand",
                  "updatecontentcommand", "initializecommand")  # fmt: skip
WORD_KEYS = ("command", "args", "entrypoint", "cmd", "entry", *CONTAINER_KEYS)
_PLAIN = re.compile(r"[\w@%+=:,./-]+")
_NO_WORD = "Its command line is a list of words, and this is not one word: change it by hand."


def command_lines(node: Mapping) -> dict[str, Sequence[Scalar]]:
    """The words of the command lines that a mapping lists, by the key of the first. In Kubernetes `args` go on with
    `command`, in Docker Compose that with `entrypoint`."""
    values = {(key.value or "").lower(): value for key, value in node.entries}
    lines = {key: words for key in WORD_KEYS if key != "args" and (words := listed_words(values.get(key)))}
    program = _program(values.get("command"))
    if program and _is_word(values.get("type"), "process"):  # a task of VS Code that no shell reads
        lines["command"] = program
    checks = values.get("test")  # how Docker Compose asks whether a container is well
    if isinstance(checks, Items) and checks.items and _is_word(checks.items[0], "CMD"):
        lines["test"] = _scalars(checks)[1:]
    for first, second in (("command", "args"), ("entrypoint", "command")):
        further = _scalars(values.get(second))
        program = lines.get(first) or _program(values.get(first))
        if program and further:
            lines.pop(second, None)
            lines[first] = [*program, *further]
    return lines


def listed_words(node: Node | None) -> Sequence[Scalar]:
    """The words of a command line that a node lists; none where it lists something else, such as whole commands."""
    words = _scalars(node)
    return words if words and len(_text(words[0]).split()) == 1 else ()


def words_marks(words: Iterable[Scalar], knowledge: Knowledge) -> list[Mark]:
    """Return the marks for a command line by its words: those of a script that quotes them."""
    text, places, of_words = "", list[int](), list[Scalar]()
    for word in words:
        written, offsets = _quoted(_text(word))
        text += f"{written} "
        places += [word.place(offset) if word.exact else word.start for offset in offsets]
        of_words += [word] * len(offsets)
    places += places[-1:]
    marks = list[Mark]()
    for mark in shell_marks(text, knowledge):
        word = of_words[mark.place[0]]
        if not word.exact:
            marks.append(reported_at(word, mark))
        elif isinstance(mark, Edit) and not _fits(mark, text, _text(word)):
            marks.append(reported_at(word, mark, _NO_WORD))
        else:
            marks += moved([mark], places.__getitem__)
    return marks


def _scalars(node: Node | None) -> Sequence[Scalar]:
    if not isinstance(node, Items):
        return ()
    scalars = [item for item in node.items if isinstance(item, Scalar)]
    if node.anchor:
        scalars = [replace(word, exact=False, anchor=node.anchor) for word in scalars]
    return scalars if len(scalars) == len(node.items) else ()


def _program(node: Node | None) -> Sequence[Scalar]:
    """A program that is named by a string beside the list of its arguments, as in tasks of VS Code."""
    return [node] if isinstance(node, Scalar) and _PLAIN.fullmatch(_text(node)) else ()


def _is_word(node: Node | None, word: str) -> bool:
    return isinstance(node, Scalar) and node.value == word


def _text(word: Scalar) -> str:
    return word.atom if word.value is None else word.value


def _quoted(text: str) -> tuple[str, list[int]]:
    """Return a word as a script has it, and the offset in `text` of each of its characters and of a blank after it."""
    offsets = range(len(text) + 1)
    if _PLAIN.fullmatch(text):
        return text, [*offsets]
    if "'" not in text:
        return f"'{text}'", [0, *offsets, len(text)]
    escaped = [(at, one) for at in offsets[:-1] for one in (f"\\{text[at]}" if text[at] in '"$`\\' else text[at])]
    written = "".join(one for _, one in escaped)
    return f'"{written}"', [0, *(at for at, _ in escaped), len(text), len(text)]


def _fits(edit: Edit, text: str, word: str) -> bool:
    """Return whether an edit writes nothing that would end the word or its quotes; a word with blanks is a script."""
    new, old = "".join(map(str, edit.pieces)), text[slice(*edit.place)]
    endings = "'\"\\\n" if " " in word else "'\"\\\n "
    return bool(old or " " in word) and all(new.count(each) <= old.count(each) for each in endings)
