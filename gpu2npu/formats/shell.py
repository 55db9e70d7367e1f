"""Shell scripts, job files of schedulers, and command lines in other files."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from msgspec import Struct

from gpu2npu.engine.knowledge import CommandLine, KeyedValue, Knowledge, SetVariable
from gpu2npu.engine.marks import Mark
from gpu2npu.formats.kinds import is_environment_file
from gpu2npu.formats.marks import moved, only_reported, shifted
from gpu2npu.formats.required_packages import installed
from gpu2npu.formats.shell_lexer import Command, Heredoc, Script, Word, lex, option_of, unescaped, variables_in
from gpu2npu.kinds.string import mention_marks
from gpu2npu.records import Found

_DEFAULT = re.compile(r"\$\{(?P<name>[A-Za-z_]\w*):?[-=](?P<value>[\w:., ]+)\}")
_WHOLE_DEFAULT = re.compile(r"\$\{\w+:?[-=][\"']?(?P<value>[\w:., ]+)[\"']?\}")
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_]\w*)(?:\[[^\]]*\])?\+?=")
# An argument that begins with, or is, a variable's name: `export NAME`, `-e NAME=1`, `ALL,NAME=1`.
_NAMED = re.compile(r"(?:^|(?<=^-[eu])|(?<=[,='\"]))(?P<name>[A-Z][A-Z0-9_]*)(?==|$|[,'\"])")
_OPTION = re.compile(r"(?P<key>(?:--?|\+\+?|~)?[A-Za-z_][\w.\-/@]*)(?P<equals>=)?")
_QUOTED_NAME = re.compile(r"[\"'](?P<name>[A-Z][A-Z0-9_]*)[\"']")
_DIRECTIVE = re.compile(r"#(?P<scheduler>SBATCH|PBS|BSUB)\s")
# A resource request to PBS: `select=1:ngpus=1`.
_RESOURCE = re.compile(r"(?:^|[:,])(?P<name>\w+)=(?P<value>\w+)")
_SCHEDULERS = {"SBATCH": "sbatch", "PBS": "qsub", "BSUB": "bsub"}
# Commands whose options mean the same.
_SAME_OPTIONS = {
    "srun": "sbatch",
    "salloc": "sbatch",
    "podman": "docker",
    "nerdctl": "docker",
    "apptainer": "singularity",
}
# Words before a command; @ and - begin a line of a makefile, whose $(shell ...) runs one.
_CONTROL = frozenset(
    {"if", "then", "else", "elif", "while", "until", "do", "!", "time", "{", "@", "-", "@-", "-@", "shell"}
)
# Programs that run the program that follows.
_WRAPPERS = frozenset(
    {"sudo", "env", "nohup", "exec", "command", "nice", "ionice", "timeout", "watch", "xargs", "stdbuf", "srun",
     "mpirun", "mpiexec", "numactl", "taskset", "strace", "builtin", "setsid", "chrt", "bsub", "pdsh", "tini",
     "dumb-init"}
)  # fmt: skip
_PRINTERS = frozenset({"echo", "printf", "print", "log", "info", "warn", "error", "die", "grep", "egrep", "sed", "awk",
                       "logger", "read", "cat", "tee"})  # fmt: skip
# Programs whose words are names of things of their own.
_BUILDERS = frozenset({"make", "cmake", "ninja", "cd", "mkdir", "ls", "rm", "cp", "mv", "git", "apt", "apt-get", "yum"})
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "ssh", "eval", "sbatch"})
_PYTHON = re.compile(r"(?:.*/)?(?:python|pypy|ipython)[\d.]*|\$[{(]?\w*python\w*(?::-[^}]*)?[})]?", re.IGNORECASE)
_CODE = frozenset({"-c", "-lc", "-ec", "-exc"})
# Options of programs that run another whose value is the next word.
_TAKING = {
    "srun": re.compile(
        r"-[pNnctJoewxAqCGDM]|--(?:partition|nodes|ntasks|ntasks-per-node|cpus-per-task|job-name|output|error|time|account"
        r"|qos|gres|gpus|gpus-per-\w+|mem|mem-per-\w+|nodelist|exclude|constraint|export|jobid|chdir|container-\w+)"
    ),
    "env": re.compile(r"-u|--unset|-C|--chdir"),
    "sudo": re.compile(r"-[ugpCDhRrtT]|--(?:user|group|chdir|host|prompt|role|type)"),
    "mpirun": re.compile(r"-[xHn]|-np|--?(?:host|hostfile|machinefile|bind-to|map-by|rank-by)"),
}
_FINDERS = frozenset({"which", "type", "hash", "whereis"})
_COMPARISONS = frozenset({"=", "==", "!=", "=~"})
_OPERAND = re.compile(r"[\"']?\$\{?(?P<name>\w+)[^\"']*[\"']?")
_SCRIPT_NAME = re.compile(r".*\.(?:sh|bash|zsh|slurm|sbatch|pbs)")
_JOB = re.compile(r"^#SBATCH\s", re.MULTILINE)
_MAX_DEPTH = 6
_IS_PYTHON = "Python code inside a shell script is not migrated: change it by hand, or move it into a .py file."
_IS_TEXT = "The text of a here-document that is not a script is not migrated: change it by hand."


def shell_marks(text: str, knowledge: Knowledge) -> list[Mark]:
    """Return the marks for a script: its edits and findings."""
    return _Reader(text, knowledge, 0, spoken=False).marks()


class _Reader(Struct, frozen=True):
    """Reads one piece of shell. `spoken`: it is text that may only be shown, so that nothing uncertain is reported."""

    text: str
    knowledge: Knowledge
    depth: int
    spoken: bool

    def marks(self) -> list[Mark]:
        script = lex(self.text)
        if script.unclosed:
            return self._unclosed()
        marks = list(self._reads(script))
        subject: str | None = None
        for command in script.commands:
            if not command.pattern:
                subject = _case_subject(command) or subject
            marks += self._case(command, subject) if command.pattern else self._command(command)
        for start, end in script.comments:
            marks += self._directive(start, end)
        return marks

    def _unclosed(self) -> list[Mark]:
        if self.spoken:
            return []
        message = "A quote in this script has no end that gpu2npu can find: migrate the script by hand."
        return mention_marks(self.knowledge.table, self.text, 0, message)

    def _reads(self, script: Script) -> Iterator[Mark]:
        """Variables, wherever they expand, and the defaults that expansions give."""
        for match in variables_in(self.text, script):
            yield from self.knowledge.variable(match["name"], match.start("name"))
            if (default := _DEFAULT.match(self.text, match.start())) is not None:
                yield from self.knowledge.value(default["name"], default["value"], default.start("value"))

    def _command(self, command: Command) -> Iterator[Mark]:
        words = command.words
        if command.array:
            yield from self._arguments(words, None)
            return
        at = yield from self._assignments(words)
        head = words[at] if at < len(words) else None
        if head is not None and head.text.startswith(("-", '"-')) and len(head.text) > 2:  # options in a variable
            yield from self._arguments(words[at:], None)
            head = None
        name = _basename(head) if head is not None else None
        yield from self._wrapped(words[:at])
        for word in words[: at + 1]:  # an image among the options of srun, or in place of the program
            if _ASSIGNMENT.match(word.text) is None:
                yield from self.knowledge.patterns(self._value(word), word.inside(word.start)[0])
        if head is not None and name is not None:
            yield from self._head(head, name, words[at + 1 :], command.piped)
            if name in _PRINTERS and command.targets:  # it writes a file, perhaps a script
                yield from self._arguments(words[at + 1 :], name)
        for heredoc in command.heredocs:
            yield from self._heredoc(heredoc, command, name)

    def _assignments(self, words: Sequence[Word]) -> Generator[Mark, None, int]:
        """The variables set before a command; returns the index of the word that names the command."""
        at = 0
        wrapper: str | None = None
        while at < len(words):
            text = words[at].text
            assigned = _ASSIGNMENT.match(text)
            if assigned is not None:
                yield from self._assignment(words[at], assigned)
            elif text in _CONTROL:
                pass
            elif text == "command" and at + 1 < len(words) and words[at + 1].text in ("-v", "-V"):
                break
            elif _basename(words[at]) in _WRAPPERS:
                wrapper = _basename(words[at])
            elif wrapper is None or not (
                text.startswith("-") or re.fullmatch(r"[\d.]+[smhd]?", text) or _is_taken(words[at - 1], wrapper)
            ):
                break
            at += 1
        return at

    def _assignment(self, word: Word, assigned: re.Match[str]) -> Iterator[Mark]:
        start, end, quote = word.inside(word.start + assigned.end())
        value = self.text[start:end]
        yield from self.knowledge.variable(assigned["name"], word.start, SetVariable(value, start, bare=not quote))
        found = self._given_to(option_of(self.text, assigned["name"]), value, start)
        yield from found
        yield from self.knowledge.patterns(value, start)
        for first, last, mark in [(start, end, quote)] if quote else (each for each in word.quoted if each[0] > start):
            for_command = self.text.startswith("--", first)  # which may come later, also in OPTIONS="--out "$a" --b"
            if for_command or (" " in self.text[first:last] and not found):
                yield from self._within(first, last, mark, self.spoken or not for_command)

    def _wrapped(self, words: Sequence[Word]) -> Iterator[Mark]:
        """The options of programs such as srun that run another."""
        for index, word in enumerate(words):
            yield from self._named(word)
            program = _SAME_OPTIONS.get(_basename(word) or "", _basename(word) or "")
            if program in ("sbatch", "docker"):
                yield from self._options(words[index + 1 :], program)

    def _head(self, head: Word, name: str, arguments: Sequence[Word], piped: bool) -> Iterator[Mark]:
        if not self.spoken:
            at = head.end - len(name) if not head.quoted else head.text.index(name) + head.start
            given = [(self._value(word), word.inside(word.start)[0]) for word in arguments]
            line = CommandLine(name, at, given, is_bare=not arguments and not piped)
            yield from self.knowledge.first(line) or ()
        if name == "echo" and len(arguments) == 1:  # often what a function or a substitution gives
            start = arguments[0].inside(arguments[0].start)[0]
            yield from self._certain(self.knowledge.value("argument", self._value(arguments[0]), start))
        if name in _PRINTERS:
            return
        if name in ("[", "[[", "test"):
            yield from self._comparisons(arguments)
            return
        if name in _FINDERS or (name == "command" and arguments):
            yield from self._sought(arguments)
        program = _SAME_OPTIONS.get(name, name)
        known = list(self._options(arguments, program))
        yield from known
        yield from self._inner(name, arguments)
        if not self.spoken:
            pieces = [(word.inside(word.start)[0], self._value(word)) for word in arguments]
            yield from installed(name, pieces, self.knowledge)
        yield from self._arguments(arguments, name, frozenset(mark.place[0] for mark in known))

    def _named(self, word: Word) -> Iterator[Mark]:
        """The variables that a word names."""
        for named in _NAMED.finditer(word.text):
            at = word.start + named.start("name")
            yield from self.knowledge.variable(named["name"], at, self._given(word, word.start + named.end()))

    def _given(self, word: Word, at: int) -> SetVariable | None:
        """Return the value of a variable whose name ends at `at`, if the word ends with it: `export NAME=value`."""
        if not self.text.startswith("=", at):
            return None
        start, end, quote = word.inside(at + 1)
        inside = word.inside(word.start)
        if not quote and inside[2]:  # -e "NAME=value"
            return SetVariable(self.text[start : inside[1]], start)
        return SetVariable(self.text[start:end], start, bare=not quote)

    def _value(self, word: Word) -> str:
        start, end, _ = word.inside(word.start)
        return self.text[start:end]

    def _arguments(
        self, words: Sequence[Word], name: str | None, known: frozenset[int] = frozenset()
    ) -> Iterator[Mark]:
        """Options with their values, variables that are named, and patterns anywhere. `known` are the places of options
        that a rule for the program has named: no rule for any program is for their values."""
        key: str | None = None
        python = _PYTHON.fullmatch(name or "") is not None
        for word in words:
            yield from self._named(word)
            start, end, quote = word.inside(word.start)
            value = self.text[start:end]
            python = python or _PYTHON.fullmatch(value) is not None
            if python and key in _CODE:
                key = None
                continue
            yield from self.knowledge.patterns(value, start)
            option = _OPTION.match(value)
            if option is not None and option["equals"]:
                start += option.end()
                start, end, quote = word.inside(start) if not quote else (start, end, "")
                value = self.text[start:end]
                if start not in known:
                    yield from self._given_to(option["key"], value, start)
                key = None
            elif option is not None and option["key"].startswith("-") and option.end() == len(value):
                key = option["key"] if start not in known else None
            elif key is not None:
                yield from [] if name in _BUILDERS else self._given_to(key, value, start)
            elif name not in _BUILDERS:
                yield from self._certain(self.knowledge.value("argument", value, start))
            if quote and " " in value and (name not in _SHELLS or start > word.start + 1):
                yield from self._within(start, end, quote, spoken=True)

    def _given_to(self, key: str, value: str, start: int) -> list[Mark]:
        """The marks for what an option is given, or for what it is given where a variable is not set."""
        default = _WHOLE_DEFAULT.fullmatch(value)
        given = (value, start) if default is None else (default["value"], start + default.start("value"))
        return self._certain(self.knowledge.value(key, *given))

    def _certain(self, marks: list[Mark]) -> list[Mark]:
        return [mark for mark in marks if not (self.spoken and isinstance(mark, Found))]

    def _options(self, words: Sequence[Word], program: str) -> Iterator[Mark]:
        """Options that rules know by the program they are for: `--gpus all`, `device=0`."""
        for word in words:
            option = _OPTION.match(word.text)
            if option is None or not (option["key"].startswith("-") or option["equals"]):
                continue
            start, end, _ = word.inside(word.start + option.end())
            value = self.text[start:end] if option["equals"] else None
            place = KeyedValue(option["key"], program, value, start if value is not None else word.start)
            yield from self._certain(self.knowledge.first(place) or [])

    def _inner(self, name: str, arguments: Sequence[Word]) -> Iterator[Mark]:
        """Programs within arguments: `bash -c '...'` is shell again, `python -c '...'` is reported."""
        runs = [name, *(_basename(word) or "" for word in arguments)]
        for index, (flag, word) in enumerate(pairwise(arguments)):
            runner = next((one for one in reversed(runs[: index + 1]) if one in _SHELLS or _PYTHON.fullmatch(one)), "")
            if flag.text not in _CODE:
                continue
            if _PYTHON.fullmatch(runner):
                yield from self._unread(word.start, word.end, _IS_PYTHON)
            elif runner in _SHELLS:
                yield from self._script(word)
        if name in ("ssh", "eval", "sbatch"):
            for word in arguments:
                yield from self._script(word)

    def _script(self, word: Word) -> list[Mark]:
        start, end, quote = word.inside(word.start)
        return self._within(start, end, quote, self.spoken) if quote else []

    def _within(self, start: int, end: int, quote: str, spoken: bool) -> list[Mark]:
        """Return the marks for shell text inside a word in quotes."""
        if self.depth >= _MAX_DEPTH or (quote == "$'" and "\\" in self.text[start:end]):
            return []
        inner, places = unescaped(self.text[start:end], '"$`\\\\' if quote == '"' else "")
        marks = _Reader(inner, self.knowledge, self.depth + 1, spoken).marks()
        return moved(marks, lambda index: start + places[index])

    def _unread(self, start: int, end: int, message: str) -> Iterator[Mark]:
        """Yield the first mention of a device or backend in text that is not shell code."""
        if not self.spoken:
            yield from mention_marks(self.knowledge.table, self.text[start:end], start, message)

    def _heredoc(self, heredoc: Heredoc, command: Command, name: str | None) -> Iterator[Mark]:
        body = self.text[heredoc.start : heredoc.end]
        written = command.words[1:] if name == "tee" else ()
        targets = [self._value(target) for target in (*command.targets, *written)]
        writes_script = any(_SCRIPT_NAME.fullmatch(target) for target in targets)
        gives_variables = any(map(is_environment_file, targets))
        if name in _SHELLS or writes_script or gives_variables or re.match(r"#!.*sh\b", body) or _JOB.search(body):
            inner, places = unescaped(body, "" if heredoc.raw else "$`\\\\")
            knowledge = replace(self.knowledge, own=frozenset()) if gives_variables else self.knowledge
            marks = _Reader(inner, knowledge, self.depth + 1, self.spoken).marks()
            yield from moved(marks, lambda index: heredoc.start + places[index])
        elif name is None or self.spoken or _is_shown(name, command):
            return  # it is only shown
        else:
            is_python = _PYTHON.fullmatch(name) or any(target.endswith(".py") for target in targets)
            message = _IS_PYTHON if is_python else _IS_TEXT
            yield from self._unread(heredoc.start, heredoc.end, message)
            for named in _QUOTED_NAME.finditer(self.text, heredoc.start, heredoc.end):
                for mark in self.knowledge.variable(named["name"], named.start("name")):
                    yield only_reported(mark, mark.place, named["name"], message)

    def _comparisons(self, words: Sequence[Word]) -> Iterator[Mark]:
        """`[ "$DEVICE" = cuda ]`: the variable's name says what the word means."""
        for left, operator, right in zip(words, words[1:], words[2:], strict=False):
            if operator.text not in _COMPARISONS:
                continue
            for operand, other in ((left, right), (right, left)):
                named = _OPERAND.fullmatch(operand.text)
                if named is not None:
                    yield from self._compared(named["name"], other)

    def _compared(self, name: str, word: Word) -> list[Mark]:
        start, end, _ = word.inside(word.start)
        return self._certain(self.knowledge.value(name, self.text[start:end].rstrip("*"), start))

    def _case(self, command: Command, subject: str | None) -> Iterator[Mark]:
        for word in command.words:
            if subject is not None:
                yield from self._compared(subject, word)

    def _sought(self, words: Sequence[Word]) -> Iterator[Mark]:
        """`command -v nvidia-smi`: a program that is looked for, by name alone."""
        for word in words:
            yield from self.knowledge.first(CommandLine(word.text, word.start, None)) or ()

    def _directive(self, start: int, end: int) -> Iterator[Mark]:
        """`#SBATCH --gres=gpu:4`: options of the scheduler that reads the script."""
        directive = _DIRECTIVE.match(self.text, start, end)
        if directive is None or self.spoken:
            return
        inner = lex(self.text[directive.end() : end])
        reader = _Reader(self.text[directive.end() : end], self.knowledge, self.depth, self.spoken)
        for command in inner.commands:
            program = _SCHEDULERS[directive["scheduler"]]
            yield from shifted(reader._options(command.words, program), directive.end())
            for word in command.words:
                for resource in _RESOURCE.finditer(word.text):
                    at = directive.end() + word.start + resource.start("value")
                    place = KeyedValue(resource["name"], program, resource["value"], at)
                    yield from self.knowledge.first(place) or ()
                for named in _NAMED.finditer(word.text):
                    at = directive.end() + word.start + named.start("name")
                    yield from self.knowledge.variable(named["name"], at)


def _basename(word: Word | None) -> str | None:
    """The program that a word runs, without its folder; None where that is only known at run time."""
    if word is None:
        return None
    text = word.text.strip("\"'")
    return text.rpartition("/")[2] or None


def _is_shown(name: str, command: Command) -> bool:
    """Return whether what a command writes is for people: no file, no command and no variable takes it."""
    return name in _PRINTERS and not (command.targets or command.piped or command.captured)


def _is_taken(before: Word, program: str) -> bool:
    """Return whether a word is the value of the option `before` it, which is one of a program that runs another."""
    taking = _TAKING.get({"mpiexec": "mpirun"}.get(program, program))
    return taking is not None and taking.fullmatch(before.text) is not None


def _case_subject(command: Command) -> str | None:
    words = command.words
    if len(words) < 3 or words[0].text != "case":
        return None
    named = _OPERAND.fullmatch(words[1].text)
    return named["name"] if named is not None else None
