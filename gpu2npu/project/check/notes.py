"""The notes of a report: words for rules, the plugin of a package that is checked itself, scripts without CANN."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from gpu2npu.distributions import normalised
from gpu2npu.formats.kinds import HEAD_BYTES, FileKind, kind_of
from gpu2npu.formats.shell_lexer import Command, lex
from gpu2npu.project.cache.store import Store, file_digests, name_of
from gpu2npu.project.config import project_name
from gpu2npu.project.errors import UsageError
from gpu2npu.records import PathNote
from gpu2npu.report.check.result import RuleNote

if TYPE_CHECKING:
    from gpu2npu.rulebook.rule import Rule


class RuleNotes(Struct, frozen=True):
    """The notes on rules by their ids, and a sentence for each distribution that a plugin brings to Ascend."""

    rules: Mapping[str, RuleNote]
    plugins: dict[str, str]


class _Notes(Mapping[str, RuleNote]):
    """The notes on rules, each written when it is asked for."""

    def __init__(self, rules: Iterable[Rule], others: Mapping[str, str]) -> None:
        self._rules = {rule.id: rule for rule in rules}
        self._others = others

    def __getitem__(self, name: str) -> RuleNote:
        from gpu2npu.rulebook.reference import page_of, section_of

        rule = self._rules.get(name)
        if rule is None:
            return RuleNote(name, self._others[name], "api-facts.md")
        return RuleNote(rule.id, rule.why, page_of(rule), section_of(rule))

    def __iter__(self) -> Iterator[str]:
        return iter(self._others.keys() | self._rules.keys())

    def __len__(self) -> int:
        return len(self._others.keys() | self._rules.keys())


def rule_notes(rules: tuple[Path, ...], store: Store | None = None) -> RuleNotes:
    """The notes on all rules that a check may report: those in rule files of the user's, the built-in
    ones, and those in code. They are stored, since loading rules imports the engine.

    Raises UsageError if a rule file cannot be used.
    """
    if store is None:
        return _loaded(rules)
    try:
        name = name_of("rules", [str(file) for file in rules], file_digests(rules))
    except OSError:  # loading them says what is wrong
        return _loaded(rules)
    notes = store.find(name, RuleNotes)
    if notes is None:
        loaded = _loaded(rules)
        notes = RuleNotes(dict(loaded.rules), loaded.plugins)
        store.put({name: notes})
    return notes


def _loaded(files: tuple[Path, ...]) -> RuleNotes:
    from gpu2npu.rulebook.in_code import WHY
    from gpu2npu.rulebook.load import load_rulebook
    from gpu2npu.rulebook.rule import RuleError

    try:
        rules = load_rulebook(files).rules
    except RuleError as error:
        raise UsageError(str(error)) from error
    return RuleNotes(_Notes(rules, WHY), plugins(rules))


def plugins(rules: Iterable[Rule]) -> dict[str, str]:
    """The sentences about plugins that rules for packages name, by the normalised names of the distributions."""
    from gpu2npu.kinds.import_ import ImportMatch

    return {
        normalised(name): f"{name} runs on Ascend beside its plugin {rule.then.plugin}: install both ({rule.source})."
        for rule in rules
        if rule.then.plugin is not None and isinstance(rule.match, ImportMatch)
        for name in rule.match.distributions
    }


_INSTALLED = re.compile(r"(?P<name>[\w.]+?)-[^-]+\.dist-info")


def plugin_note(root: Path, plugins: Mapping[str, str]) -> str:
    """The sentence about the plugin of the package that a folder is, an unpacked wheel or its sources; "" for none.

    `plugins` has the sentences by the normalised names of distributions.
    """
    unpacked = (_INSTALLED.fullmatch(each.name) for each in root.glob("*.dist-info"))
    called = (project_name(root), *(match["name"] for match in unpacked if match is not None))
    return next((plugins[name] for name in map(normalised, called) if name in plugins), "")


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


def unsourced_scripts(files: Mapping[str, bytes]) -> Iterator[PathNote]:
    """Yield one note about the shell scripts among `files` that start a training without CANN's environment.

    A script that sources another one is left out, unless that is in the project too and does not set it either.
    """
    scripts = {path: source for path, source in files.items() if kind_of(path, source[:HEAD_BYTES]) is FileKind.SHELL}
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
