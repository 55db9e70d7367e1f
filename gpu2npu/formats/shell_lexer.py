"""A shell script -> its simple commands, with the exact place of every word.

It reads what bash, zsh and dash have in common: quotes, expansions, substitutions, comments, here-documents,
redirections, `case`. It runs nothing and expands nothing. Control words such as `if` are words of a command like any
other. A script that ends within a quote is read up to there and marked as unclosed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec import Struct

_ENDS_WORD = frozenset(" \t\n;&|()<>")
# After a command: an alternative to it, or a pipe to a program that shows what it reads.
_SHOWN = re.compile(r"\|(?:\||&?\s*(?:tee|cat|less|more|head)\b)")
_DESCRIPTOR = re.compile(r"&[\d-](?=[\s;&|)]|$)")
_PLAIN = re.compile(r"[^\s;&|()<>'\"`\\$]+")
_NAME_AND_EQUALS = re.compile(r"[A-Za-z_]\w*(?:\[[^\]\n]*\])?\+?=")
_IN_BRACES = re.compile(r"[^'\"`\\$}]+")
_IN_DOUBLE = re.compile(r"[^\"`\\$]+")
# $NAME, ${NAME, ${#NAME and ${!NAME, and the commands that test or set a variable by its name.
_READ = re.compile(
    r"(?:\$\{?[#!]?|\[\[?[ \t]+(?:![ \t]+)?-v[ \t]+|\bprintf[ \t]+-v[ \t]+"
    r"|(?:^|[;&|]|\b(?:while|until|if|then|do)[ \t])[ \t]*read[ \t]+(?:-[ers]+[ \t]+)*)(?P<name>[A-Za-z_]\w*)",
    re.MULTILINE,
)
_ARITHMETIC = re.compile(r"\(\((?P<sum>[^\n;'\"]*?)\)\)")
_NAME = re.compile(r"(?<![\w$#{!])(?P<name>[A-Za-z_]\w*)")


class Word(Struct, frozen=True):
    """A word from `start` to `end`, with its quotes. Each part of `quoted` is inside its quote, which comes last."""

    start: int
    end: int
    text: str
    quoted: tuple[tuple[int, int, str], ...] = ()

    def inside(self, start: int) -> tuple[int, int, str]:
        """The place of the word's rest from `start` on, inside its quotes where those are around it all; the quote."""
        for first, last, quote in self.quoted:
            opening = 2 if quote == "$'" else 1
            if first - opening == start and last + 1 == self.end:
                return first, last, quote
        return start, self.end, ""


class Heredoc(Struct, frozen=True):
    """A here-document's text. `raw`: its delimiter is quoted, and nothing is expanded."""

    start: int
    end: int
    raw: bool


@dataclass
class Command:
    """Words up to the end of a simple command. `pattern`: they are a pattern of `case`. `array`: the items of one.
    `piped`: another command makes something of what it writes. `captured`: it is within a substitution."""

    words: list[Word] = field(default_factory=list)
    targets: list[Word] = field(default_factory=list)
    heredocs: list[Heredoc] = field(default_factory=list)
    pattern: bool = False
    array: bool = False
    piped: bool = False
    captured: bool = False


@dataclass
class Script:
    """All commands, those in substitutions too, in no particular order. `dead` are places where nothing expands."""

    commands: list[Command] = field(default_factory=list)
    comments: list[tuple[int, int]] = field(default_factory=list)
    dead: list[tuple[int, int]] = field(default_factory=list)
    unclosed: bool = False


def lex(text: str) -> Script:
    """Read a whole script. Takes time in proportion to its length and fails on nothing."""
    lexer = _Lexer(text)
    while lexer.at < len(text):
        lexer.commands("")
        lexer.at += 1  # a closing parenthesis that nothing opened
    return lexer.script


def unescaped(text: str, characters: str) -> tuple[str, list[int]]:
    """The text without the backslashes before some characters; the places of what is left, and of the end, in it."""
    retained = [match.span() for match in re.finditer(rf"\\[{characters}]|.", text, re.DOTALL)] if characters else []
    if not any(end - start > 1 for start, end in retained):
        return text, list(range(len(text) + 1))
    return "".join(text[end - 1] for _, end in retained), [*(start for start, _ in retained), len(text)]


def variables_in(text: str, script: Script) -> Iterator[re.Match[str]]:
    """Yield where a script expands, reads or tests a variable, with its `name`."""
    dead = sorted(script.dead)
    at = 0
    sums = (name for part in _ARITHMETIC.finditer(text) for name in _NAME.finditer(text, *part.span("sum")))
    for match in sorted([*_READ.finditer(text), *sums], key=re.Match.start):
        while at < len(dead) and dead[at][1] <= match.start("name"):
            at += 1
        if not (at < len(dead) and dead[at][0] <= match.start("name")) and not is_escaped(text, match.start()):
            yield match


