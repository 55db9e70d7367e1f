"""Fields on the way of a value: which that are stored may be those that are read, and which argument is for which
parameter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from gpu2npu.python.facts.values import Parameters

Path = tuple[str, ...]
_FEW = 4  # fields that are compared one by one


def bound_to(function: Parameters, key: str, skip: int) -> Iterator[tuple[int, str, Path]]:
    """The parameters that an argument is for, without the first `skip`: the node, the field that the argument is taken
    from, and those that it is put in."""
    positional = function.positional[skip:]
    if key == "*":
        yield from ((node, f"[{index}]", ()) for index, (_, node) in enumerate(positional))
        if function.star:
            yield function.star, "[*]", ("[*]",)
    elif key == "**":
        yield from ((node, f"['{name}']", ()) for name, node in function.positional + function.named)
        if function.stars:
            yield function.stars, "", ()  # under their names
    elif key.isdigit():
        index = int(key)
        if index < len(positional):
            yield positional[index][1], "", ()
        elif function.star:
            yield function.star, "", (f"[{index - len(positional)}]",)
    else:
        named = dict(function.positional + function.named)
        if key in named:
            yield named[key], "", ()
        elif function.stars:
            yield function.stars, "", (f"['{key}']",)


def matches(stored: str, read: str) -> bool:
    """Return whether a field that was stored may be the one that is read."""
    if stored == read:
        return True
    if stored[0] != "[" or read[0] != "[" or read == "[key]":
        return False
    if stored == "[key]":
        return read == "[each]"
    return "[*]" in (stored, read) or (read == "[each]" and stored[1].isdigit())


def alike(edges: Mapping[str, list[int]] | None, field: str, agree: Callable[[str, str], bool]) -> Iterator[int]:
    """The ends of those edges whose field agrees with another: few of many, where that is one element."""
    if not edges:
        return
    if len(edges) < _FEW or (field[0] == "[" and field[1] not in "0123456789'"):
        labels = [label for label in edges if agree(field, label)]
    else:
        known = (field, "[*]", "[each]") if field[0] == "[" else (field,)
        labels = [label for label in known if label in edges and agree(field, label)]
    for label in labels:
        yield from edges[label]


def agreeing(stored: Mapping[str, object], read: str) -> list[str]:
    """The fields under which something is stored that may be the one that is read."""
    if read[0] != "[":  # an attribute is only itself
        return [read] if read in stored else []
    return [label for label in stored if matches(label, read)]


def other_name(field: str, *, is_key: bool) -> str:
    """The attribute under whose name an object has what is under a key, or the key of an attribute; nothing for
    another field."""
    if is_key:
        return f".{field[2:-2]}" if field.startswith("['") else ""
    return f"['{field[1:]}']" if field[0] == "." else ""


def widened(path: Path) -> Path:
    """A path in a sum: which element it is, is not known any longer."""
    return ("[*]", *path[1:]) if path and path[0][1].isdigit() else path
