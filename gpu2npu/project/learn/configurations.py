"""The differences between two versions of a configuration or script, each as the rule that would make it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from difflib import SequenceMatcher

from gpu2npu.formats.dispatch import read_tree
from gpu2npu.formats.kinds import HEAD_BYTES, TREES, FileKind, kind_of
from gpu2npu.formats.nodes import FormatError, Items, Mapping, Node, Scalar
from gpu2npu.formats.settings import has_commands
from gpu2npu.project.learn.meaning import Observed, Sample
from gpu2npu.project.learn.python import VARIABLE

_KEY = re.compile(r"[^.\s*\"'\\]+")
_WORD = re.compile(r"\w+|[^\w\s]|\s+")
_Setting = tuple[tuple[str, ...], str | None, int]


def configuration_differences(path: str, before: str, after: str) -> Iterator[Observed]:
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
    elif isinstance(node, Mapping):
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
