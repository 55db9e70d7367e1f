"""Dockerfiles: base images, variables, and the shell of their commands."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from gpu2npu.engine.knowledge import Knowledge
from gpu2npu.engine.marks import Mark
from gpu2npu.formats.json_reader import read_json
from gpu2npu.formats.kinds import FileKind, kind_of
from gpu2npu.formats.marks import shifted
from gpu2npu.formats.nodes import FormatError, Items, Scalar
from gpu2npu.formats.settings import settings_marks
from gpu2npu.formats.shell import shell_marks
from gpu2npu.formats.word_lists import words_marks

# An instruction with the lines that continue it; comment lines may be between those.
_INSTRUCTION = re.compile(
    r"^[ \t]*(?P<name>[A-Za-z]+)[ \t]+"
    r"(?P<rest>(?:[^\n\\]|\\(?![ \t]*\r?\n)|\\[ \t]*\r?\n(?:[ \t]*#[^\n]*\n|[ \t]*\n)*)*)",
    re.MULTILINE,
)
# What Docker reads of an instruction before its command: `RUN --mount=type=cache,target=/root`, `HEALTHCHECK CMD`.
_FLAGS = re.compile(r"(?:(?:--[a-z-]+(?:=\S*)?|(?:RUN|CMD|ENTRYPOINT)(?=[ \t]))(?:[ \t]|\\[ \t]*\r?\n)+)+")
_HEREDOC = re.compile(r"<<-?[\"']?(?P<delimiter>\w+)[\"']?")
_CONTINUED = re.compile(r"\\[ \t]*\r?\n(?:[ \t]*#[^\n]*\n|[ \t]*\n)*")
# What Docker takes for a backslash where the first lines say so.
_BACKTICK = re.compile(r"(?:#[^\n]*\n)*#[ \t]*escape[ \t]*=[ \t]*`", re.IGNORECASE)
_BACKTICK_END = re.compile(r"`(?=[ \t]*\r?$)", re.MULTILINE)
_STAGE = re.compile(r"--\S+")
_COMMENT = re.compile(r"^[ \t]*#[^\n]*", re.MULTILINE)
_READ = re.compile(r"\$\{?(?P<name>[A-Za-z_]\w*)")
_SHELL = frozenset({"RUN", "CMD", "ENTRYPOINT", "HEALTHCHECK", "ONBUILD"})
_PROGRAM = ("ENTRYPOINT", "CMD")


def dockerfile_marks(text: str, knowledge: Knowledge) -> list[Mark]:
    """Return the marks for a Dockerfile: its edits and findings."""
    marks: list[Mark] = []
    program: dict[str, tuple[Scalar, ...]] = {}  # the words of what a container of this stage runs
    inherited: list[tuple[Scalar, ...]] = []
    stages: dict[str, dict[str, tuple[Scalar, ...]]] = {}
    if _BACKTICK.match(text) is not None:
        text = _BACKTICK_END.sub(r"\\", text)
    for name, rest, start in _instructions(text):
        words = _listed(rest, start) if name in _SHELL else None
        if words is None:
            marks += _instruction(name, rest, start, knowledge)
        else:
            marks += settings_marks(Items(words), knowledge)
        if name in _PROGRAM and words is not None:
            if name == "ENTRYPOINT" and program.get("CMD") in inherited:  # Docker forgets it
                program.pop("CMD")
            program[name] = words
        elif words is not None:
            marks += words_marks(words, knowledge)
        if name == "FROM":
            marks += _program_marks(program, knowledge)
            base, _, stage = _STAGE.sub("", rest).strip().lower().partition(" as ")
            program = dict(stages.get(base.strip(), {}))
            inherited = [*program.values()]
            stages[stage.strip()] = program
    return marks + _program_marks(program, knowledge)


def _program_marks(program: dict[str, tuple[Scalar, ...]], knowledge: Knowledge) -> list[Mark]:
    """Return the marks for what a stage runs, where that is given as lists: CMD goes on with ENTRYPOINT."""
    return words_marks([word for name in _PROGRAM for word in program.get(name, ())], knowledge)


def _instructions(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield the instructions: name, what follows it without the flags of Docker, and where that is."""
    at = 0
    while (match := _INSTRUCTION.search(text, at)) is not None:
        at = match.end()
        name, start, end = match["name"].upper(), match.start("rest"), match.end()
        heredoc = _HEREDOC.search(match["rest"])
        if heredoc is not None and name in ("RUN", "COPY"):
            closing = re.compile(rf"^{heredoc['delimiter']}\r?$", re.MULTILINE).search(text, end)
            end = at = closing.end() if closing is not None else len(text)
        flags = _FLAGS.match(text, start, end) if name in _SHELL else None
        start = flags.end() if flags is not None else start
        yield name, text[start:end], start


def _listed(rest: str, start: int) -> tuple[Scalar, ...] | None:
    """The words of `CMD ["python", "train.py"]`, whose list is at `start`; None where there is no list."""
    if not rest.startswith("["):
        return None
    line = _CONTINUED.sub(lambda match: " " * len(match[0]), rest)
    with contextlib.suppress(FormatError):
        node = read_json(" " * start + line)
        if isinstance(node, Items):
            return tuple(item for item in node.items if isinstance(item, Scalar))
    return None


def _instruction(name: str, rest: str, start: int, knowledge: Knowledge) -> Iterator[Mark]:
    script = _HEREDOC.match(rest)
    if name == "COPY" and script is not None:  # its text is a file, which the end of the first line names
        target, body = rest.partition("\n")[0].split()[-1], rest.find("\n") + 1
        if kind_of(target) is FileKind.SHELL:
            yield from shifted(shell_marks(rest[body : rest.rfind("\n") + 1], knowledge), start + body)
    if name == "RUN" and script is not None:  # its text is a shell script, or what its first line says
        body = rest.find("\n") + 1
        if not rest.startswith("#!", body) or re.match(r"#!.*sh\b", rest[body:]):
            yield from shifted(shell_marks(rest[body : rest.rfind("\n") + 1], knowledge), start + body)
        return
    if name in _SHELL:
        yield from shifted(shell_marks(_without_comments(rest), knowledge), start)
        return
    if name in ("ENV", "ARG"):
        yield from shifted(_variables(rest, knowledge), start)
    for match in _READ.finditer(rest):
        yield from knowledge.variable(match["name"], start + match.start("name"))
    yield from knowledge.patterns(rest, start)


def _without_comments(rest: str) -> str:
    """The shell text that Docker hands on, of the same length: a comment line is followed by more of the command."""
    first = rest.find("\n")
    if first < 0 or _HEREDOC.search(rest) is not None:
        return rest
    blanked = _COMMENT.sub(lambda match: " " * (len(match[0]) - 1) + "\\", rest[first:])
    return rest[:first] + blanked


def _variables(rest: str, knowledge: Knowledge) -> Iterator[Mark]:
    """`ENV NAME=value NAME2=value2`, or the old `ENV NAME value`."""
    old = re.match(r"(?P<name>[A-Za-z_]\w*)[ \t]+(?P<value>[^\s=]\S*)\s*$", rest)
    if old is not None:
        yield from knowledge.variable(old["name"], 0)
        yield from knowledge.value(old["name"], old["value"], old.start("value"))
        return
    yield from shell_marks(rest, knowledge)
    for match in re.finditer(r"^(?P<name>[A-Za-z_]\w*)\s*$", rest):  # ARG NAME
        yield from knowledge.variable(match["name"], match.start("name"))
