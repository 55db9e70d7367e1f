"""Rules in words, for pages and terminals; names of code are in backquotes."""

from __future__ import annotations

from collections.abc import Iterator

from gpu2npu.language import message, sentence, shown
from gpu2npu.rulebook.match import listed
from gpu2npu.rulebook.rule import Rule, Then, Where


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
    if then.codemod is not None:
        yield f"Is rewritten by code that runs, the function `{then.codemod}`."
    if then.remove:
        yield "Is taken out."
    if then.add is not None:
        place = f" ({then.add.place})" if then.add.what == "statement" else ""
        yield f"Gets the {then.add.what} `{then.add.code}`{place}."
    if then.imports is not None:
        yield f"The file imports `{then.imports}`."
    if then.report is not None:
        report = then.report
        yield sentence("Reports ({}): {}", f"{report.kind.value}, {report.severity.value}", report.message)
    if then.trait is not None:
        yield f"Marks the program as {then.trait}."
    if then.own_devices:
        yield "Devices that it is given stay as they are, and are reported: it knows no NPU."
    if then.plugin is not None:
        yield f"Runs on Ascend beside `{then.plugin}`: a check of the package itself is not blocked by it."
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
        yield f"Only in files whose path fits {listed(where.files)}."
    if where.imports:
        yield f"Only in files that import {listed(where.imports)}."
    if where.nearby:
        yield f"Only in files that import {listed(where.nearby)}, or that imports join to one that does."
    if where.project:
        yield f"Only in projects that import {listed(where.project)} somewhere."
    if where.without:
        yield f"Only in projects that import {listed(where.without)} nowhere."


def one_line(rule: Rule) -> str:
    """A rule in one short line: what becomes of what."""
    then = rule.then
    result = (
        then.rename
        or then.replace
        or (then.codemod and f"code that runs, {then.codemod}")
        or (shown(message("removed")) if then.remove else "")
        or (sentence("with {}", then.add.code) if then.add else shown(message("kept")) if then.keep else "")
    )
    if then.report is not None:
        result += ("; " if result else "") + sentence("reported: {}", then.report.kind.value)
    return f"{rule.match.subject} -> {result or sentence('noted: {}', then.trait)}"
