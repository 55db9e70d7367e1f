"""Learning rules from a project before and after a migration by hand, and counting what they leave of it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gpu2npu.engine import without_own
from gpu2npu.engine.torch_library import torch_project
from gpu2npu.formats.dispatch import read_tree
from gpu2npu.formats.kinds import HEAD_BYTES, TREES, FileKind, kind_of
from gpu2npu.formats.nodes import FormatError, Items, Node, Scalar
from gpu2npu.formats.nodes import Mapping as MappingNode
from gpu2npu.formats.settings import has_commands
from gpu2npu.project.errors import UsageError
from gpu2npu.project.learn.meaning import Observed, Sample
from gpu2npu.project.learn.proposals import Proposal, candidates, with_examples, with_proposals
from gpu2npu.project.learn.python import VARIABLE, python_differences
from gpu2npu.project.migration import preview_project
from gpu2npu.project.migrator import Migrator
from gpu2npu.project.session import Session
from gpu2npu.project.settings import Settings
from gpu2npu.project.tree.discovery import discover
from gpu2npu.project.tree.mirror import read_files
from gpu2npu.python.project.project import Project
from gpu2npu.rulebook import Rulebook, load_rulebook

_UNOWNED = frozenset({"string", "method", "attribute"})  # kinds that match whatever object or file it is
_KEY = re.compile(r"[^.\s*\"'\\]+")
_WORD = re.compile(r"\w+|[^\w\s]|\s+")
_Setting = tuple[tuple[str, ...], str | None, int]


class Learned(Struct, frozen=True):
    """The rules that are proposed, and what they come to.

    `by_hand` is the number of lines in which the two versions differ, `without` how many of them the rules that were
    there before leave. `left` are the places where the result with the proposed rules and the version after differ,
    `unpaired` the files that only one version has,
    `unread` the Python files that cannot be parsed in one of them.
    """

    proposals: tuple[Proposal, ...]
    by_hand: int
    without: int
    left: tuple[LineDifference, ...]
    unpaired: tuple[str, ...]
    unread: tuple[str, ...]


def learn_rules(before: Path, after: Path, version: str, known: Sequence[Path] = ()) -> Learned:
    """Propose rules for what a migration by hand made of a project, beside the built-in ones and those of some files.

    A rule is proposed only if without it more lines differ from the version after, and one for a string or a member of
    whatever object only if it changes nothing that was left as it is by hand. Raises UsageError: a folder cannot be
    read. Raises RuleError: a known rule file cannot be used.
    """
    old, new = _texts(before), _texts(after)
    known_rules = load_rulebook(known)
    settings = Settings(version, jobs=1)
    before_model, after_model = _model(old), _model(new)
    without = differences(migrated(before, settings, old, known_rules), new)
    found = list(candidates(_observed(old, new, before_model, after_model), known_rules)) if without else []
    found = [each for each in found if _is_not_against(before, settings, old, new, each, known_rules)]
    proposals = with_examples(found, known_rules, version)
    retained = with_examples(_of_use(before, settings, old, new, proposals, known_rules), known_rules, version)
    left = differences(migrated(before, settings, old, with_proposals(known_rules, retained)), new)
    unpaired = tuple(sorted(old.keys() ^ new.keys()))
    unread = tuple(
        path
        for path in sorted(old.keys() & new.keys())
        if path.endswith(".py") and None in (before_model.names(path), after_model.names(path))
    )
    return Learned(retained, amount(differences(old, new)), amount(without), tuple(left), unpaired, unread)


def _of_use(
    source: Path, settings: Settings, old: Texts, new: Texts, proposals: Sequence[Proposal], known: Rulebook
) -> Sequence[Proposal]:
    """The proposals without which more lines differ from the version after; tested from the last to the first."""
    result = migrated(source, settings, old, with_proposals(known, proposals))
    unconcerned = tuple(path for path, text in result.items() if old[path] == text == new.get(path))
    settings = replace(settings, exclude=unconcerned)
    least = amount(differences(result, new))
    for proposal in reversed(proposals):
        others = [each for each in proposals if each is not proposal]
        differing = amount(differences(migrated(source, settings, old, with_proposals(known, others)), new))
        if differing <= least:
            least, proposals = differing, others
    return proposals


def _is_not_against(
    source: Path, settings: Settings, old: Texts, new: Texts, proposal: Proposal, known: Rulebook
) -> bool:
    """Return whether a proposal names its owner, or changes no line that already is as in the version after."""
    if proposal.rule.match.key not in _UNOWNED:
        return True
    without, with_it = (
        Counter(
            (each.path, line)
            for each in differences(migrated(source, settings, old, rulebook), new)
            for line in each.after
        )
        for rulebook in (known, with_proposals(known, [proposal]))
    )
    return not with_it - without


def _texts(folder: Path) -> dict[str, str]:
    """The files of a project that rules are for, as texts."""
    if not folder.is_dir():
        raise UsageError(f"'{folder}' is not a folder; give those of the project before and after its migration.")
    tree = discover(folder)
    contents, _ = read_files(folder, (*tree.python, *tree.others))
    texts = {}
    for path, content in contents.items():
        if kind_of(path, content[:HEAD_BYTES]) is not None:
            try:
                texts[path] = content.decode()
            except UnicodeDecodeError:
                continue
    return texts


def _model(texts: Texts) -> Project:
    return torch_project({path: text.encode() for path, text in texts.items()})


def _observed(old: Texts, new: Texts, before: Project, after: Project) -> Iterator[Observed]:
    for path in sorted(old.keys() & new.keys()):
        if path.endswith(".py"):
            names, others = before.names(path), after.names(path)
            if names is not None and others is not None:
                yield from python_differences(names, others)
        elif old[path] != new[path]:
            yield from _configuration_differences(path, old[path], new[path])


Texts = Mapping[str, str]


class LineDifference(Struct, frozen=True):
    """Lines of one file that differ: its path, the first line (from 1) of `before`, and both texts."""

    path: str
    line: int
    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def lines(self) -> int:
        """The number of lines that differ, of both."""
        return len(self.before) + len(self.after)


def differences(before: Texts, after: Texts) -> list[LineDifference]:
    """The lines in which the files that two versions have differ; one quote is as good as the other."""
    found = []
    for path in sorted(before.keys() & after.keys()):
        if before[path] == after[path]:
            continue
        old, new = before[path].splitlines(), after[path].splitlines()
        matcher = SequenceMatcher(None, list(map(_unquoted, old)), list(map(_unquoted, new)), autojunk=False)
        for tag, start, end, new_start, new_end in matcher.get_opcodes():
            if tag != "equal":
                found.append(LineDifference(path, start + 1, tuple(old[start:end]), tuple(new[new_start:new_end])))
    return found


def _unquoted(line: str) -> str:
    return line.replace("'", '"')


def amount(found: Sequence[LineDifference]) -> int:
    """The number of lines in all."""
    return sum(each.lines for each in found)


def migrated(source: Path, settings: Settings, before: Texts, rulebook: Rulebook) -> Texts:
    """The texts that the rules of a rulebook make of a project; the settings name none."""

    def prepare(session: Session) -> Migrator:
        root, codemods = session.location.root, replace(settings.codemods, excluded=session.excluded)
        own = without_own(rulebook, session.python, root.name)
        return Migrator.of(own, settings.release, root, session.python, codemods)

    outcome = preview_project(source, settings, prepare=prepare).outcome
    contents = {file.path: file.content for file in outcome.files if file.content is not None}
    return {path: contents[path].decode() if path in contents else text for path, text in before.items()}


def _configuration_differences(path: str, before: str, after: str) -> Iterator[Observed]:
    """Every difference that a rule could make, by where it is in the version before."""
    kind = kind_of(path, before.encode()[:HEAD_BYTES])
    if kind in TREES:
        try:
            yield from _settings(path, before, after, kind)
        except FormatError:
            return
    elif kind is not None:
        yield from _variables(path, before, after)


def _settings(path: str, before: str, after: str, kind: FileKind) -> Iterator[Observed]:
    """Settings that have another value."""
    old, new = (list(_flat(Items(tuple(read_tree(text, kind))), ())) for text in (before, after))
    matcher = SequenceMatcher(None, [keys for keys, *_ in old], [keys for keys, *_ in new], autojunk=False)
    pairs = [
        (old[block.a + index], new[block.b + index])
        for block in matcher.get_matching_blocks()
        for index in range(block.size)
    ]
    for (keys, value, start), (_, target, _) in pairs:
        is_command = " " in (value or "") and has_commands(keys)
        if value and target and value != target and keys and all(map(_KEY.fullmatch, keys)) and not is_command:
            line = before.count("\n", 0, start) + 1
            match = {"setting": ".".join(keys), "values": [value]}
            yield Observed(match, {"rename": target}, path, line, (_sample(keys, value),))


def _flat(node: Node, keys: tuple[str, ...]) -> Iterator[_Setting]:
    """Each value with its keys and its place; lists are passed through."""
    if isinstance(node, Scalar):
        yield keys, node.value, node.start
    elif isinstance(node, Items):
        for item in node.items:
            yield from _flat(item, keys)
    elif isinstance(node, MappingNode):
        for key, value in node.entries:
            yield from _flat(value, (*keys, key.value or ""))


def _sample(keys: tuple[str, ...], value: str) -> Sample:
    lines = [f"{'  ' * depth}{key}:\n" for depth, key in enumerate(keys)]
    shown = value if re.fullmatch(r"[A-Za-z_][\w-]*", value) else json.dumps(value)
    return Sample("conf.yaml", "".join(lines)[:-1] + f" {shown}\n")


def _variables(path: str, before: str, after: str) -> Iterator[Observed]:
    """Environment variables that have another name, in lines that are the same but for words."""
    old, new = before.splitlines(), after.splitlines()
    for tag, start, end, new_start, new_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "replace" or end - start != new_end - new_start:
            continue
        for index in range(end - start):
            words, others = _WORD.findall(old[start + index]), _WORD.findall(new[new_start + index])
            for word, other in zip(words, others, strict=True) if len(words) == len(others) else ():
                if word != other and VARIABLE.fullmatch(word) and VARIABLE.fullmatch(other):
                    sample = Sample("run.sh", f"export {word}=1\n")
                    yield Observed({"environment": word}, {"rename": other}, path, start + index + 1, (sample,))
