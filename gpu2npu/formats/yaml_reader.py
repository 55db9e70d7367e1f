"""YAML as trees with places, one for each document; PyYAML finds the places."""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from gpu2npu.formats.json_reader import unescaped
from gpu2npu.formats.nodes import FormatError, Items, Mapping, Node, Scalar

_ANCHOR = re.compile(r"(?:!\S*\s+)?&(?P<name>[^\s,\[\]{}]+)\s+")
# The end of a line that a folded text goes on after.
_FOLD = re.compile(r"(?<=[^\n])\n(?=\S)")
# A list that aliases give again is the words of a command line, if anything.
_MOST_WORDS = 100


def read_yaml(text: str) -> list[Node]:
    """The documents of a YAML file. Raises FormatError where it is not YAML."""
    import yaml  # type: ignore[import-untyped]

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        composed = list(yaml.compose_all(text, Loader=loader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark is not None else ""
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise FormatError(f"it is not YAML ({where}{problem})") from error
    except (RecursionError, ValueError) as error:
        raise FormatError("it is not YAML that can be read (it is nested too deeply, or not text)") from error
    seen: dict[int, Node] = {}
    return [_converted(node, text, seen) for node in composed if node is not None]


def _converted(node: Any, text: str, seen: dict[int, Node]) -> Node:
    """An alias is the node of its anchor. Only a value and a short list of values are given again, as ones whose text
    is at another place; a mapping is named alone, and an alias within its own node is empty."""
    import yaml

    if id(node) in seen:
        return _taken(seen[id(node)])
    seen[id(node)] = converted = Items(())
    if isinstance(node, yaml.MappingNode):
        entries = [(_converted(key, text, seen), _converted(value, text, seen)) for key, value in node.value]
        seen[id(node)] = mapping = Mapping(tuple((key, value) for key, value in entries if isinstance(key, Scalar)))
        return mapping
    if isinstance(node, yaml.SequenceNode):
        items = tuple(_converted(item, text, seen) for item in node.value)
        seen[id(node)] = converted = Items(items, _anchor(text, node.start_mark.index, node.end_mark.index)[0])
        return converted
    seen[id(node)] = scalar = _scalar(node, text)
    return scalar


def _taken(node: Node) -> Node:
    """Return what an alias of a node gives."""
    if isinstance(node, Scalar) and node.anchor:
        return node
    if isinstance(node, Items) and node.anchor and len(node.items) <= _MOST_WORDS:
        return replace(node, alias=True)
    return Items((), taken=node if isinstance(node, Mapping) else None)


def _anchor(text: str, start: int, end: int) -> tuple[str, int]:
    """Return the anchor by which other places take the node at `start`, or nothing, and where its text begins."""
    anchored = _ANCHOR.match(text, start, end)
    if anchored is None:
        return "", start
    taken = re.search(rf"\*{re.escape(anchored['name'])}(?![^\s,\]}}])", text)
    return anchored["name"] if taken is not None else "", anchored.end()


def _scalar(node: Any, text: str) -> Scalar:
    end = node.end_mark.index
    anchor, start = _anchor(text, node.start_mark.index, end)
    if anchor:
        return Scalar(start, end, node.value, exact=False, anchor=anchor)
    if node.style in ("|", ">"):
        body = text.find("\n", start, end) + 1 or end
        header = text[start:body]
        return _block(text, body, end, folded=node.style == ">", ends="-" not in header)
    if node.style in ("'", '"'):
        start, end = start + 1, end - 1
    if not node.style and not node.tag.endswith(":str"):
        return Scalar(start, end, None, atom=text[start:end])
    if text[start:end] != node.value and node.style == '"':
        value, places = unescaped(text[start:end], start)  # the escapes of JSON are among those of YAML
        return Scalar(start, end, node.value, places, exact=value == node.value)
    return Scalar(start, end, node.value, exact=text[start:end] == node.value)


def _block(text: str, start: int, end: int, *, folded: bool, ends: bool) -> Scalar:
    """A text of several lines, without their indentation: a shell needs the end of a here-document at its margin."""
    indent = re.match(r"(?:[ \t]*\r?\n)*( *)", text[start:end])
    width = len(indent[1]) if indent is not None else 0
    places: list[int] = []
    at = start
    for line in re.findall(r"[^\n]*\n|[^\n]+", text[start:end]):
        margin = min(width, len(line) - len(line.lstrip(" ")))
        places.extend(range(at + margin, at + len(line)))
        at += len(line)
    value = "".join(text[place] for place in places)
    if folded:
        value = _FOLD.sub(" ", value)
    value = value if ends else value.rstrip("\r\n")
    return Scalar(start, end, value, [*places, end], block=True)