def is_escaped(text: str, index: int) -> bool:
    """Return whether an odd number of backslashes is before a character."""
    backslashes = 0
    while backslashes < index and text[index - 1 - backslashes] == "\\":
        backslashes += 1
    return backslashes % 2 == 1


class _Lexer:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.script = Script()
        self.depth = 0
        self.closer = ""  # what ends the commands that are being read
        self.waiting: list[tuple[str, bool, bool, Command]] = []  # here-documents that begin after this line

    def commands(self, closer: str) -> None:
        """Read commands up to an unmatched `closer`, and stop before it."""
        text, size = self.text, len(self.text)
        outer, self.closer = self.closer, closer
        command = Command()
        parentheses = cases = 0
        while self.at < size:
            character = text[self.at]
            if character in " \t\r":
                self.at += 1
            elif text.startswith(("\\\n", "\\\r\n"), self.at):
                self.at = text.index("\n", self.at) + 1
            elif character == "#":
                end = self._line_end()
                self.script.comments.append((self.at, end))
                self.script.dead.append((self.at, end))
                self.at = end
            elif closer == character == "`":
                break
            elif character == "(":
                parentheses += 1
                command = self._ended(command)
                self.at += 1
            elif character == ")":
                if parentheses:
                    parentheses -= 1
                elif cases:
                    command.pattern = True
                else:
                    break
                command = self._ended(command)
                self.at += 1
            elif character in "<>" and not text.startswith(("<(", ">("), self.at):
                self._redirection(command)
            elif text.startswith("&>", self.at):
                self.at += 1
            elif character in "\n;&|":
                command.pattern = bool(cases) and character == "|" and len(command.words) == 1
                command.piped = character == "|" and _SHOWN.match(text, self.at) is None
                command = self._ended(command)
                self.at += 1
                if character == "\n":
                    self._heredocs()
            else:
                word = self._word()
                if not (word.text.isdigit() and text.startswith(("<", ">"), self.at)):
                    command.words.append(word)
                if word.text == "in" and command.words[0].text == "case":
                    cases += 1
                    command = self._ended(command)
                elif word.text == "esac" and cases and len(command.words) == 1:
                    cases -= 1
        self._ended(command)
        self.closer = outer

    def _ended(self, command: Command) -> Command:
        command.captured = bool(self.closer)
        if command.words or command.heredocs:
            self.script.commands.append(command)
        return Command()

    def _line_end(self) -> int:
        end = self.text.find("\n", self.at)
        return len(self.text) if end < 0 else end

    def _redirection(self, command: Command) -> None:
        text = self.text
        if text.startswith("<<", self.at) and not text.startswith("<<<", self.at):
            self.at += 2
            strips = text.startswith("-", self.at)
            self.at += strips
            while text.startswith((" ", "\t"), self.at):
                self.at += 1
            word = self._word()
            raw = any(mark in word.text for mark in "'\"\\")
            self.waiting.append((re.sub(r"['\"\\]", "", word.text), strips, raw, command))
            return
        while text.startswith(("<", ">", "&", "|"), self.at):
            self.at += 1
        if _DESCRIPTOR.match(text, self.at - 1):  # 2>&1 names no file
            self.at += 1
            return
        while text.startswith((" ", "\t"), self.at):
            self.at += 1
        if self.at < len(text) and text[self.at] not in _ENDS_WORD:
            command.targets.append(self._word())

    def _heredocs(self) -> None:
        """The here-documents that begin here; each is its command's, which may have ended before."""
        for delimiter, strips, raw, command in self.waiting:
            start = self.at
            while self.at < len(self.text):
                end = self._line_end()
                line = self.text[self.at : end].rstrip("\r")
                if (line.lstrip("\t") if strips else line) == delimiter:
                    break
                self.at = min(end + 1, len(self.text))
            command.heredocs.append(Heredoc(start, self.at, raw))
            if raw:
                self.script.dead.append((start, self.at))
            self.at = min(self._line_end() + 1, len(self.text))
        self.waiting.clear()

    def _word(self) -> Word:
        text, start = self.text, self.at
        quoted: list[tuple[int, int, str]] = []
        while self.at < len(text):
            character = text[self.at]
            plain = _PLAIN.match(text, self.at)
            if plain:
                self.at = plain.end()
            elif character == "\\":
                self.at = min(self.at + 2, len(text))
            elif character == "'" or text.startswith("$'", self.at):
                quoted.append(self._single())
            elif character == '"' or text.startswith('$"', self.at):
                quoted.append(self._double())
            elif character == self.closer == "`":
                break
            elif character in "$`" or text.startswith(("<(", ">("), self.at):
                self._expansion()
            elif character == "(" and _NAME_AND_EQUALS.fullmatch(text, start, self.at):
                self._array()
            elif character in _ENDS_WORD or character.isspace():
                break
            else:
                self.at += 1
        if self.at == start:
            self.at += 1
        return Word(start, self.at, text[start : self.at], tuple(quoted))

    def _single(self) -> tuple[int, int, str]:
        quote = "$'" if self.text[self.at] == "$" else "'"
        self.at += len(quote)
        start = self.at
        end = self.text.find("'", start)
        while quote == "$'" and end > 0 and is_escaped(self.text, end):
            end = self.text.find("'", end + 1)
        if end < 0:
            self.script.unclosed = True
            end = len(self.text)
        self.at = min(end + 1, len(self.text))
        self.script.dead.append((start, end))
        return start, end, quote

    def _double(self) -> tuple[int, int, str]:
        self.at += 1 if self.text[self.at] == '"' else 2
        start = self.at
        while self.at < len(self.text):
            plain = _IN_DOUBLE.match(self.text, self.at)
            if plain:
                self.at = plain.end()
            elif self.text[self.at] == "\\":
                self.at += 2
            elif self.text[self.at] == '"':
                self.at += 1
                return start, self.at - 1, '"'
            else:
                self._expansion()
        self.at = len(self.text)
        self.script.unclosed = True
        return start, self.at, '"'

    def _expansion(self) -> None:
        """`$name`, `${...}`, `$((...))`, `$(...)`, a backquoted command, `<(...)`."""
        text = self.text
        self.depth += 1
        if self.depth > 50:  # no person nests so deep
            self.script.unclosed = True
            self.at = len(text)
        elif text.startswith("${", self.at):
            self.at += 2
            self._braces()
        elif text.startswith("$((", self.at):
            self.at += 3
            level = 2
            while self.at < len(text) and level:
                level += {"(": 1, ")": -1}.get(text[self.at], 0)
                self.at += 1
        elif text.startswith(("$(", "<(", ">("), self.at):
            self._nested(2, ")")
        elif text[self.at] == "`":
            self._nested(1, "`")
        else:
            self.at += 1
        self.depth -= 1

    def _nested(self, opening: int, closer: str) -> None:
        self.at += opening
        self.commands(closer)
        if self.at >= len(self.text):
            self.script.unclosed = True
        self.at = min(self.at + 1, len(self.text))

    def _braces(self) -> None:
        text = self.text
        while self.at < len(text):
            plain = _IN_BRACES.match(text, self.at)
            if plain:
                self.at = plain.end()
            elif text[self.at] == "}":
                self.at += 1
                return
            elif text[self.at] == "\\":
                self.at += 2
            elif text[self.at] == '"':
                self._double()
            elif text[self.at] == "'":
                self._apostrophe()
            else:
                self._expansion()
        self.at = len(text)
        self.script.unclosed = True

    def _apostrophe(self) -> None:
        """In braces an apostrophe is a quote, but within double quotes it is only itself."""
        end = self.text.find("'", self.at + 1)
        brace = self.text.find("}", self.at)
        self.at = end + 1 if 0 < end < brace else self.at + 1

    def _array(self) -> None:
        """The items of `name=(...)`, as the words of a command of their own."""
        self.at += 1
        items = Command(array=True)
        text = self.text
        while self.at < len(text) and text[self.at] != ")":
            if text[self.at].isspace():
                self.at += 1
            elif text.startswith("\\\n", self.at):
                self.at += 2
            elif text[self.at] == "#":
                end = self._line_end()
                self.script.comments.append((self.at, end))
                self.script.dead.append((self.at, end))
                self.at = end
            else:
                items.words.append(self._word())
        if self.at >= len(text):
            self.script.unclosed = True
        self.at = min(self.at + 1, len(text))
        self._ended(items)


def option_of(text: str, name: str) -> str:
    """The option that each use of a variable is the value of, `--backend $NAME`, but for `NAME=${NAME:-nccl}`."""
    uses = re.findall(rf"(?<!{name}=)(?<!{name}=[\"'])\$(?:{name}\b|{{{name}[}}:])", text)
    options = re.findall(rf"(?<![\w-])(--?[A-Za-z][\w.-]*)(?:=|[ \t]+)[\"']?\$(?:{name}\b|{{{name}[}}:])", text)
    return options[0] if len(options) == len(uses) and len(set(options)) == 1 else name
