"""Rule files -> Rulebook. Every error names the file, the JSON path and the reason."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from gpu2npu.records import FindingKind
from gpu2npu.rulebook.rule import (
    ArgumentMatch,
    AttributeMatch,
    CallMatch,
    CommandMatch,
    EnvironmentMatch,
    Example,
    ImportMatch,
    Match,
    MethodMatch,
    NameMatch,
    PatternMatch,
    Report,
    Role,
    Rule,
    Rulebook,
    StringMatch,
    Then,
    Where,
)

SCHEMA_NAME = "rule.schema.json"


class RuleError(ValueError):
    """A rule file cannot be used; the text is one sentence for the user."""


def builtin_rules_dir() -> Path:
    """The folder of the built-in rules: inside an installed wheel, or `rules/` of the checkout."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "rules"
    return installed if installed.is_dir() else package.parent / "rules"


@cache
def schema() -> dict[str, Any]:
    """The published JSON Schema of rule files."""
    loaded: dict[str, Any] = json.loads((builtin_rules_dir() / SCHEMA_NAME).read_text(encoding="utf-8"))
    return loaded


def load_rulebook(user_files: Sequence[Path] = ()) -> Rulebook:
    """The user's rule files, in the order given, then the built-in ones.

    Raises:
        RuleError: A file cannot be read, is not JSON, does not fit the schema, or repeats a rule's id.
    """
    documents = [(path, _read_user_file(path)) for path in user_files]
    # The built-in files are checked against the schema by the tests, not on every run: importing jsonschema
    # takes longer than migrating a small project.
    built_in = sorted(path for path in builtin_rules_dir().glob("*.json") if path.name != SCHEMA_NAME)
    documents += [(path, json.loads(path.read_text(encoding="utf-8"))) for path in built_in]
    rules: list[Rule] = []
    roles: dict[str, Role] = {}
    seen: dict[str, Path] = {}
    for path, document in documents:
        for index, entry in enumerate(document.get("rules", ())):
            if entry["id"] in seen:
                where = f"also in {seen[entry['id']]}"
                raise RuleError(f"{path}: $.rules[{index}].id: '{entry['id']}' is taken ({where}); choose another id.")
            seen[entry["id"]] = path
            rules.append(_rule(entry, builtin=path.parent == builtin_rules_dir()))
        for name, entry in document.get("roles", {}).items():
            role = _role(entry)
            roles[name] = _merge(roles[name], role) if name in roles else role
    _check_roles(documents, roles)
    return Rulebook(tuple(rules), roles)


def _read_user_file(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise RuleError(f"{path}: cannot be read ({error.strerror}); give the path of a JSON rule file.") from error
    except UnicodeDecodeError as error:
        raise RuleError(f"{path}: is not UTF-8 (byte {error.start}); save the rule file as UTF-8.") from error
    except json.JSONDecodeError as error:
        raise RuleError(f"{path}:{error.lineno}:{error.colno}: is not JSON ({error.msg}).") from error
    check_document(document, path)
    checked: dict[str, Any] = document
    return checked


def check_document(document: object, path: Path) -> None:
    """Check a parsed rule file against the schema.

    Raises:
        RuleError: It does not fit; the sentence names the JSON path of the first place that does not.
    """
    import jsonschema

    errors = list(jsonschema.Draft202012Validator(schema()).iter_errors(document))
    if errors:
        error = _most_telling(errors)
        raise RuleError(f"{path}: {error.json_path}: {_reason(error)}")


def _most_telling(errors: Iterable[Any]) -> Any:
    """Of the errors, the deepest: in a choice, that is the alternative the author meant."""
    error = min(errors, key=lambda e: list(map(str, e.absolute_path)))
    while error.context:
        error = max(error.context, key=lambda e: (len(e.absolute_path), e.validator != "required"))
    return error


def _reason(error: Any) -> str:
    if error.validator == "additionalProperties":
        allowed = ", ".join(sorted(error.schema.get("properties", {})))
        return f"{error.message}; allowed here: {allowed}."
    return f"{error.message}."


def _check_roles(documents: list[tuple[Path, dict[str, Any]]], roles: dict[str, Role]) -> None:
    for path, document in documents:
        for index, entry in enumerate(document.get("rules", ())):
            role = entry["match"].get("role")
            if role is not None and role not in roles:
                known = ", ".join(sorted(roles))
                raise RuleError(f"{path}: $.rules[{index}].match.role: no role is called '{role}'; known: {known}.")


def _rule(entry: dict[str, Any], builtin: bool) -> Rule:
    then = entry["then"]
    report = then.get("report")
    return Rule(
        id=entry["id"],
        why=entry["why"],
        match=_match(entry["match"]),
        then=Then(
            rename=then.get("rename"),
            replace=then.get("replace"),
            remove=then.get("remove", False),
            needs_target=then.get("needs_target", False),
            imports=then.get("imports"),
            report=Report(FindingKind(report["kind"]), report["message"]) if report else None,
            trait=then.get("trait"),
            keep=then.get("keep", False),
        ),
        examples=tuple(_example(example) for example in entry["examples"]),
        since=entry.get("since"),
        until=entry.get("until"),
        where=_where(entry.get("where", {})),
        builtin=builtin,
    )


def _where(entry: dict[str, Any]) -> Where:
    return Where(frozenset(entry.get("files", ())), frozenset(entry.get("imports", ())))


def _match(entry: dict[str, Any]) -> Match:
    return next(read(entry) for key, read in _MATCHES.items() if key in entry)


# By the key that only this kind of match has.
_MATCHES: dict[str, Callable[[dict[str, Any]], Match]] = {
    "name": lambda entry: NameMatch(entry["name"]),
    "method": lambda entry: MethodMatch(
        entry["method"], frozenset(entry.get("receiver", ("tensor", "module", "unknown")))
    ),
    "attribute": lambda entry: AttributeMatch(entry["attribute"]),
    "string": lambda entry: StringMatch(entry["string"], entry.get("role")),
    "pattern": lambda entry: PatternMatch(entry["pattern"]),
    "call": lambda entry: CallMatch(entry["call"]),
    "argument": lambda entry: ArgumentMatch(
        entry["argument"], entry["of"], entry.get("value"), frozenset(entry.get("unless", ()))
    ),
    "import": lambda entry: ImportMatch(entry["import"], frozenset(entry.get("distributions", ()))),
    "environment": lambda entry: EnvironmentMatch(entry["environment"]),
    "command": lambda entry: CommandMatch(entry["command"]),
}


def _example(entry: dict[str, Any]) -> Example:
    reports = FindingKind(entry["reports"]) if "reports" in entry else None
    before = entry["keep"] if "keep" in entry else entry["before"]
    return Example(before, entry.get("after", before), reports, entry.get("version"), entry.get("file", "example.py"))


def _role(entry: dict[str, Any]) -> Role:
    kinds = ("words", "siblings", "callables", "methods", "attributes", "strangers")
    sets = {key: frozenset(entry.get(key, ())) for key in kinds}
    return Role(**sets, prefix=entry.get("prefix"), suffix=entry.get("suffix"))


def _merge(first: Role, second: Role) -> Role:
    return Role(
        words=first.words | second.words,
        siblings=first.siblings | second.siblings,
        callables=first.callables | second.callables,
        methods=first.methods | second.methods,
        attributes=first.attributes | second.attributes,
        strangers=first.strangers | second.strangers,
        prefix=first.prefix or second.prefix,
        suffix=first.suffix or second.suffix,
    )
