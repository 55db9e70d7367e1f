"""The rule reference, the pages under docs/rules/: made from the rules by `gpu2npu rules docs`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from gpu2npu.rulebook.describe import limit_texts, one_line, then_texts
from gpu2npu.rulebook.rule import Example, Role, Rule, Rulebook

INDEX = "index.md"
ROLES = "roles.md"

_HEAD = """\
# Rule reference

Made from the files in `rules/` by `make docs`; the examples are executed as tests. Ids are stable: they are in the
column Rule of `change_list.csv`, and `--skip-rules` takes them.

Which rule counts where several match: [the order of rules](../rule-order.md). How to write one:
[writing rules](../writing-rules.md).
"""


def page_of(rule: Rule) -> str:
    """The place of a rule in the reference, from docs/: a page and an anchor; "" for a rule of the user's own."""
    return f"rules/{_page(rule.file)}#{rule.id}" if rule.builtin else ""


def _page(file: str) -> str:
    return file.removesuffix(".json") + ".md"


def reference(rulebook: Rulebook) -> dict[str, str]:
    """The pages as Markdown, by their file names: an index, one for each built-in rule file, one for the roles."""
    pages = {}
    index = [_HEAD]
    for file, rules in groupby(sorted(rulebook.rules, key=lambda rule: rule.file), key=lambda rule: rule.file):
        page = _page(file)
        listed = list(rules)
        index.append(f"## [{file}]({page})\n")
        index += [f"- [`{rule.id}`]({page}#{rule.id}): {_code(one_line(rule))}" for rule in listed]
        index.append("")
        pages[page] = "\n".join([f"# {file}\n", *(part for rule in listed for part in _rule(rule))])
    index.append(f"## [Roles]({ROLES})\n\nWhere a bare string has a certain meaning.\n")
    pages[INDEX] = "\n".join(index)
    roles = [part for name, role in sorted(rulebook.roles.items()) for part in _role(name, role)]
    pages[ROLES] = "\n".join(["# Roles\n\nWhere a bare string has a certain meaning.\n", *roles])
    return pages


def section_of(rule: Rule) -> str:
    """All that the reference has of a rule, as Markdown."""
    return "\n".join(_rule(rule))


def _rule(rule: Rule) -> Iterator[str]:
    # The heading's own anchor is the id, on every site that shows Markdown.
    yield f"## {rule.id}\n\n{rule.why}\n"
    yield f"- Matches {rule.match.text}."
    for sentence in (*then_texts(rule.then), *limit_texts(rule)):
        yield f"- {sentence}"
    yield ""
    for example in rule.examples:
        yield _example(example)


def _example(example: Example) -> str:
    notes = [f"for PyTorch {example.version}"] if example.version else []
    if example.file != "example.py":
        notes.append(f"in `{example.file}`")
    if example.reports is not None:
        notes.append(f"reported: {example.reports.value}")
    note = f", {', '.join(notes)}" if notes else ""
    if example.before == example.after:
        language = "python" if example.file.endswith(".py") else ""
        return f"Stays{note}:\n\n{_fenced(example.before.rstrip(), language)}\n"
    removed = "\n".join(f"-{line}" for line in example.before.rstrip().split("\n"))
    added = "\n".join(f"+{line}" for line in example.after.rstrip().split("\n"))
    return f"Changes{note}:\n\n{_fenced(f'{removed}{chr(10)}{added}', 'diff')}\n"


def _fenced(code: str, language: str) -> str:
    fence = "```"
    while fence in code:
        fence += "`"
    return f"{fence}{language}\n{code}\n{fence}"


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _role(name: str, role: Role) -> Iterator[str]:
    yield f"## {name}\n"
    for label, words in (
        ("Names that hold one", role.words),
        ("Strings beside it", role.siblings),
        ("Callables that take one", role.callables),
        ("Callables that take none", role.others),
        ("Methods that take one", role.methods),
        ("Attributes that are one", role.attributes),
        ("Names of features that are for CUDA alone", role.features),
        ("Strings beside which the siblings prove nothing", role.strangers),
        ("Names of vendors, beside which it is one", role.vendors),
    ):
        if words:
            yield f"- {label}: {', '.join(_code(word) for word in sorted(words))}"
    for label, pattern in (("Before it", role.prefix), ("After it", role.suffix)):
        if pattern is not None:
            yield f"- {label} in the same string: {_code(pattern)}"
    yield ""
