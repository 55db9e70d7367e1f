"""Packages that Python code asks pip or conda to install, and those that a setup.py requires.

What it runs is read as far as the file shows: `subprocess.run([sys.executable, "-m", "pip", "install", name])` with
what a name was assigned, what a loop visits, and what the file's own calls hand to a parameter.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from gpu2npu.engine.knowledge import Knowledge
from gpu2npu.engine.marks import Mark, merged
from gpu2npu.engine.skips import find_skips
from gpu2npu.engine.strings.value_effects import values_of
from gpu2npu.formats.required_packages import installed, npu_findings, requirement, requirement_marks
from gpu2npu.formats.shell_lexer import lex
from gpu2npu.python.facts.values import ARGUMENT
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.project.project import Project
from gpu2npu.python.text.source import SourceFile
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import last_name, string_value
from gpu2npu.python.tree.syntax_tree import TreeError
from gpu2npu.records import Finding, Found

_RUNNERS = frozenset(
    {"os.system", "os.popen", "subprocess.run", "subprocess.call", "subprocess.check_call", "subprocess.check_output",
     "subprocess.Popen", "subprocess.getoutput", "subprocess.getstatusoutput"}
)  # fmt: skip
# pip's own entry points, whose list of arguments follows the name of the program.
_PIP = frozenset({"pip.main", "pip._internal.main", "pip._internal.cli.main.main"})
_NOTEBOOK = frozenset({"system", "getoutput", "run_line_magic"})  # of get_ipython()
_SETUP = frozenset({"setuptools.setup", "distutils.core.setup"})
_REQUIRED = ("install_requires", "extras_require", "setup_requires", "tests_require")
_PROGRAM = re.compile(r"(?:.*/)?(pip[\d.]*|uv|conda|mamba|micromamba)")
# Each begins with a text, which is searched for many times as fast as a choice of several.
_SPELLED = (rb"install(?<!\winstall)\b", rb"_requires?\b", rb"Popen(?<!\wPopen)\b")

_Word = tuple[int, str]  # the offset of a word in the file, and its text


def may_install(source: bytes) -> bool:
    """Return whether a Python file may install packages, judged by its bytes."""
    is_named = b"setup" in source or b"pip" in source or b"conda" in source
    return is_named and any(re.search(each, source) is not None for each in _SPELLED)


def install_findings(source: SourceFile, project: Project, knowledge: Knowledge) -> tuple[Finding, ...]:
    """The findings about what a file's code installs: packages for CUDA, and pins that fit no torch-npu. There are none
    in code that cannot be parsed."""
    try:
        names = Names.of(source, project)
    except TreeError:
        return ()
    file, installs = names.file, _Installs(names, knowledge)
    skips = find_skips(file.text)
    found = [
        mark.at(file.lines.span(*mark.place))
        for node, scope in file.uses
        if isinstance(node, ast.Call)
        for mark in installs.of_call(node, scope)
        if isinstance(mark, Found)
    ]
    return merged(each for each in found if not skips.covers(each.rule, each.span.start_line, each.span.end_line))


class _Installs:
    """Reads the calls of one file."""

    def __init__(self, names: Names, knowledge: Knowledge) -> None:
        self.names = names
        self.knowledge = knowledge
        self.values = values_of(names.project)

    @cached_property
    def strings(self) -> dict[int, ast.expr]:
        """The strings of the file by their places in its values."""
        kinds = self.names.file.unordered()
        texts = (text for kind in (ast.Constant, ast.JoinedStr) for text in kinds.get(kind, ()))
        places = ((self.values.place_of(self.names, text.lineno, text.col_offset), text) for text in texts)
        return {place: text for place, text in places if place is not None}

    def of_call(self, call: ast.Call, scope: Scope) -> Iterator[Mark]:
        """Yield the marks for what one call installs or requires."""
        qualified = self.names.qualified(call.func, scope) or ""
        if qualified in _SETUP:
            yield from self._required(call)
            return
        magic = _is_notebook_call(call)
        if not (magic or qualified in _RUNNERS or qualified in _PIP):
            return
        given = [place for key, place in self._arguments(call) if key in ("0", "args", "cmd", "command") or magic]
        words = [word for place in given for word in self._words(place)]
        if qualified in _PIP:
            words.insert(0, (0, "pip"))
        for command in _commands(words):
            yield from _installed(command, self.knowledge)

    def _arguments(self, call: ast.Call) -> list[tuple[str, int]]:
        """The arguments of a call by their position or name."""
        file, place = self.values.file_of(self.names), self.values.call_at(self.names, call)
        given = file.into.get(place, ()) if file is not None else ()
        return [(key, source) for source, kind, key in given if kind == ARGUMENT]

    def _required(self, call: ast.Call) -> Iterator[Mark]:
        written = dict(self._arguments(call))
        for option in _REQUIRED:
            words = dict(self._given(call, option))
            words.update(self._words(written[option]) if option in written else ())
            found = [one for start, text in sorted(words.items()) if (one := requirement(text, start))]
            for required in found:
                yield from requirement_marks(required, self.knowledge)
            if option == "install_requires":
                yield from npu_findings(found, self.knowledge)

    def _given(self, call: ast.Call, option: str) -> Iterator[_Word]:
        """Yield the strings of the file that come to an option of a call, in whatever holds them on the way."""
        path = self.names.path
        inside = ("[*]", "[*]") if option == "extras_require" else ("[*]",)
        taken = [
            (source, inside if label == option else (f"['{option}']", *inside))
            for label, source in self._arguments(call)
            if label in (option, "**")
        ]
        for origin in (each for source, fields in taken for each in self.values.sources(source, path, fields)):
            if origin.kind == "text" and origin.place in self.strings:
                yield self._text(self.strings[origin.place])

    def _words(self, place: int) -> list[_Word]:
        """The strings of the file that a value is made of, each with its place; a command as a whole is one of them."""
        with self.values.near(self.names.path):
            made_of = self.values.made_of(place, has_elements=True)
        return [self._text(self.strings[each]) for each in made_of if each in self.strings]

    def _text(self, node: ast.expr) -> _Word:
        """The text of a string as it is written, so that offsets hold, without what is between its pieces."""
        file = self.names.file
        start, end = file.bounds(node)
        value = string_value(node)
        written = file.text[start:end]
        if value is not None and value in written:  # nothing is escaped
            return start + written.index(value), value
        opening = re.match(r"[A-Za-z]*(?:\"\"\"|'''|\"|')", written)
        first = opening.end() if opening is not None else 0
        return start + first, re.sub(
            r"[\"']\s*[A-Za-z]?[\"']|\\?[\r\n]", lambda gap: " " * len(gap[0]), written[first:-1]
        )


def _is_notebook_call(call: ast.Call) -> bool:
    """Return whether IPython runs a line: `get_ipython().system("...")`."""
    function = call.func
    return (
        isinstance(function, ast.Attribute)
        and function.attr in _NOTEBOOK
        and isinstance(function.value, ast.Call)
        and last_name(function.value.func) == "get_ipython"
    )


def _commands(words: Sequence[_Word]) -> Iterator[list[_Word]]:
    """Yield the words of each command: those of a list are one, a word that is a command line may be several."""
    further = [word for word in words if " " not in word[1].strip()]
    if not any(" " in text.strip() for _, text in words):
        yield further
        return
    for start, text in words:
        if " " in text.strip():
            for command in lex(text).commands:
                # Beside it: the value of a name in it, which it installs too, and the name of a magic.
                line = [(start + word.start, word.text.strip("\"'")) for word in command.words]
                yield [*further, *line, *further]


def _installed(words: Sequence[_Word], knowledge: Knowledge) -> Iterator[Mark]:
    for index, (_, word) in enumerate(words):
        program = _PROGRAM.fullmatch(word)
        if program is not None:
            yield from installed(program[1], words[index + 1 :], knowledge)
            return
