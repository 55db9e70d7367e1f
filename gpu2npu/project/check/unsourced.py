"""Shell scripts that start a training, and in which nothing sources CANN's environment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gpu2npu.formats.kinds import FileKind, kind_of
from gpu2npu.formats.shell_lexer import Command, lex
from gpu2npu.records import PathNote

# What sets CANN's environment, or shows that a script knows of it.
_SOURCED = re.compile(rb"set_?env\.(?:ba)?sh|ASCEND_HOME_PATH|ASCEND_TOOLKIT_HOME")
_LAUNCHERS = frozenset({"torchrun", "deepspeed", "accelerate"})
# Programs that run the program that follows.
_WRAPPERS = frozenset(
    {"nohup", "env", "exec", "sudo", "time", "timeout", "nice", "srun", "mpirun", "numactl", "taskset"}
)
_PYTHON = re.compile(r"(?:\S*/)?python[\d.]*")
_TRAINS = re.compile(r"(?:\S*/)?\w*(?:train|finetune)\w*\.py|torch\.distributed\.(?:run|launch)")
_SET_ENV = "/usr/local/Ascend/ascend-toolkit/set_env.sh"
_SCRIPT_HEAD = 256  # bytes that state the interpreter


def unsourced_scripts(files: Mapping[str, bytes]) -> Iterator[PathNote]:
    """Yield one note about the shell scripts among `files` that start a training without CANN's environment.

    A script that sources another one is left out, unless that is in the project too and does not set it either.
    """
    scripts = {path: source for path, source in files.items() if kind_of(path, source[:_SCRIPT_HEAD]) is FileKind.SHELL}
    found = [path for path, source in sorted(scripts.items()) if _starts_without(source, scripts)]
    if found:
        others = f" (and {len(found) - 1} other scripts)" if len(found) > 1 else ""
        reason = f"starts a training and does not source CANN's environment{others}: add `source {_SET_ENV}`"
        yield PathNote(found[0], reason, failed=False)


def _starts_without(source: bytes, scripts: Mapping[str, bytes]) -> bool:
    if _SOURCED.search(source):
        return False
    commands = lex(source.decode("utf-8", "replace")).commands
    words = [[word.text.strip("\"'") for word in command.words] for command in commands if _is_run(command)]
    if not any(map(_trains, words)):
        return False
    sourced = [line[1].rpartition("/")[2] for line in words if line[0] in ("source", ".") and len(line) > 1]
    others = [content for path, content in scripts.items() if path.rpartition("/")[2] in sourced]
    return len(others) >= len(sourced) and not any(_SOURCED.search(content) for content in others)


def _is_run(command: Command) -> bool:
    return bool(command.words) and not command.pattern and not command.array


def _trains(words: list[str]) -> bool:
    """Return whether a command starts a training: `torchrun`, `python train.py`, also after `nohup` or `A=1`."""
    begin = next((index for index, word in enumerate(words) if "=" not in word), 0)
    if words[begin].rpartition("/")[2] not in (*_LAUNCHERS, *_WRAPPERS) and not _PYTHON.fullmatch(words[begin]):
        return False
    for index, word in enumerate(words):
        if word.rpartition("/")[2] in _LAUNCHERS:
            return True
        if _PYTHON.fullmatch(word):
            return any(_TRAINS.fullmatch(rest) for rest in words[index + 1 :])
    return False
