"""Rules in words, for pages and terminals; names of code stand in backquotes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gpu2npu.rulebook.rule import (
    ArgumentMatch,
    AttributeMatch,
    CallMatch,
    CommandMatch,
    EnvironmentMatch,
    ImportMatch,
    Match,
    MethodMatch,
    NameMatch,
    PatternMatch,
    Rule,
    StringMatch,
    Then,
    Where,
)


def match_text(match: Match) -> str:
    """Describe what a rule matches, as the end of a sentence that begins "Matches"."""
    if isinstance(match, NameMatch):
        return f"the name `{match.name}` and what is under it, however it was imported"
    if isinstance(match, MethodMatch):
        return f"calls of `.{match.method}()` on: {', '.join(sorted(match.receiver))}"
    if isinstance(match, AttributeMatch):
        return f"reads of `.{match.attribute}`" + (f" on what `{match.of}` gives" if match.of else "")
    if isinstance(match, StringMatch):
        return f"the string `{match.string}`" + (f" where it means a {match.role}" if match.role else "")
    if isinstance(match, PatternMatch):
        return f"strings in which the regular expression `{match.pattern}` finds something"
    if isinstance(match, CallMatch):
        number = f" with {match.arguments} arguments" if match.arguments is not None else ""
        number += f" without `{match.without}=`" if match.without is not None else ""
        return f"calls of {_callee(match.call)}{number}"
    if isinstance(match, ArgumentMatch):
        return _argument(match)
    if isinstance(match, ImportMatch):
        names = f", installed as {_list(match.distributions)}" if match.distributions else ""
        if match.module.startswith("*"):
            return f"imports of modules `{match.module}` that the project does not have in Python{names}"
        return f"imports of `{match.module}` and of what is under it{names}"
    if isinstance(match, EnvironmentMatch):
        family = match.variable.endswith("*")
        return f"the environment variable{'s' if family else ''} `{match.variable}`"
    assert isinstance(match, CommandMatch)
    return f"the command `{match.command}` in scripts, and where Python code runs it"


def _callee(name: str) -> str:
    return f"any function or method `{name[2:]}`" if name.startswith("*.") else f"`{name}`"


def _argument(match: ArgumentMatch) -> str:
    which = f"argument {match.argument} (from 0)" if isinstance(match.argument, int) else f"argument `{match.argument}`"
    text = f"the {which} of calls of {'any function' if match.of == '*' else _callee(match.of)}"
    if match.value is not None:
        text += f", where it is the string `{match.value}`"
    if match.unless:
        text += f", unless it is written {_list(match.unless)}"
    if match.unless_found is not None:
        text += f", unless `{match.unless_found}` is found in it"
    return text


def then_texts(then: Then) -> Iterator[str]:
    """Yield what is done with a match, one sentence each."""
    if then.rename is not None:
        only = ", where the torch_npu release has it; elsewhere it is left and reported" if then.needs_target else ""
        only = ", where it is set to a value that is known; elsewhere it is left" if then.values else only
        yield f"Becomes `{then.rename}`{only}."
    if then.values:
        yield f"Its values: {', '.join(f'`{old}` becomes `{new}`' for old, new in then.values)}."
    if then.replace is not None:
        yield f"Is replaced by `{then.replace}`."
    if then.remove:
        yield "Is taken out."
    if then.imports is not None:
        yield f"The file imports `{then.imports}`."
    if then.report is not None:
        yield f"Reports ({then.report.kind.value}, {then.report.severity.value}): {then.report.message}"
    if then.trait is not None:
        yield f"Marks the program as {then.trait}."
    if then.keep:
        yield "Is left as it is; later rules do not see it."


def limit_texts(rule: Rule) -> Iterator[str]:
    """Yield the files and versions that a rule is for, one sentence each."""
    if rule.since is not None and rule.until is not None:
        yield f"For PyTorch {rule.since} to {rule.until}."
    elif rule.since is not None:
        yield f"For PyTorch {rule.since} and later."
    elif rule.until is not None:
        yield f"For PyTorch {rule.until} and earlier."
    if rule.needs is not None:
        yield f"For releases of torch_npu that have `{rule.needs}`."
    if rule.lacks is not None:
        yield f"For releases of torch_npu without `{rule.lacks}`."
    yield from where_texts(rule.where)
    if rule.source:
        yield f"Source: {rule.source}."


def where_texts(where: Where) -> Iterator[str]:
    """The files that a rule is for."""
    if where.files:
        yield f"Only in files whose path fits {_list(where.files)}."
    if where.imports:
        yield f"Only in files that import {_list(where.imports)}."


_SUBJECTS: dict[type[Match], Callable[[Any], str]] = {
    NameMatch: lambda match: match.name,
    MethodMatch: lambda match: f".{match.method}()",
    AttributeMatch: lambda match: f"{f'{match.of}()' if match.of else ''}.{match.attribute}",
    StringMatch: lambda match: f"{match.string!r}" + (f" as {match.role}" if match.role else ""),
    PatternMatch: lambda match: f"/{match.pattern}/",
    CallMatch: lambda match: f"{match.call}()",
    ArgumentMatch: lambda match: f"{match.of}({match.argument}{f'={match.value!r}' if match.value else ''})",
    ImportMatch: lambda match: f"import {match.module}",
    EnvironmentMatch: lambda match: f"${match.variable}",
    CommandMatch: lambda match: f"{match.command} (command)",
}


def one_line(rule: Rule) -> str:
    """A rule in one short line: what becomes of what."""
    then = rule.then
    result = then.rename or then.replace or ("removed" if then.remove else "kept" if then.keep else "")
    if then.report is not None:
        result += ("; " if result else "") + f"reported: {then.report.kind.value}"
    return f"{_SUBJECTS[type(rule.match)](rule.match)} -> {result or f'noted: {then.trait}'}"


def _list(words: frozenset[str]) -> str:
    return ", ".join(f"`{word}`" for word in sorted(words))
