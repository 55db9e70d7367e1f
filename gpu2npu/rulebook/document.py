"""The JSON of a rule file that anyone may have written, read with limits, so that no file can do harm; its schema: the
published file with the matches that the kinds have; and a rule file to start from for each kind."""

from __future__ import annotations

import json
import stat
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from gpu2npu.builtin_rules import SCHEMA_NAME, schema_path
from gpu2npu.rulebook.match import kinds
from gpu2npu.rulebook.rule import RuleError

MAX_BYTES = 4 * 1024 * 1024  # all built-in rules together are a hundredth of it

JSON_TYPES = {
    "string": "a text", "integer": "an integer", "boolean": "true or false", "array": "a list", "object": "an object"
}  # fmt: skip
_PYTHON_TYPES = {str: "string", int: "integer", bool: "boolean", list: "array", dict: "object"}


def type_name(value: object) -> str:
    """The type of a JSON value in a sentence."""
    name = _PYTHON_TYPES.get(type(value))
    return JSON_TYPES[name] if name is not None else "null" if value is None else "a number"


def read_document(path: Path) -> Any:
    """The value that a JSON file holds. Raises RuleError: it is not an ordinary file of at most MAX_BYTES, or not
    UTF-8, or not JSON with each key once in its object."""
    data = _read_bytes(path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RuleError(f"{path}: is not UTF-8 (byte {error.start}); save the rule file as UTF-8.") from error
    try:
        document = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
        json.dumps(document, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise RuleError(f"{path}:{error.lineno}:{error.colno}: is not JSON ({error.msg}).") from error
    except _RepeatedKeyError as error:
        where = _second_line(text, error.key)
        raise RuleError(
            f"{path}{where}: the key '{error.key}' appears twice in one object; keep one of them."
        ) from error
    except UnicodeEncodeError as error:
        raise RuleError(
            f"{path}: a text has half of a surrogate pair (\\ud800 to \\udfff), which is not a character."
        ) from error
    except RecursionError as error:
        raise RuleError(f"{path}: is nested too deeply for a rule file.") from error
    except ValueError as error:  # numbers that are none, or of more digits than Python converts
        raise RuleError(f"{path}: has a number that cannot be used ({error}).") from error
    return document


def _read_bytes(path: Path) -> bytes:
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise RuleError(f"{path}: is a folder; give the path of a JSON rule file.")
        if not stat.S_ISREG(status.st_mode):  # a pipe would block, a device might never end
            raise RuleError(f"{path}: is not an ordinary file; give the path of a JSON rule file.")
        if status.st_size > MAX_BYTES:
            size, limit = status.st_size / 2**20, MAX_BYTES // 2**20
            raise RuleError(f"{path}: is too large for a rule file ({size:.1f} MiB; the limit is {limit} MiB).")
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)[:MAX_BYTES]
    except OSError as error:
        raise RuleError(f"{path}: cannot be read ({error.strerror}); give the path of a JSON rule file.") from error
    except ValueError as error:
        if isinstance(error, RuleError):
            raise
        raise RuleError(f"{str(path)!r}: cannot be read ({error}); give the path of a JSON rule file.") from error


class _RepeatedKeyError(ValueError):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _RepeatedKeyError(key)
        found[key] = value
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _second_line(text: str, key: str) -> str:
    """The line of the key's second appearance, where it has just two: else which one is meant is not known."""
    spelled = f"{json.dumps(key, ensure_ascii=False)}:"
    lines = [number for number, line in enumerate(text.split("\n"), 1) if spelled in line.replace(" ", "")]
    return f":{lines[1]}" if len(lines) == 2 else ""


_COMMENT = [
    "A rule file of gpu2npu. JSON has no comments: what is under $comment is for readers.",
    "Try it with `gpu2npu rules test FILE`, use it with `gpu2npu -i SRC -o OUT -v VERSION -r FILE`.",
    "Change the rule below into yours: what it matches, what then happens, why, and examples that prove it.",
]


@cache
def schema() -> dict[str, Any]:
    """The schema with the shape of every kind of match."""
    loaded: dict[str, Any] = json.loads(schema_path().read_text(encoding="utf-8"))
    loaded["$defs"]["match"] = {"oneOf": [kind.schema() for kind in kinds().values()]}
    return loaded


def schema_text() -> str:
    """The text of the published file, rules/rule.schema.json."""
    return _text(schema())


def starter(rule_id: str, kind: str) -> str:
    """The text of a rule file with one rule of a kind of match, whose examples pass."""
    rule = {"id": rule_id, **kinds()[kind].starter}
    return _text({"$schema": f"./{SCHEMA_NAME}", "$comment": _COMMENT, "rules": [rule]})


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
