"""YAML as trees with places, one for each document; PyYAML finds the places."""

from __future__ import annotations

import re
from typing import Any

from gpu2npu.formats.json_reader import unescaped
from gpu2npu.formats.nodes import FormatError, Items, Mapping, Node, Scalar

_ANCHOR = re.compile(r"(?:!\S*\s+)?&(?P<name>[^\s,\[\]{}]+)\s+")


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
    """An alias is the node of its anchor: it is converted once, and empty where it lies within itself."""
    import yaml

    if id(node) in seen:
        return Items(())
    seen[id(node)] = Items(())
    if isinstance(node, yaml.MappingNode):
        entries = [(_converted(key, text, seen), _converted(value, text, seen)) for key, value in node.value]
        return Mapping(tuple((key, value) for key, value in entries if isinstance(key, Scalar)))
    if isinstance(node, yaml.SequenceNode):
        return Items(tuple(_converted(item, text, seen) for item in node.value))
    return _scalar(node, text)


def _scalar(node: Any, text: str) -> Scalar:
    start, end = node.start_mark.index, node.end_mark.index
    anchored = _ANCHOR.match(text, start, end)
    if anchored is not None:
        start = anchored.end()
        if re.search(rf"\*{re.escape(anchored['name'])}(?![^\s,\]}}])", text) is not None:
            return Scalar(start, end, getattr(node, "value", None), exact=False, anchor=anchored["name"])
    if node.style in ("|", ">"):
        body = text.find("\n", start, end) + 1 or end
        return _block(text, body, end)
    if node.style in ("'", '"'):
        start, end = start + 1, end - 1
    if not node.style and not node.tag.endswith(":str"):
        return Scalar(start, end, None, atom=text[start:end])
    if text[start:end] != node.value and node.style == '"':
        value, places = unescaped(text[start:end], start)  # the escapes of JSON are among those of YAML
        return Scalar(start, end, node.value, places, exact=value == node.value)
    return Scalar(start, end, node.value, exact=text[start:end] == node.value)


def _block(text: str, start: int, end: int) -> Scalar:
    """A text of several lines, without their indentation: a shell needs the end of a here-document at its margin."""
    indent = re.match(r"(?:[ \t]*\r?\n)*( *)", text[start:end])
    width = len(indent[1]) if indent is not None else 0
    places: list[int] = []
    at = start
    for line in re.findall(r"[^\n]*\n|[^\n]+", text[start:end]):
        margin = min(width, len(line) - len(line.lstrip(" ")))
        places.extend(range(at + margin, at + len(line)))
        at += len(line)
    return Scalar(start, end, "".join(text[place] for place in places), [*places, end], block=True)
