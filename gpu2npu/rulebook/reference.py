"""The rule reference, docs/rules.md, made from the rules: `python -m gpu2npu.rulebook.reference > docs/rules.md`."""

from __future__ import annotations

from collections.abc import Iterator

from gpu2npu.rulebook.load import load_rulebook
from gpu2npu.rulebook.rule import AttributeMatch, Example, Match, MethodMatch, NameMatch, Role, Rule, StringMatch

_HEAD = """\
# Rule reference

Made from the files in `rules/` by `make docs`; the examples are executed as tests. Ids are stable: they stand in the
column Rule of `change_list.csv`.
"""


def reference() -> str:
    """The whole page, as Markdown."""
    rulebook = load_rulebook()
    parts = [_HEAD, "## Rules\n"]
    for rule in rulebook.rules:
        parts += _rule(rule)
    parts.append("## Roles\n\nWhere a bare string has a certain meaning.\n")
    for name, role in sorted(rulebook.roles.items()):
        parts += _role(name, role)
    return "\n".join(parts)


def _rule(rule: Rule) -> Iterator[str]:
    yield f"### `{rule.id}`\n\n{rule.why}\n"
    yield f"- Matches {_match(rule.match)}."
    then = rule.then
    if then.rename is not None:
        condition = (
            ", where the torch_npu release has it; elsewhere it is left and reported" if then.needs_target else ""
        )
        yield f"- Becomes `{then.rename}`{condition}."
    if then.report is not None:
        yield f"- Reports ({then.report.kind.value}): {then.report.message}"
    if then.trait is not None:
        yield f"- Marks the program as {then.trait}."
    yield ""
    for example in rule.examples:
        yield _example(example)


def _match(match: Match) -> str:
    if isinstance(match, NameMatch):
        return f"the name `{match.name}` and what is under it, however it was imported"
    if isinstance(match, MethodMatch):
        return f"calls of `.{match.method}()` on: {', '.join(sorted(match.receiver))}"
    if isinstance(match, AttributeMatch):
        return f"reads of `.{match.attribute}`"
    if isinstance(match, StringMatch):
        return f"the string `{match.string}`" + (f" where it means a {match.role}" if match.role else "")
    return ""


def _example(example: Example) -> str:
    note = f"  # reported: {example.reports.value}" if example.reports is not None else ""
    if example.before == example.after:
        return f"Stays{note.replace('  # ', ', ')}:\n\n```python\n{example.before.rstrip()}\n```\n"
    removed = "\n".join(f"-{line}" for line in example.before.rstrip().split("\n"))
    added = "\n".join(f"+{line}" for line in example.after.rstrip().split("\n"))
    return f"```diff\n{removed}\n{added}\n```\n"


def _role(name: str, role: Role) -> Iterator[str]:
    yield f"### `{name}`\n"
    for label, words in (
        ("Names that hold one", role.words),
        ("Strings beside it", role.siblings),
        ("Callables that take one", role.callables),
        ("Methods that take one", role.methods),
        ("Attributes that are one", role.attributes),
    ):
        if words:
            yield f"- {label}: {', '.join(f'`{word}`' for word in sorted(words))}"
    yield ""


if __name__ == "__main__":
    print(reference(), end="")
